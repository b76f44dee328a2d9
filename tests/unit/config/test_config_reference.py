import re
import subprocess
import sys
from pathlib import Path

import pytest

from crux.config import AuthMode, Settings, declarations, describe, describe_calls, load, reference_markdown
from crux.config.declaration import Declaration, masked, shown
from crux.config.reference import Row
from crux.logs import redact_text

PAGE = Path(__file__).parents[3] / "docs" / "configuration.md"
TABLE = declarations(Settings)


def rows(environ: dict[str, str], home: Path) -> dict[str, Row]:
    return {row.name: row for row in describe(load(environ, home=home))}


def test_the_reference_page_is_the_generated_one() -> None:
    assert PAGE.read_text(encoding="utf-8") == reference_markdown(), (
        "run: python -m crux.config > docs/configuration.md"
    )


def test_the_module_prints_the_reference_page() -> None:
    printed = subprocess.run([sys.executable, "-m", "crux.config"], check=True, capture_output=True)
    assert printed.stdout.decode() == reference_markdown()


def test_the_example_of_the_page_is_a_file_that_loads(tmp_path: Path) -> None:
    example = re.search(r"```yaml\n(.*?)```", reference_markdown(), re.DOTALL)
    assert example
    (tmp_path / "config.yaml").write_text(example[1], encoding="utf-8")
    loaded = load({"CORECRUXD_CONFIG_PATH": str(tmp_path / "config.yaml")}, home=tmp_path)
    assert loaded.settings == Settings(auth_mode=AuthMode.DEV_SCOPES, data_dir=tmp_path / "crux-data")
    assert {name for name, declaration in TABLE.items() if declaration.file} == {
        name for name, source in loaded.sources.items() if source.startswith("file ")
    }


def test_each_variable_belongs_to_one_setting() -> None:
    variables = [declaration.env for declaration in TABLE.values()]
    assert len(set(variables)) == len(variables)


@pytest.mark.parametrize("declaration", TABLE.values(), ids=TABLE.keys())
def test_each_setting_has_a_variable_a_meaning_and_a_parser(declaration: Declaration) -> None:
    assert re.fullmatch(r"(CORECRUXD?|CRUX)_[A-Z0-9_]+", declaration.env)
    assert declaration.meaning.endswith(".")
    assert "|" not in declaration.meaning
    assert callable(declaration.parse)
    assert declaration.file is None or (declaration.file.startswith("daemon.") and not declaration.secret)
    assert f"`{declaration.env}`" in reference_markdown()


@pytest.mark.parametrize("name", [name for name, declaration in TABLE.items() if not declaration.secret])
def test_a_default_that_is_shown_reads_back_as_itself(name: str) -> None:
    default = getattr(Settings(), name)
    if default not in (None, ()):
        assert TABLE[name].parse(shown(default)) == default


def test_a_row_tells_value_and_source(tmp_path: Path) -> None:
    row = rows({"CORECRUXD_HTTP_PORT": "80"}, tmp_path)["http_port"]
    assert (row.env, row.file) == ("CORECRUXD_HTTP_PORT", "daemon.http_port")
    assert (row.value, row.source) == ("80", "env CORECRUXD_HTTP_PORT")
    assert row.meaning == TABLE["http_port"].meaning


def test_a_row_says_what_an_unset_value_leads_to(tmp_path: Path) -> None:
    described = rows({"CORECRUXD_AUTH_MODE": "dev"}, tmp_path)
    assert described["auth_mode"].value == "dev_scopes"
    assert described["jwt_issuer"].value == "unset"
    assert rows({}, tmp_path)["auth_mode"].value == "dev_scopes on loopback, else required"


def test_no_secret_shows_in_rows_or_repr(tmp_path: Path) -> None:
    secrets = {declaration.env: f"hunter2{'x' * 40}" for declaration in TABLE.values() if declaration.secret}
    loaded = load(secrets, home=tmp_path)
    assert len(secrets) == 4
    assert "hunter2" not in repr(loaded)
    assert "hunter2" not in repr(describe(loaded))
    assert rows(secrets, tmp_path)["agent_token"].value == "(secret, set)"


def test_what_a_call_is_bound_by_is_told_with_its_source() -> None:
    environ = {
        "CORECRUXD_EXTENSIONS_TIMEOUT_SECONDS": "9",
        "CORECRUXD_EXTENSIONS_MAX_REQUEST_BYTES": "1k",
        "CORECRUXD_EXTENSIONS_ALLOW_PRIVATE_HOSTS": "b.example,a.example",
    }
    told = {row.env.removeprefix("CORECRUXD_EXTENSIONS_"): (row.value, row.source) for row in describe_calls(environ)}
    assert told == {
        "TIMEOUT_SECONDS": ("9", "env CORECRUXD_EXTENSIONS_TIMEOUT_SECONDS"),
        "MAX_REQUEST_BYTES": ("262144", "default, since env CORECRUXD_EXTENSIONS_MAX_REQUEST_BYTES is malformed"),
        "MAX_RESPONSE_BYTES": ("262144", "default"),
        "DEFAULT_RATE_PER_MIN": ("10", "default"),
        "ALLOW_PLAIN_HTTP": ("false", "default"),
        "ALLOW_UNSIGNED": ("false", "default"),
        "ALLOW_PRIVATE_HOSTS": ("a.example b.example", "env CORECRUXD_EXTENSIONS_ALLOW_PRIVATE_HOSTS"),
    }


def test_each_variable_of_a_call_is_known_and_documented(tmp_path: Path) -> None:
    rows = describe_calls({})
    assert load({row.env: "1" for row in rows}, home=tmp_path).warnings == ()
    for row in rows:
        assert row.meaning.endswith(".")
        assert f"| `{row.env}` | {row.value} |" in reference_markdown()


def test_a_masked_secret_tells_its_length_class_only() -> None:
    assert [masked(None), masked("short"), masked(b"k" * 32)] == [
        "(secret, unset)",
        "(secret, set, under 32 bytes)",
        "(secret, set)",
    ]


def test_the_page_holds_nothing_that_looks_like_a_secret() -> None:
    assert redact_text(reference_markdown()) == reference_markdown()
