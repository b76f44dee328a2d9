import json
from pathlib import Path

import pytest

from crux.cli.checks import HERE, OF_SITE
from tests.unit.cli.conftest import Cli


@pytest.fixture
def nothing_runs(tmp_path: Path) -> dict[str, str]:
    return {
        "CORECRUXD_DATA_DIR": str(tmp_path / "data"),
        "CORECRUXD_HTTP_PORT": "0",
        "CORECRUXD_MCP_PORT": "0",
    }


def test_a_new_installation_passes_and_stays_untouched(cli: Cli, nothing_runs: dict[str, str], tmp_path: Path) -> None:
    result = cli("doctor", "--json", **nothing_runs)
    report = json.loads(result.stdout)
    assert (result.exit_code, report["ok"], result.stderr) == (0, True, "")
    assert [check["check"] for check in report["checks"]] == [*HERE, "settings", *OF_SITE]
    assert not (tmp_path / "data").exists()


def test_the_table_has_a_row_for_each_check_with_the_way_to_mend_it(cli: Cli, nothing_runs: dict[str, str]) -> None:
    result = cli("doctor", CORECRUXD_AUTH_MODE="off", CRUX_AGENT_TOKEN="a" * 32, **nothing_runs)
    assert result.exit_code == 0, "a warning is no failure"
    lines = [line.split() for line in result.stdout.splitlines()]
    assert ["python", "ok"] in [line[:2] for line in lines]
    assert ["authentication", "warn"] in [line[:2] for line in lines]
    assert "→ set what is named" in result.stdout


def test_one_failure_is_exit_code_1(cli: Cli, nothing_runs: dict[str, str]) -> None:
    result = cli("doctor", "--json", CRUX_AGENT_TOKEN="short", **nothing_runs)
    report = json.loads(result.stdout)
    failed = [check["check"] for check in report["checks"] if check["verdict"] == "fail"]
    assert (result.exit_code, report["ok"], failed) == (1, False, ["authentication"])


def test_settings_that_do_not_load_leave_only_the_checks_that_need_none(cli: Cli) -> None:
    result = cli("doctor", "--json", CORECRUXD_HTTP_PORT="many")
    *others, settings = json.loads(result.stdout)["checks"]
    assert result.exit_code == 1
    assert [check["check"] for check in others] == list(HERE)
    assert settings["verdict"] == "fail"
    assert settings["text"].startswith("CORECRUXD_HTTP_PORT is 'many', expected a port number from 0 to 65535")


def test_what_is_odd_about_the_file_is_a_warning(cli: Cli, nothing_runs: dict[str, str]) -> None:
    (cli.home / ".config/crux").mkdir(parents=True)
    (cli.home / ".config/crux/config.yaml").write_text("llm: {}\n")
    checks = {check["check"]: check for check in json.loads(cli("doctor", "--json", **nothing_runs).stdout)["checks"]}
    assert checks["settings"]["verdict"] == "warn"
    assert "section 'llm' is not used" in checks["settings"]["text"]
