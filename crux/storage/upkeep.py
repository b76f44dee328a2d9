"""What the writer does when nothing else is to be done: merge the search indices, and clean up after forgetting."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from crux.storage.sqlite import BUSY_TIMEOUT_MS

# A step is small, so that a write never waits for more than one.
MERGE_PAGES = 64
MERGE_DID_WORK = 2  # https://sqlite.org/fts5.html#the_merge_command


def tidy(connection: sqlite3.Connection, interrupted: Callable[[], bool]) -> bool:
    """Merge the indices and fold the log, as far as readers allow; whether nothing is left to do.

    It looks at `interrupted` between small steps. A search costs by the number of segments its index is in, and a long
    log costs every reader. What was erased stays in the segments until all of them have been merged into one; SQLite
    then overwrites their pages, and what the log has of them goes with the log.
    """
    (erased,) = connection.execute("SELECT erased FROM upkeep").fetchone()
    for table in _indices(connection):
        pages = -MERGE_PAGES if erased else MERGE_PAGES  # a negative number begins a merge of all segments
        while _merge(connection, table, pages):
            if interrupted():
                return False
            pages = MERGE_PAGES
    if erased:
        if not fold(connection, "TRUNCATE"):
            return False
        connection.execute("UPDATE upkeep SET erased = 0")
    return fold(connection, "PASSIVE")


def fold(connection: sqlite3.Connection, how: str) -> bool:
    """Fold the log into the database, `PASSIVE` or to `TRUNCATE` it; whether all of it is folded. Waits for no
    reader."""
    connection.execute("PRAGMA busy_timeout = 0")
    try:
        busy, logged, folded = connection.execute(f"PRAGMA wal_checkpoint({how})").fetchone()
    finally:
        connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
    return not busy and logged == folded


def _indices(connection: sqlite3.Connection) -> list[str]:
    """The names of all full-text indices."""
    tables = connection.execute("SELECT name FROM sqlite_schema WHERE sql LIKE 'CREATE VIRTUAL TABLE%USING fts5%'")
    return [name for (name,) in tables.fetchall()]


def _merge(connection: sqlite3.Connection, table: str, pages: int) -> bool:
    """Merge some segments of an index; whether there was anything to do."""
    before = connection.total_changes
    connection.execute(f"INSERT INTO {table} ({table}, rank) VALUES ('merge', ?)", (pages,))
    return connection.total_changes - before >= MERGE_DID_WORK
