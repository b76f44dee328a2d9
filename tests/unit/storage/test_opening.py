"""Opening a data directory: what is refused, and that nothing is changed then."""

import sqlite3
from pathlib import Path

import pytest

from crux.errors import StartRefused
from crux.storage.directory import describe, hold, holder_of, is_held
from crux.storage.sqlite import prepare


def database(tmp_path: Path) -> Path:
    path = tmp_path / "crux.db"
    prepare(path)
    return path


def test_a_prepared_database_is_prepared_again_without_change(tmp_path: Path) -> None:
    path = database(tmp_path)
    before = path.read_bytes()
    prepare(path)
    assert path.read_bytes() == before


def test_a_newer_schema_is_refused_and_kept(tmp_path: Path) -> None:
    path = database(tmp_path)
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 999")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StartRefused, match=r"schema 999 .* start the newer version"):
        prepare(path)
    assert path.read_bytes() == before


def test_another_program_s_database_is_refused_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "crux.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StartRefused, match="another program"):
        prepare(path)
    assert path.read_bytes() == before


def test_a_file_that_is_no_database_is_refused_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "crux.db"
    path.write_bytes(b"not a database, and long enough to be read as a header of one" * 100)
    before = path.read_bytes()
    with pytest.raises(StartRefused, match="damaged or no database"):
        prepare(path)
    assert path.read_bytes() == before


def test_a_damaged_page_is_refused(tmp_path: Path) -> None:
    path = database(tmp_path)
    damaged = bytearray(path.read_bytes())
    damaged[4096:8192] = b"\xff" * 4096
    path.write_bytes(damaged)
    with pytest.raises(StartRefused, match="Restore the last copy"):
        prepare(path)
    assert path.read_bytes() == damaged


def test_a_directory_is_made_private(tmp_path: Path) -> None:
    directory = tmp_path / "new" / "data"
    with hold(directory, {"pid": 1}):
        assert directory.stat().st_mode & 0o777 == 0o700
        assert (directory / "crux.lock").stat().st_mode & 0o777 == 0o600


def test_the_second_holder_is_told_who_the_first_is(tmp_path: Path) -> None:
    with hold(tmp_path, {"pid": 4711, "http": "127.0.0.1:1"}):
        assert is_held(tmp_path)
        with pytest.raises(StartRefused, match=r"another daemon \(pid 4711, http 127.0.0.1:1\)"), hold(tmp_path, {}):
            pass
    assert not is_held(tmp_path)
    with hold(tmp_path, {"pid": 2}):
        assert holder_of(tmp_path) == {"pid": 2}


def test_a_directory_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StartRefused, match="CORECRUXD_DATA_DIR"), hold(tmp_path / "file" / "data", {}):
        pass


def test_nothing_known_of_a_holder_is_said_so(tmp_path: Path) -> None:
    assert describe(holder_of(tmp_path)) == "unknown"
    (tmp_path / "crux.lock").write_text("[1]")
    assert holder_of(tmp_path) == {}
    assert not is_held(tmp_path / "elsewhere")
