from pathlib import Path

import pytest

from crux.config import AuthMode, Loaded, Settings, load
from crux.domain.features import Feature
from crux.errors import SettingError, StartRefused
from crux.logs import Redact

KEY = "k" * 32


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def refused(environ: dict[str, str], home: Path) -> str:
    with pytest.raises(SettingError) as refusal:
        load(environ, home=home)
    assert "\n" not in str(refusal.value)
    return str(refusal.value)


def loaded_from_file(text: str, home: Path) -> Loaded:
    write(home / ".config/crux/config.yaml", text)
    return load({}, home=home)


def test_without_variables_and_file_every_setting_is_its_default(home: Path) -> None:
    loaded = load({}, home=home)
    assert loaded.settings == Settings()
    assert set(loaded.sources.values()) == {"default"}
    assert (loaded.file, loaded.warnings) == (None, ())


def test_the_defaults_are_those_of_the_contract() -> None:
    settings = Settings()
    assert (settings.http_host, settings.http_port) == ("127.0.0.1", 14800)
    assert (settings.mcp_host, settings.mcp_port, settings.mcp_enabled) == ("127.0.0.1", 14801, True)
    assert (settings.auth_mode, settings.allow_insecure_bind) == (None, False)
    assert (settings.agent_token, settings.agent_tokens) == (None, None)
    assert (settings.max_body_bytes, settings.max_inflight) == (16777216, 1024)
    assert (settings.request_timeout_s, settings.shutdown_drain_s) == (30, 30)
    assert (settings.decay_volatile_hours, settings.decay_medium_days, settings.decay_stable_days) == (24, 35, 365)
    assert settings.redact is Redact.ON
    assert settings.data_dir.name == "crux"


def test_the_environment_goes_before_the_file_and_the_file_before_the_default(home: Path) -> None:
    file = write(home / ".config/crux/config.yaml", "daemon: {http_port: 1, mcp_port: 2}\n")
    loaded = load({"CORECRUXD_HTTP_PORT": "3"}, home=home)
    assert (loaded.settings.http_port, loaded.settings.mcp_port, loaded.settings.mcp_enabled) == (3, 2, True)
    assert loaded.file == file
    assert loaded.sources["http_port"] == "env CORECRUXD_HTTP_PORT"
    assert loaded.sources["mcp_port"] == f"file {file}: daemon.mcp_port"
    assert loaded.sources["mcp_enabled"] == "default"


def test_listen_addr_serves_both_listeners(home: Path) -> None:
    settings = loaded_from_file("daemon:\n  listen_addr: 10.0.0.1\n", home).settings
    assert (settings.http_host, settings.mcp_host) == ("10.0.0.1", "10.0.0.1")


def test_yaml_words_keep_their_spelling(home: Path) -> None:
    settings = loaded_from_file("daemon:\n  auth_mode: off\n  mcp_enabled: no\n", home).settings
    assert settings.auth_mode is AuthMode.OFF
    assert settings.mcp_enabled is False


def test_the_file_is_looked_for_under_xdg_config_home(home: Path, tmp_path: Path) -> None:
    file = write(tmp_path / "xdg/crux/config.yaml", "daemon: {http_port: 1}\n")
    assert load({"XDG_CONFIG_HOME": str(tmp_path / "xdg")}, home=home).file == file
    assert load({"XDG_CONFIG_HOME": "xdg"}, home=home).file is None, "a relative base directory is void"


def test_the_file_may_be_named(home: Path) -> None:
    file = write(home / "crux.yaml", "daemon: {http_port: 1}\n")
    assert load({"CORECRUXD_CONFIG_PATH": "~/crux.yaml"}, home=home).file == file


def test_a_named_file_that_is_missing_stops_the_start(home: Path) -> None:
    text = refused({"CORECRUXD_CONFIG_PATH": "/no/such.yaml"}, home)
    assert text == "CORECRUXD_CONFIG_PATH is '/no/such.yaml', and there is no such file"


def test_a_named_file_with_an_unknown_variable_stops_the_start(home: Path) -> None:
    assert refused({"CORECRUXD_CONFIG_PATH": "$DIR/a"}, home).startswith("CORECRUXD_CONFIG_PATH is '$DIR/a', expected")


def test_a_file_that_cannot_be_read_stops_the_start(home: Path) -> None:
    (home / ".config/crux/config.yaml").mkdir(parents=True)
    assert "cannot be read: Is a directory" in refused({}, home)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"daemon: {http_port: 1\n", "is not valid YAML: expected ',' or '}'"),
        (b"daemon:\n\thttp_port: 1\n", "at line 2, column 1"),
        (b"a: \x01\n", "is not valid YAML: unacceptable character"),
        (b"a: \xff\n", "is not UTF-8 text"),
        (b"- daemon\n", "is not a mapping of sections such as `daemon:`"),
        (b"daemon: [1]\n", "is not a mapping of keys"),
        (b"daemon: {http_prot: 1}\n", "daemon.http_prot in"),
        (b"daemon: {http_port: [1]}\n", "is a list or a mapping, expected one value"),
        (b"daemon: {http_port: abc}\n", "is 'abc', expected a port number from 0 to 65535"),
    ],
)
def test_a_malformed_file_stops_the_start(content: bytes, expected: str, home: Path) -> None:
    file = write(home / ".config/crux/config.yaml", "")
    file.write_bytes(content)
    text = refused({}, home)
    assert expected in text
    assert str(file) in text


@pytest.mark.parametrize("content", ["", "# nothing\n", "daemon:\n", "daemon:\n  http_port:\n"])
def test_an_empty_file_section_or_value_sets_nothing(content: str, home: Path) -> None:
    assert loaded_from_file(content, home).settings == Settings()


def test_an_unknown_section_is_ignored_with_a_warning(home: Path) -> None:
    loaded = loaded_from_file("passport:\n  key_path: x\n", home)
    assert loaded.warnings == (f"{loaded.file}: section 'passport' is not used",)


def test_no_secret_can_be_set_in_the_file(home: Path) -> None:
    write(home / ".config/crux/config.yaml", f"daemon: {{jwt_hs256_secret: {KEY}}}\n")
    text = refused({}, home)
    assert "daemon.jwt_hs256_secret" in text
    assert KEY not in text


@pytest.mark.parametrize("value", ["", "  "])
def test_a_variable_set_to_nothing_counts_as_unset(value: str, home: Path) -> None:
    assert load({"CORECRUXD_HTTP_PORT": value}, home=home).settings.http_port == 14800


def test_an_agent_token_set_to_nothing_is_not_unset(home: Path) -> None:
    settings = load({"CRUX_AGENT_TOKENS": "", "CRUX_AGENT_TOKEN": ""}, home=home).settings
    assert (settings.agent_tokens, settings.agent_token) == ("", "")


def test_a_malformed_value_is_named_with_what_is_expected(home: Path) -> None:
    text = refused({"CORECRUXD_HTTP_PORT": "a\nb"}, home)
    assert text == r"CORECRUXD_HTTP_PORT is 'a\nb', expected a port number from 0 to 65535"


def test_a_long_malformed_value_is_shortened(home: Path) -> None:
    assert len(refused({"CORECRUXD_LOG_LEVEL": "x" * 10_000}, home)) < 200


def test_more_malformed_values_are_counted(home: Path) -> None:
    environ = {"CORECRUXD_HTTP_PORT": "a", "CORECRUXD_MCP_PORT": "b", "CORECRUXD_REDACT": "c"}
    assert refused(environ, home).endswith("expected a port number from 0 to 65535 (and 2 more)")


def test_a_setting_error_refuses_the_start() -> None:
    assert issubclass(SettingError, StartRefused)


def test_a_bad_secret_is_refused_and_never_shown(home: Path) -> None:
    text = refused({"CORECRUXD_JWT_HS256_SECRET": "base64:not base64"}, home)
    assert text.startswith("CORECRUXD_JWT_HS256_SECRET is set to a value that cannot be used (not shown), expected")
    assert "not base64" not in text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("~/data", "{home}/data"),
        ("~", "{home}"),
        ("$HOME/data", "{home}/data"),
        ("$XDG_STATE_HOME/crux", "/state/crux"),
        ("$XDG_CONFIG_HOME/crux", "{home}/.config/crux"),
        ("/srv/$HOME", "/srv/$HOME"),
        ("relative", "relative"),
    ],
)
def test_the_data_directory_expands_leading_variables(text: str, expected: str, home: Path) -> None:
    environ = {"CORECRUXD_DATA_DIR": text, "XDG_STATE_HOME": "/state"}
    assert load(environ, home=home).settings.data_dir == Path(expected.format(home=home))


def test_a_variable_that_only_begins_like_a_known_one_is_refused(home: Path) -> None:
    assert "expected a path" in refused({"CORECRUXD_DATA_DIR": "$HOMESTEAD/x"}, home)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("CORECRUXD_AGENT_TOKENS", ": is CRUX_AGENT_TOKENS meant?"),
        ("CORECRUXD_LOG_FORMAT", ": is CORECRUX_LOG_FORMAT meant?"),
        ("CRUX_NOTHING_LIKE_IT_AT_ALL", ""),
        ("CORECRUX_X", ""),
    ],
)
def test_a_variable_that_looks_like_ours_and_is_none_is_told_of(name: str, said: str, home: Path) -> None:
    assert load({name: "x"}, home=home).warnings == (f"{name} is no setting of this version{said}",)


@pytest.mark.parametrize("name", ["CRUX_MCP_URL", "CORECRUX_LOOPBACK_TOKEN", "CRUXIFIX", "PATH", "crux_agent_token"])
def test_any_other_variable_is_nobody_s_business(name: str, home: Path) -> None:
    assert load({name: "x"}, home=home).warnings == ()


@pytest.mark.parametrize("feature", Feature)
def test_every_feature_is_on_until_its_switch_says_otherwise(feature: Feature, home: Path) -> None:
    assert load({}, home=home).settings.switched_off == frozenset()
    assert load({feature: "0"}, home=home).settings.switched_off == {feature}
    assert load({feature: ""}, home=home).settings.switched_off == {feature}
    assert load({feature: "1"}, home=home).settings.switched_off == frozenset()
