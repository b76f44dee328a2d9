"""The writes and reads a command may make inside its transaction."""

import sqlite3
from collections.abc import Sequence

from crux.domain.decay import Horizon
from crux.domain.facts import Fact
from crux.domain.privacy import DAEMON, reserved_prefix, split_entity
from crux.domain.retrieval import Segment
from crux.storage.index import Indices, fact_text, place_of
from crux.storage.rows import COLUMNS, fact_of, owner_and_shown, row_of, search_text

_COUNT = COLUMNS.count(",") + 1
_INSERT = f"INSERT INTO facts (owner, shown, {COLUMNS}) VALUES (?, ?{', ?' * _COUNT})"
_IN_CHAIN = "shown = ? AND key = ? AND entity = ? AND tenant = ?"
_HEAD = f"SELECT {COLUMNS} FROM facts WHERE {_IN_CHAIN} AND deleted = 0 ORDER BY seq DESC LIMIT 1"


def head_of(connection: sqlite3.Connection, tenant: str, entity: str, key: str) -> Fact | None:
    """The newest fact of a chain that is not deleted; names are stored ones."""
    row = connection.execute(_HEAD, (_shown(entity), key, entity, tenant)).fetchone()
    return fact_of(row) if row else None


def fact_by_id(connection: sqlite3.Connection, fact_id: str, columns: str = COLUMNS) -> Fact | None:
    """The fact with this id, deleted or not; `columns` may be those `WITHOUT_VALUE`."""
    row = connection.execute(f"SELECT {columns} FROM facts WHERE fact_id = ?", (fact_id,)).fetchone()
    return fact_of(row) if row else None


class Transaction:
    """The open transaction of the writer's connection, in the words of the domain."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.run = self._run = connection.execute
        self.run_many = connection.executemany
        self.indices = Indices(connection)

    def head(self, tenant: str, entity: str, key: str) -> Fact | None:
        """The newest fact of a chain that is not deleted."""
        return head_of(self.connection, tenant, entity, key)

    def has_chain(self, tenant: str, entity: str, key: str) -> bool:
        """Whether the chain has a version, deleted ones included."""
        found = self._run(f"SELECT 1 FROM facts WHERE {_IN_CHAIN} LIMIT 1", (_shown(entity), key, entity, tenant))
        return found.fetchone() is not None

    def fact(self, fact_id: str) -> Fact | None:
        return fact_by_id(self.connection, fact_id)

    def value(self, fact_id: str) -> str:
        """The value of a fact that there is."""
        (value,) = self._run("SELECT value FROM facts WHERE fact_id = ?", (fact_id,)).fetchone()
        return str(value)

    def insert(self, fact: Fact) -> None:
        """Add a live fact, findable by its words from the commit on, but for the daemon's own records."""
        owner, shown = owner_and_shown(fact)
        seq = self._run(_INSERT, (owner, shown, *row_of(fact))).lastrowid or 0
        self._list(seq, fact, added=True)

    def retire(self, fact_id: str, by: str) -> None:
        """Mark a fact as superseded; it is found by search no more."""
        self._unlist("fact_id = ?", (fact_id,))
        self._run("UPDATE facts SET superseded_by = ? WHERE fact_id = ?", (by, fact_id))

    def delete(self, fact_id: str) -> None:
        """Mark a fact as deleted; it is found by search no more."""
        self._unlist("fact_id = ?", (fact_id,))
        self._run("UPDATE facts SET deleted = 1 WHERE fact_id = ?", (fact_id,))

    def restore(self, fact: Fact, superseded_by: str | None) -> None:
        """Mark a fact as superseded by what it was before it was retired; without that, it is found by search again."""
        self._run("UPDATE facts SET superseded_by = ? WHERE fact_id = ?", (superseded_by, fact.fact_id))
        if superseded_by is None and not fact.deleted:
            (seq,) = self._run("SELECT seq FROM facts WHERE fact_id = ?", (fact.fact_id,)).fetchone()
            self._list(seq, fact, added=True)

    def set_horizon(self, fact_id: str, horizon: Horizon) -> None:
        self._run("UPDATE facts SET horizon = ? WHERE fact_id = ?", (horizon.value, fact_id))

    def reverify(self, fact_id: str, now_us: int) -> None:
        """Begin a fact's decay anew."""
        self._run("UPDATE facts SET reverified_at = ? WHERE fact_id = ?", (now_us, fact_id))

    def forget(self, fact_ids: Sequence[str]) -> None:
        """Delete facts and erase their values; the file is cleaned of them when nothing else is to be done."""
        for fact_id in fact_ids:
            self._unlist("fact_id = ?", (fact_id,))
        self.run_many(
            "UPDATE facts SET deleted = 1, value = '', tokens = 0, source_receipt = NULL WHERE fact_id = ?",
            [(fact_id,) for fact_id in fact_ids],
        )
        self._run("UPDATE upkeep SET erased = erased + 1")

    def erase_chain(self, tenant: str, entity: str, key: str) -> int:
        """Remove every version of a chain for good; how many were removed."""
        which = (_shown(entity), key, entity, tenant)
        self._unlist(_IN_CHAIN, which)
        return self._run(f"DELETE FROM facts WHERE {_IN_CHAIN}", which).rowcount

    def probe(self, now_us: int) -> None:
        self._run("INSERT INTO probe VALUES (1, ?1) ON CONFLICT (id) DO UPDATE SET written_at = ?1", (now_us,))

    def _unlist(self, where: str, parameters: tuple[object, ...]) -> None:
        """Take those facts out of the indices that are in them: the live ones."""
        rows = self._run(
            f"SELECT seq, {COLUMNS} FROM facts WHERE {where} AND deleted = 0 AND superseded_by IS NULL", parameters
        )
        for seq, *row in rows.fetchall():
            self._list(seq, fact_of(row), added=False)

    def _list(self, seq: int, fact: Fact, *, added: bool) -> None:
        """Change what the indices hold of a live fact; the daemon's own records are in none."""
        owner, shown = owner_and_shown(fact)
        if owner != DAEMON or reserved_prefix(fact.entity) is None:
            self.indices.change_parts(seq, search_text(shown, fact.key, fact.value), added=added)
        if owner is None:
            text = fact_text(shown, fact.key, fact.value)
            tenant = self.indices.tenant(fact.tenant)
            self.indices.change_text(tenant, place_of(Segment.FACTS, seq), text, added=added)


def _shown(entity: str) -> str:
    return split_entity(entity)[1]
