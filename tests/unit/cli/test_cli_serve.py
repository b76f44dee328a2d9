import logging
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
import structlog

from crux import daemon
from crux.config import Loaded
from crux.errors import StartRefused
from crux.logs import get_logger
from tests.unit.cli.conftest import Cli

Runs = Callable[[Callable[..., object]], None]


@pytest.fixture(autouse=True)
def _process_as_before() -> Iterator[None]:
    root, umask = logging.getLogger(), os.umask(0o022)
    os.umask(umask)
    level, handlers = root.level, root.handlers[:]
    yield
    os.umask(umask)
    structlog.reset_defaults()
    root.setLevel(level)
    root.handlers[:] = handlers


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Runs:
    def instead(run: Callable[..., object]) -> None:
        monkeypatch.setattr(daemon, "run", run)

    return instead


@pytest.mark.parametrize(("mcp", "shown"), [("http://127.0.0.1:2/mcp", "http://127.0.0.1:2/mcp"), (None, "off")])
def test_a_daemon_that_serves_says_so_in_one_line_and_ends_with_0(
    mcp: str | None, shown: str, cli: Cli, runs: Runs
) -> None:
    runs(
        lambda loaded, announce, redactions: announce(
            daemon.Ready("http://127.0.0.1:1", mcp, Path("/data"), "0.1.0", ())
        )
    )
    result = cli("serve")
    assert (result.exit_code, result.stdout, result.stderr) == (
        0,
        f"crux 0.1.0 ready: http http://127.0.0.1:1, mcp {shown}, data /data\n",
        "",
    )


def test_the_daemon_gets_the_settings_of_the_environment(cli: Cli, runs: Runs) -> None:
    ports: list[int] = []
    runs(lambda loaded, announce, redactions: ports.append(loaded.settings.http_port))
    cli("serve", CORECRUXD_HTTP_PORT="4711")
    assert ports == [4711]


@pytest.mark.parametrize(("mode", "counted"), [("on", {"field": 1}), ("audit", {"field": 1}), ("off", {})])
def test_the_daemon_gets_the_live_count_of_what_the_log_should_not_show(
    mode: str, counted: dict[str, int], cli: Cli, runs: Runs
) -> None:
    seen: list[dict[str, int]] = []

    def run(loaded: Loaded, announce: daemon.Announce, redactions: Mapping[str, int]) -> None:
        get_logger("crux.test").warning("a slip", password="tulip")
        seen.append(dict(redactions))

    runs(run)
    assert ("tulip" in cli("serve", CORECRUXD_REDACT=mode).stderr) == (mode != "on")
    assert seen == [counted]


def test_what_the_daemon_writes_is_for_its_owner_alone(cli: Cli, runs: Runs, tmp_path: Path) -> None:
    runs(lambda loaded, announce, redactions: (tmp_path / "written").touch())
    cli("serve")
    assert (tmp_path / "written").stat().st_mode & 0o777 == 0o600


def test_a_refused_start_is_one_line_and_exit_code_1(cli: Cli, runs: Runs) -> None:
    def refuse(loaded: Loaded, announce: daemon.Announce, redactions: Mapping[str, int]) -> None:
        raise StartRefused("the port is taken")

    runs(refuse)
    result = cli("serve")
    assert (result.exit_code, result.stdout, result.stderr) == (1, "", "crux: the port is taken\n")


def test_a_malformed_setting_refuses_the_start(cli: Cli) -> None:
    result = cli("serve", CORECRUXD_HTTP_PORT="many")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "crux: CORECRUXD_HTTP_PORT is 'many', expected a port number from 0 to 65535\n"


@pytest.mark.parametrize("error", [ValueError("a bug"), ExceptionGroup("both", [OSError(), ValueError("a bug")])])
def test_a_crash_is_logged_and_tells_itself_from_a_refused_start(error: Exception, cli: Cli, runs: Runs) -> None:
    def crash(loaded: Loaded, announce: daemon.Announce, redactions: Mapping[str, int]) -> None:
        raise error

    runs(crash)
    result = cli("serve")
    assert result.exit_code == 70
    assert "the daemon crashed" in result.stderr
    assert "ValueError: a bug" in result.stderr


def test_what_is_odd_about_the_settings_is_logged_once_it_serves(cli: Cli, runs: Runs) -> None:
    runs(
        lambda loaded, announce, redactions: announce(
            daemon.Ready("h", "m", Path("/d"), "0", ("section 'x' is not used",))
        )
    )
    result = cli("serve")
    assert len(result.stdout.splitlines()) == 1
    assert "warn  section 'x' is not used" in result.stderr
