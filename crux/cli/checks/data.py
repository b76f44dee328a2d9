"""The data directory, its lock and its database. Nothing here writes."""

import os
import shutil
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

from crux.actors.facts import SPARE_BYTES
from crux.cli.checks.finding import Finding, fail, ok, warn
from crux.cli.checks.site import Site
from crux.storage.directory import LOCK, describe
from crux.storage.engine import DATABASE
from crux.storage.keys import ID_BYTES, INSTALL_ID, KEY_BYTES, ROOT_KEY, held_bytes
from crux.storage.sqlite import APPLICATION_ID, SOUND, integrity, newest_schema

LOW_BYTES = 1024 * 1024 * 1024
INTEGRITY_CHECK_S = 10.0

_OTHERS = 0o077
_NAMED = 3


def directory(site: Site) -> Finding:
    """Whether the data directory is there, and this user's to write."""
    path = site.settings.data_dir
    if not path.exists():
        parent = next(parent for parent in path.absolute().parents if parent.exists())
        if not os.access(parent, os.W_OK | os.X_OK):
            return fail(
                f"{path} is missing, and {parent} is not writable", "set CORECRUXD_DATA_DIR to another directory"
            )
        return ok(f"{path} is missing; the daemon makes it when it starts")
    if not path.is_dir():
        return fail(f"{path} is no directory", "set CORECRUXD_DATA_DIR to another path")
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        return fail(f"{path} is not for this user to write", "give it to this user, or set CORECRUXD_DATA_DIR")
    if path.stat().st_uid != os.geteuid():
        return warn(f"{path} belongs to another user", "run the daemon, and this command, as its owner")
    return ok(str(path))


def permissions(site: Site) -> Finding:
    """Whether other users are kept out."""
    path = site.settings.data_dir
    if not path.is_dir():
        return ok("nothing there yet")
    if _mode(path) & _OTHERS:
        return warn(f"{path} is open to other users ({_mode(path):04o})", f"chmod 700 '{path}'")
    open_files = sorted(entry.name for entry in path.iterdir() if _mode(entry) & _OTHERS)
    if open_files:
        more = len(open_files) - _NAMED
        named = ", ".join(open_files[:_NAMED]) + (f" and {more} more" if more > 0 else "")
        return warn(f"open to other users: {named}", f"chmod -R go= '{path}'")
    return ok("private")


def keys(site: Site) -> Finding:
    """Whether what the daemon made for itself once is whole."""
    path = site.settings.data_dir
    sizes = {INSTALL_ID: ID_BYTES, ROOT_KEY: KEY_BYTES}
    held = [name for name, size in sizes.items() if held_bytes(path / name, size) is not None]
    return ok(f"whole: {', '.join(held)}" if held else "none yet; the daemon makes them when it starts")


def space(site: Site) -> Finding:
    """Whether the disk has room."""
    path = site.settings.data_dir.absolute()
    free = shutil.disk_usage(next(place for place in (path, *path.parents) if place.exists())).free
    text = f"{free / 1024**2:,.0f} MiB free"
    if free < SPARE_BYTES:
        return fail(f"{text}, and writes need {SPARE_BYTES / 1024**2:,.0f}", "make room, or move the data directory")
    return ok(text) if free >= LOW_BYTES else warn(text, "make room soon")


def lock(site: Site) -> Finding:
    """Whether a daemon holds the data directory, and whether it is the one that says so."""
    if not site.held:
        return ok("no daemon runs on this data directory")
    text = f"held by a daemon ({describe(site.holder)})"
    pid = site.holder.get("pid")
    if isinstance(pid, int) and not _alive(pid):
        return warn(
            f"{text}, and there is no such process here",
            f"it may run in a container; else see who has it open: lsof '{site.settings.data_dir / LOCK}'",
        )
    return ok(text)


def database(site: Site) -> Finding:
    """Whether the database can be read by this version and is sound, as far as `INTEGRITY_CHECK_S` seconds reach."""
    path = site.settings.data_dir / DATABASE
    if site.held:
        return ok("in use by the daemon, which checked it when it started")
    if not path.exists():
        return ok("none yet; the daemon makes it when it starts")
    access = _access(path)
    if access is None:
        return warn("not checked: a write-ahead log without its index is left over", "the next start recovers it")
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?{access}", uri=True)) as connection:
            return _examine(connection, path)
    except sqlite3.DatabaseError as error:
        return fail(f"{path} cannot be read ({error})", "restore the last copy of the data directory")


def _access(path: Path) -> str | None:
    """How to open the database so that no file of the directory is made or changed, which plain read-only would.

    Without a log nothing but the file matters; a log that a crash left is read through its index, untouched.
    """
    log, index = (path.with_name(f"{path.name}-{part}") for part in ("wal", "shm"))
    if not log.exists() or not log.stat().st_size:
        return "immutable=1"
    return "mode=ro&readonly_shm=1" if index.exists() else None


def _examine(connection: sqlite3.Connection, path: Path) -> Finding:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (schema,) = connection.execute("PRAGMA user_version").fetchone()
    newest = newest_schema()
    if application != APPLICATION_ID:
        return fail(f"{path} is a database of another program", "set CORECRUXD_DATA_DIR to a directory of Crux's own")
    if schema > newest:
        return fail(f"schema {schema}, and this version knows up to {newest}", "install the newer version again")
    verdict = integrity(connection, INTEGRITY_CHECK_S)
    if not verdict.startswith(SOUND):
        return fail(f"{path} is damaged: {verdict}", "restore the last copy, as docs/operations.md says")
    step = f"schema {schema}" if schema == newest else f"schema {schema}, which the next start brings to {newest}"
    return ok(f"{step}, integrity {verdict}")


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
