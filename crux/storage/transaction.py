"""The writes and reads a command may make inside its transaction."""

import sqlite3

from crux.domain.facts import Fact
from crux.domain.privacy import split_entity
from crux.storage.rows import COLUMNS, fact_of, owner_and_shown, row_of, search_text

_COUNT = COLUMNS.count(",") + 1
_INSERT = f"INSERT INTO facts (owner, shown, {COLUMNS}) VALUES (?, ?{', ?' * _COUNT})"
_HEAD = (
    f"SELECT {COLUMNS} FROM facts WHERE shown = ? AND key = ? AND entity = ? AND tenant = ? AND deleted = 0 "
    "ORDER BY seq DESC LIMIT 1"
)
_BY_ID = f"SELECT {COLUMNS} FROM facts WHERE fact_id = ?"
_IN_CHAIN = "shown = ? AND key = ? AND entity = ? AND tenant = ?"


class Transaction:
    """The open transaction of the writer's connection, in the words of the domain."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._run = connection.execute

    def head(self, tenant: str, entity: str, key: str) -> Fact | None:
        """The newest fact of a chain that is not deleted."""
        row = self._run(_HEAD, (_shown(entity), key, entity, tenant)).fetchone()
        return fact_of(row) if row else None

    def has_chain(self, tenant: str, entity: str, key: str) -> bool:
        """Whether the chain has a version, deleted ones included."""
        found = self._run(f"SELECT 1 FROM facts WHERE {_IN_CHAIN} LIMIT 1", (_shown(entity), key, entity, tenant))
        return found.fetchone() is not None

    def fact(self, fact_id: str) -> Fact | None:
        row = self._run(_BY_ID, (fact_id,)).fetchone()
        return fact_of(row) if row else None

    def insert(self, fact: Fact) -> None:
        """Add a live fact, findable from the commit on."""
        owner, shown = owner_and_shown(fact)
        seq = self._run(_INSERT, (owner, shown, *row_of(fact))).lastrowid
        if owner != "":
            text = search_text(shown, fact.key, fact.value)
            self._run("INSERT INTO facts_text (rowid, text) VALUES (?, ?)", (seq, text))

    def retire(self, fact_id: str, by: str) -> None:
        """Mark a fact as superseded; it is found by search no more."""
        self._unlist(fact_id)
        self._run("UPDATE facts SET superseded_by = ? WHERE fact_id = ?", (by, fact_id))

    def delete(self, fact_id: str) -> None:
        """Mark a fact as deleted; it is found by search no more."""
        self._unlist(fact_id)
        self._run("UPDATE facts SET deleted = 1 WHERE fact_id = ?", (fact_id,))

    def erase_chain(self, tenant: str, entity: str, key: str, *, but: str = "") -> int:
        """Remove every version of a chain for good, but the fact with the id `but`; how many were removed."""
        where, which = f"{_IN_CHAIN} AND fact_id <> ?", (_shown(entity), key, entity, tenant, but)
        self._run(f"DELETE FROM facts_text WHERE rowid IN (SELECT seq FROM facts WHERE {where})", which)
        return self._run(f"DELETE FROM facts WHERE {where}", which).rowcount

    def probe(self, now_us: int) -> None:
        self._run("INSERT INTO probe VALUES (1, ?1) ON CONFLICT (id) DO UPDATE SET written_at = ?1", (now_us,))

    def _unlist(self, fact_id: str) -> None:
        self._run("DELETE FROM facts_text WHERE rowid = (SELECT seq FROM facts WHERE fact_id = ?)", (fact_id,))


def _shown(entity: str) -> str:
    return split_entity(entity)[1]
