import hashlib
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from crux.cli.checks import Verdict, data
from crux.errors import StartRefused
from crux.storage.directory import hold
from crux.storage.engine import DATABASE
from crux.storage.keys import install_id, root_key
from crux.storage.sqlite import connect_writer, newest_schema, prepare
from tests.unit.cli.sites import site

OK, WARN, FAIL = Verdict.OK, Verdict.WARN, Verdict.FAIL
DEAD = 2**22 + 1  # above any process id of Linux


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A data directory that a daemon has left in order."""
    path = tmp_path / "data"
    path.mkdir(0o700)
    prepare(path / DATABASE)
    (path / DATABASE).chmod(0o600)
    return path


@pytest.fixture
def crashed(tmp_path: Path) -> Path:
    """A data directory whose daemon was killed: its last writes are in the log alone."""
    path = tmp_path / "data"
    path.mkdir(0o700)
    code = (
        "import os, sys, pathlib; from crux.storage.sqlite import connect_writer, prepare; "
        "path = pathlib.Path(sys.argv[1]); prepare(path); connection = connect_writer(path); "
        "connection.execute('INSERT INTO probe VALUES (1, 1)'); os.kill(os.getpid(), 9)"
    )
    ended = subprocess.run([sys.executable, "-c", code, str(path / DATABASE)], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert (path / f"{DATABASE}-wal").stat().st_size > 0
    return path


@pytest.fixture(autouse=True)
def _writable_again(tmp_path: Path) -> Iterator[None]:
    yield
    for path in tmp_path.iterdir():
        path.chmod(0o700)


def contents(directory: Path) -> dict[str, tuple[int, str]]:
    return {
        entry.name: (entry.stat().st_mtime_ns, hashlib.sha256(entry.read_bytes()).hexdigest())
        for entry in directory.iterdir()
    }


def test_all_is_well_with_what_a_daemon_left(directory: Path) -> None:
    before = contents(directory)
    for check in (data.directory, data.permissions, data.lock, data.database):
        assert check(site(directory)).verdict is OK
    assert contents(directory) == before


def test_before_the_first_start_nothing_is_missing_and_nothing_is_made(tmp_path: Path) -> None:
    before = site(tmp_path / "a/b")
    for check in (data.directory, data.permissions, data.space, data.lock, data.database):
        assert check(before).verdict is OK
    assert list(tmp_path.iterdir()) == []


def test_a_path_that_is_no_directory_fails(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert data.directory(site(tmp_path / "file")).verdict is FAIL


@pytest.mark.parametrize("place", ["data", "data/below"])
def test_a_place_that_may_not_be_written_fails(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").mkdir()
    monkeypatch.setattr(os, "access", lambda path, mode: not mode & os.W_OK)
    assert data.directory(site(tmp_path / place)).verdict is FAIL


def test_a_directory_of_another_user_is_worth_a_look(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: directory.stat().st_uid + 1)
    assert data.directory(site(directory)).verdict is WARN


@pytest.mark.parametrize(
    ("mode", "file_mode", "text"),
    [
        (0o700, 0o600, "private"),
        (0o750, 0o600, "is open to other users (0750)"),
        (0o700, 0o640, "open to other users: crux.db"),
        (0o700, 0o604, "open to other users: crux.db"),
    ],
)
def test_what_other_users_can_open_is_named(mode: int, file_mode: int, text: str, directory: Path) -> None:
    (directory / DATABASE).chmod(file_mode)
    directory.chmod(mode)
    found = data.permissions(site(directory))
    assert text in found.text
    assert found.verdict is (OK if text == "private" else WARN)


def test_many_open_files_are_counted(directory: Path) -> None:
    for name in "abcde":
        (directory / name).touch(0o644)
    assert data.permissions(site(directory)).text == "open to other users: a, b, c and 2 more"


@pytest.mark.parametrize(
    ("free", "verdict"), [(0, FAIL), (32 * 1024**2 - 1, FAIL), (32 * 1024**2, WARN), (1024**3, OK)]
)
def test_space_below_what_writes_need_fails(
    free: int, verdict: Verdict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=free))
    assert data.space(site(tmp_path / "missing")).verdict is verdict


@pytest.mark.parametrize(
    ("holder", "verdict"), [({"pid": os.getpid()}, OK), ({"pid": 1}, OK), ({"pid": DEAD}, WARN), ({}, OK)]
)
def test_a_holder_that_is_no_process_is_worth_a_look(holder: dict[str, object], verdict: Verdict) -> None:
    found = data.lock(site(held=True, holder=holder))
    assert (found.verdict, "held by a daemon" in found.text) == (verdict, True)


def test_a_process_that_may_not_be_signalled_is_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(pid: int, number: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "kill", refuse)
    assert data.lock(site(held=True, holder={"pid": 1})).verdict is OK


def test_a_database_in_use_is_left_to_its_daemon(directory: Path) -> None:
    with hold(directory, {}):
        assert data.database(site(directory, held=True)).verdict is OK


def test_what_a_crash_left_is_read_with_its_log_and_not_touched(crashed: Path) -> None:
    before = contents(crashed)
    found = data.database(site(crashed))
    assert (found.verdict, found.text) == (OK, f"schema {newest_schema()}, integrity ok")
    assert contents(crashed) == before


def test_a_log_without_its_index_is_left_for_the_daemon(crashed: Path) -> None:
    (crashed / f"{DATABASE}-shm").unlink()
    before = contents(crashed)
    assert data.database(site(crashed)).verdict is WARN
    assert contents(crashed) == before


def test_a_database_of_another_program_fails(directory: Path) -> None:
    (directory / DATABASE).unlink()
    with closing(sqlite3.connect(directory / DATABASE)) as other:
        other.execute("CREATE TABLE t (x)")
    assert "of another program" in data.database(site(directory)).text


@pytest.mark.parametrize(
    ("schema", "verdict", "text"),
    [(99, FAIL, "this version knows up to"), (0, OK, "schema 0, which the next start brings to")],
)
def test_the_schema_is_compared_with_what_this_version_knows(
    schema: int, verdict: Verdict, text: str, directory: Path
) -> None:
    with closing(connect_writer(directory / DATABASE)) as connection:
        connection.execute(f"PRAGMA user_version = {schema}")
    found = data.database(site(directory))
    assert (found.verdict, text in found.text) == (verdict, True)


def test_a_damaged_database_fails(directory: Path) -> None:
    with closing(connect_writer(directory / DATABASE)) as connection:
        connection.executemany("INSERT INTO facts_text VALUES (?)", [(f"some words {n} " * 50,) for n in range(200)])
    pages = bytearray((directory / DATABASE).read_bytes())
    pages[4096 * 3 :] = b"\xff" * (len(pages) - 4096 * 3)
    (directory / DATABASE).write_bytes(pages)
    assert data.database(site(directory)).verdict is FAIL


def test_a_file_that_is_no_database_fails(directory: Path) -> None:
    (directory / DATABASE).write_bytes(b"not a database" * 1000)
    assert data.database(site(directory)).verdict is FAIL


def test_the_integrity_check_ends_in_time(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(connect_writer(directory / DATABASE)) as connection:
        connection.execute("CREATE TABLE large (x INTEGER NOT NULL) STRICT")
        connection.execute(
            "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 9999) "
            "INSERT INTO large SELECT i FROM n"
        )
    monkeypatch.setattr(data, "INTEGRITY_CHECK_S", -1.0)
    found = data.database(site(directory))
    assert found.verdict is OK
    assert "as far as it was read" in found.text


def test_keys_are_whole_missing_or_damaged(directory: Path) -> None:
    assert data.keys(site(directory)).text.startswith("none yet")
    root_key(directory)
    install_id(directory)
    assert data.keys(site(directory)).text == "whole: .install-uuid, passport.key"
    (directory / "passport.key").write_text("")
    with pytest.raises(StartRefused, match=r"passport\.key"):
        data.keys(site(directory))
