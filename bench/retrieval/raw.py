"""The bare full-text index that Crux is compared with: SQLite's own, with its defaults, filled in bulk."""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path

from bench.retrieval.corpus import Document

_WORD = re.compile(r"\w+")


class Raw:
    """One table of FTS5 in a file of its own, as durable as Crux's."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None)
        for pragma in ("journal_mode = WAL", "synchronous = FULL"):
            self._connection.execute(f"PRAGMA {pragma}")
        self._connection.execute("CREATE VIRTUAL TABLE texts USING fts5 (text)")

    def insert(self, documents: Sequence[Document]) -> float:
        """Insert documents in one transaction; the seconds that took."""
        began = time.perf_counter()
        self._connection.execute("BEGIN")
        self._connection.executemany(
            "INSERT INTO texts (text) VALUES (?)", [(document.text,) for document in documents]
        )
        self._connection.execute("COMMIT")
        return time.perf_counter() - began

    def query(self, text: str) -> float:
        """Search for any of the words, the ten best; the seconds that took."""
        words = " OR ".join(f'"{word}"' for word in dict.fromkeys(_WORD.findall(text)))
        began = time.perf_counter()
        self._connection.execute(
            "SELECT rowid, rank FROM texts WHERE texts MATCH ? ORDER BY rank LIMIT 10", (words,)
        ).fetchall()
        return time.perf_counter() - began

    def close(self) -> None:
        self._connection.close()
