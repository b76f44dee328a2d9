"""Opening the database: pragmas, migrations, integrity, and what SQLite's errors mean to a caller."""

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib.resources import files
from pathlib import Path

from crux.errors import CruxError, StartRefused, StorageFull, StorageUnavailable
from crux.storage.index import bring_up_to_date

APPLICATION_ID = 0x43525558  # "CRUX"
WAL_LIMIT_BYTES = 64 * 1024 * 1024
WRITER_CACHE_KIB = 32 * 1024  # a bulk of documents touches more pages than the default holds
BUSY_TIMEOUT_MS = 5000
INTEGRITY_CHECK_S = 0.5
SOUND = "ok"


def connect_writer(path: Path) -> sqlite3.Connection:
    """The one connection that writes: WAL, and every commit synced to disk before it returns."""
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=BUSY_TIMEOUT_MS / 1000)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(f"PRAGMA journal_size_limit = {WAL_LIMIT_BYTES}")
    connection.execute("PRAGMA secure_delete = ON")
    connection.execute("PRAGMA temp_store = MEMORY")
    connection.execute(f"PRAGMA cache_size = -{WRITER_CACHE_KIB}")
    return connection


def connect_reader(path: Path) -> sqlite3.Connection:
    """A connection that cannot write and sees the last commit."""
    connection = sqlite3.connect(
        f"{path.resolve().as_uri()}?mode=ro", uri=True, isolation_level=None, check_same_thread=False, timeout=1.0
    )
    connection.execute("PRAGMA query_only = ON")
    connection.execute("PRAGMA temp_store = MEMORY")
    return connection


def prepare(path: Path) -> None:
    """Bring the database at `path` to this version's schema, making it where there is none.

    Raises `StartRefused`, and changes nothing, when the file is no database of Crux, is damaged, or was written by a
    newer version. The integrity check reads as far as it gets in half a second.
    """
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))  # SQLite gives its logs the same mode
        with closing(connect_reader(path)) as connection:
            current = _check_ours(connection, path)
            _check_integrity(connection, path)
        with closing(connect_writer(path)) as connection:
            _migrate(connection, current)
            bring_up_to_date(connection)
    except OSError as error:
        raise StartRefused(f"{path} cannot be opened ({error.strerror})") from error
    except sqlite3.DatabaseError as error:
        if _name(error).startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
            raise _unusable(path, str(error)) from error
        raise StartRefused(f"{path} cannot be opened: {storage_error(error).message}") from error


def _check_ours(connection: sqlite3.Connection, path: Path) -> int:
    """The schema that the database has, 0 for an empty one."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if tables and application != APPLICATION_ID:
        raise StartRefused(
            f"{path} is a database of another program; point CORECRUXD_DATA_DIR at a directory of Crux's own"
        )
    (current,) = connection.execute("PRAGMA user_version").fetchone()
    newest = newest_schema()
    if current > newest:
        raise StartRefused(
            f"{path} has schema {current} and this version of Crux knows up to {newest}; "
            "start the newer version, or restore a copy made before the upgrade"
        )
    return int(current)


def _check_integrity(connection: sqlite3.Connection, path: Path) -> None:
    verdict = integrity(connection, INTEGRITY_CHECK_S)
    if not verdict.startswith(SOUND):
        raise _unusable(path, verdict)


def integrity(connection: sqlite3.Connection, within_s: float) -> str:
    """What SQLite finds wrong with the file, or a text that starts with `SOUND`; reads for `within_s` seconds at
    most."""
    deadline = time.monotonic() + within_s
    connection.set_progress_handler(lambda: int(time.monotonic() > deadline), 10_000)
    try:
        (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.OperationalError as error:
        if error.sqlite_errorname != "SQLITE_INTERRUPT":
            raise
        return f"{SOUND} as far as it was read in {within_s:g} s"
    finally:
        connection.set_progress_handler(None, 0)
    return str(verdict)


def newest_schema() -> int:
    """The schema that this version of Crux brings a database to."""
    return max(number for number, _ in _migrations())


def _migrate(connection: sqlite3.Connection, current: int) -> None:
    for number, script in _migrations():
        if number > current:
            connection.executescript(
                f"BEGIN IMMEDIATE; {script}\nPRAGMA application_id = {APPLICATION_ID}; "
                f"PRAGMA user_version = {number}; COMMIT;"
            )


def _migrations() -> Iterator[tuple[int, str]]:
    """Each migration's number and script, in order; `NNNN_name.sql` brings a database to schema NNNN."""
    scripts = sorted(
        (entry for entry in files("crux.storage.migrations").iterdir() if entry.name.endswith(".sql")),
        key=lambda entry: entry.name,
    )
    for script in scripts:
        yield int(script.name.partition("_")[0]), script.read_text(encoding="utf-8")


def _unusable(path: Path, reason: str) -> StartRefused:
    return StartRefused(
        f"{path} is damaged or no database ({reason}); nothing was changed. "
        "Restore the last copy of the data directory; docs/operations.md says how, and how to save what can be read"
    )


def storage_error(error: sqlite3.Error) -> CruxError:
    """What a failed statement means to whoever asked for it."""
    name = _name(error)
    if name == "SQLITE_FULL":
        return StorageFull("the disk is full: nothing of this write was kept; make room, then try again")
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return StorageUnavailable(
            "another program holds the database: nothing of this write was kept; end that program"
        )
    if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
        return StorageUnavailable(f"the database is damaged ({name}); stop the daemon and restore a copy")
    return StorageUnavailable(f"the data directory cannot be used ({name}): nothing of this write was kept")


@contextmanager
def storage_errors() -> Iterator[None]:
    """Turn SQLite's environmental failures into `CruxError`s. Errors of our own SQL pass: they are bugs."""
    try:
        yield
    except sqlite3.Error as error:
        if is_environmental(error):
            raise storage_error(error) from error
        raise


_ENVIRONMENTAL = tuple(
    f"SQLITE_{name}" for name in ("FULL", "IOERR", "READONLY", "CANTOPEN", "CORRUPT", "NOTADB", "BUSY", "LOCKED")
)


def is_environmental(error: sqlite3.Error) -> bool:
    """Whether the disk, the file system, the file or another program is to blame, and not the statement."""
    return _name(error).startswith(_ENVIRONMENTAL)


def may_be_too_large(error: sqlite3.Error) -> bool:
    """Whether a smaller write might have succeeded."""
    return _name(error) in ("SQLITE_FULL", "SQLITE_IOERR_WRITE")


def _name(error: sqlite3.Error) -> str:
    return getattr(error, "sqlite_errorname", None) or ""
