"""Starts that are refused: one line that says what to do, exit code 1, and nothing changed."""

from __future__ import annotations

import resource
import socket
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from crux.daemon import OPEN_FILES
from tests.daemons import Daemon, NotReady


def damage(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[4096:8192] = b"\xff" * 4096
    path.write_bytes(content)


def from_the_future(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 999")
    connection.close()


@pytest.mark.parametrize(
    ("harm", "says"), [(damage, "Restore the last copy"), (from_the_future, "start the newer version")]
)
def test_a_database_that_cannot_be_used_is_refused_and_left_alone(
    tmp_path: Path, harm: Callable[[Path], None], says: str
) -> None:
    with Daemon(tmp_path) as daemon:
        pass
    database = daemon.data_dir / "crux.db"
    harm(database)
    before = database.read_bytes()
    with pytest.raises(NotReady, match=says) as caught:
        daemon.start()
    assert caught.value.exit_code == 1
    assert database.read_bytes() == before
    (line,) = (line for line in daemon.log().splitlines() if line.startswith("crux: "))
    assert str(database) in line


def test_an_installation_without_a_whole_id_is_refused_until_it_has_one_again(tmp_path: Path) -> None:
    with Daemon(tmp_path) as daemon:
        pass
    (daemon.data_dir / ".install-uuid").write_text("")
    with pytest.raises(NotReady, match="does not hold 32 hex digits") as caught:
        daemon.start()
    assert caught.value.exit_code == 1
    assert len([line for line in daemon.log().splitlines() if line.startswith("crux: ")]) == 1
    (daemon.data_dir / ".install-uuid").unlink()
    with daemon:
        pass


def test_a_daemon_opens_as_many_files_as_it_is_allowed(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert hard > 512, "a machine that allows so little is none to test this on"
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, hard))
    try:
        with Daemon(tmp_path) as daemon:
            allowed = resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert allowed == (min(hard, OPEN_FILES), hard)


def test_two_ports_that_are_one_are_refused_by_their_names(tmp_path: Path) -> None:
    with pytest.raises(NotReady, match="CORECRUXD_HTTP_PORT and CORECRUXD_MCP_PORT are both 14899"):
        Daemon(tmp_path, CORECRUXD_HTTP_PORT="14899", CORECRUXD_MCP_PORT="14899").start()


def test_the_second_daemon_on_a_directory_says_who_holds_it(tmp_path: Path) -> None:
    with Daemon(tmp_path) as first:
        second = Daemon(tmp_path)
        with pytest.raises(NotReady, match=f"in use by another daemon .pid {first.process.pid}"):
            second.start()


def test_a_port_that_is_taken_is_named_with_its_setting(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(NotReady, match=f"127.0.0.1:{port} .* CORECRUXD_MCP_PORT"):
            Daemon(tmp_path, CORECRUXD_MCP_PORT=str(port)).start()


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"CORECRUXD_HTTP_PORT": "http"}, "CORECRUXD_HTTP_PORT"),
        ({"CRUX_AGENT_TOKEN": "short"}, "CRUX_AGENT_TOKEN is not usable"),
        ({"CRUX_AGENT_TOKENS": ""}, "CRUX_AGENT_TOKENS is set but empty"),
        ({"CORECRUXD_HTTP_HOST": "0.0.0.0"}, "CORECRUXD_AUTH_MODE has to be set"),
        ({"CORECRUXD_MCP_HOST": "0.0.0.0", "CORECRUXD_AUTH_MODE": "off"}, "no agent tokens"),
        ({"CORECRUXD_AUTH_MODE": "jwt_hs256"}, "CORECRUXD_JWT_HS256_SECRET"),
    ],
)
def test_what_is_wrong_with_a_setting_is_one_line(tmp_path: Path, settings: dict[str, str], says: str) -> None:
    with pytest.raises(NotReady, match=says) as caught:
        Daemon(tmp_path, **settings).start()
    assert caught.value.exit_code == 1


def test_a_secret_is_never_printed(tmp_path: Path) -> None:
    secret = "not-long-enough-but-secret"
    daemon = Daemon(tmp_path, CRUX_AGENT_TOKENS=f"bob:{secret}")
    with pytest.raises(NotReady):
        daemon.start()
    assert secret not in daemon.log()
