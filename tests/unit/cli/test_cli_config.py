import json

import pytest

from crux.config import Settings, declarations
from crux.domain.outbound_config import KNOBS
from tests.unit.cli.conftest import Cli


def rows(stdout: str) -> dict[str, dict[str, str]]:
    return {row["env"]: row for row in json.loads(stdout)}


def test_every_setting_is_shown_with_its_source(cli: Cli) -> None:
    result = cli("config", CORECRUXD_HTTP_PORT="4711")
    assert (result.exit_code, result.stderr) == (0, "")
    lines = {line.split()[0]: line for line in result.stdout.splitlines() if line.strip()}
    assert {declaration.env for declaration in declarations(Settings).values()} < set(lines)
    assert lines["CORECRUXD_HTTP_PORT"].split() == ["CORECRUXD_HTTP_PORT", "4711", "env", "CORECRUXD_HTTP_PORT"]
    assert lines["CORECRUXD_MCP_PORT"].split() == ["CORECRUXD_MCP_PORT", "14801", "default"]


def test_json_has_the_same_rows(cli: Cli) -> None:
    result = cli("config", "--json", CORECRUXD_HTTP_PORT="4711")
    found = rows(result.stdout)
    assert len(found) == len(declarations(Settings)) + len(KNOBS)
    assert found["CORECRUXD_HTTP_PORT"] == {
        "name": "http_port",
        "env": "CORECRUXD_HTTP_PORT",
        "file": "daemon.http_port",
        "value": "4711",
        "source": "env CORECRUXD_HTTP_PORT",
    }


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_no_secret_is_shown(options: list[str], cli: Cli) -> None:
    token = "t0ken" * 8
    result = cli(
        "config", *options, CRUX_AGENT_TOKEN=token, CRUX_AGENT_TOKENS=f"a:{token}", CORECRUXD_JWT_HS256_SECRET=token
    )
    assert result.exit_code == 0
    assert "t0ken" not in result.output
    assert result.stdout.count("(secret, set)") == 3


@pytest.mark.parametrize(
    ("environ", "complaint", "hidden"),
    [
        ({"CORECRUXD_HTTP_PORT": "many"}, "CORECRUXD_HTTP_PORT is 'many'", {"CORECRUXD_HTTP_PORT"}),
        (
            {"CORECRUXD_HTTP_PORT": "many", "CORECRUXD_LOG_LEVEL": "loud"},
            "CORECRUXD_HTTP_PORT is 'many', expected a port number from 0 to 65535 (and 1 more)",
            {"CORECRUXD_HTTP_PORT", "CORECRUXD_LOG_LEVEL"},
        ),
        ({"CORECRUXD_AUTH_MODE": "jwks"}, "CORECRUXD_AUTH_MODE is 'jwks'", {"CORECRUXD_AUTH_MODE"}),
    ],
)
def test_a_malformed_value_is_said_in_one_line_and_the_rest_is_listed(
    environ: dict[str, str], complaint: str, hidden: set[str], cli: Cli
) -> None:
    result = cli("config", "--json", CORECRUXD_MCP_PORT="4712", **environ)
    assert result.exit_code == 1
    assert result.stderr.startswith(f"crux: {complaint}")
    assert len(result.stderr.splitlines()) == 1
    found = rows(result.stdout)
    assert found["CORECRUXD_MCP_PORT"]["value"] == "4712"
    assert {declaration.env for declaration in declarations(Settings).values()} - set(found) == hidden


def test_where_the_file_is_to_blame_there_is_nothing_to_list(cli: Cli) -> None:
    (cli.home / ".config/crux").mkdir(parents=True)
    (cli.home / ".config/crux/config.yaml").write_text("daemon: {http_port: many}\n")
    result = cli("config", CORECRUXD_MCP_PORT="4712")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "daemon.http_port" in result.stderr
