"""Reads: each turns a message into SQL over one read-only connection."""

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import frozen

from crux.domain.commands import Chain, Entities, Export, FactById, Found, Head, Page, Search
from crux.domain.decay import DecayPolicy, Horizon
from crux.domain.facts import Fact
from crux.domain.messages import Message
from crux.domain.privacy import AGENT_PREFIX, Viewer, split_entity
from crux.storage.rows import COLUMNS, fact_of, search_text

TRIGRAM = 3
LAST_CHARACTER = "\U0010ffff"


@frozen
class Clause:
    """A part of a WHERE and its parameters."""

    sql: str
    parameters: tuple[object, ...] = ()


def read(message: Message[Any], connection: sqlite3.Connection, policy: DecayPolicy) -> object:
    """The reply to a read, as of the last commit."""
    return _READS[type(message)](message, connection, policy)


def register_functions(connection: sqlite3.Connection) -> None:
    """Make `has_word(words, shown, key, value)` known to SQL; `words` are joined by line breaks."""

    def has_word(words: str, shown: str, key: str, value: str) -> bool:
        text = search_text(shown, key, value)
        return any(word in text for word in words.split("\n"))

    connection.create_function("has_word", 4, has_word, deterministic=True)


def _search(search: Search, connection: sqlite3.Connection, policy: DecayPolicy) -> Found:
    clauses = [Clause("deleted = 0"), *_visible(search.viewer), *_of_tenant(search.tenant)]
    if not search.include_superseded:
        clauses.append(Clause("superseded_by IS NULL"))
    if search.entity is not None:
        clauses.append(_named(search.entity))
    if search.entity_prefix:
        clauses.append(_starting(search.entity_prefix))
    if search.as_of_us is not None:
        clauses.append(
            Clause(
                "(valid_from IS NULL OR valid_from <= ?) AND (valid_to IS NULL OR valid_to > ?)",
                (search.as_of_us, search.as_of_us),
            )
        )
    if search.words:
        clauses.append(_containing(search.words, indexed=not search.include_superseded))
    rank = _effective(search.now_us, policy) if search.decayed else Clause("confidence")
    below = 0
    if search.min_effective_confidence is not None:
        low = Clause(f"{rank.sql} < ?", (*rank.parameters, search.min_effective_confidence))
        below = _count(connection, [*clauses, low])
        clauses.append(Clause(f"NOT ({low.sql})", low.parameters))
    where = _all(clauses)
    # Only the rows that are returned are read whole: values may be large.
    rows = connection.execute(
        f"""
        SELECT {COLUMNS} FROM (
            SELECT seq AS hit, {rank.sql} AS rank, stored_at AS at FROM facts WHERE {where.sql}
            ORDER BY rank DESC, at DESC, hit DESC LIMIT ?
        ) JOIN facts ON seq = hit ORDER BY rank DESC, at DESC, hit DESC
        """,
        (*rank.parameters, *where.parameters, search.top_k + 1),
    ).fetchall()
    total = len(rows) if len(rows) <= search.top_k else _count(connection, clauses)
    return Found(tuple(fact_of(row) for row in rows[: search.top_k]), total, below)


def _effective(now_us: int, policy: DecayPolicy) -> Clause:
    """Effective confidence: half of the stored one where the fact is stale (memory contract 1.4)."""
    cases: list[str] = []
    parameters: list[object] = []
    for horizon in Horizon:
        threshold = policy.threshold_us(horizon)
        if threshold is not None:
            cases.append("WHEN horizon = ? AND ? - coalesce(reverified_at, stored_at) > ? THEN 0.5")
            parameters += (horizon.value, now_us, threshold)
    return Clause(f"confidence * CASE {' '.join(cases)} ELSE 1.0 END", tuple(parameters))


def _visible(viewer: Viewer) -> list[Clause]:
    if viewer.sees_all:
        return []
    if not viewer.owners:
        return [Clause("owner IS NULL")]
    marks = ", ".join("?" * len(viewer.owners))
    return [Clause(f"(owner IS NULL OR owner IN ({marks}))", viewer.owners)]


def _of_tenant(tenant: str | None) -> list[Clause]:
    return [] if tenant is None else [Clause("tenant = ?", (tenant,))]


def _named(entity: str) -> Clause:
    """Facts whose stored or shown name is `entity`."""
    owner, logical = split_entity(entity)
    if owner is not None:
        return Clause("shown = ? AND owner = ?", (logical, owner))
    return Clause("shown = ?", (entity,))


def _starting(prefix: str) -> Clause:
    """Facts whose stored or shown name starts with `prefix`."""
    if prefix.startswith(AGENT_PREFIX):
        return Clause("entity >= ? AND entity < ?", (prefix, prefix + LAST_CHARACTER))
    return Clause("shown >= ? AND shown < ?", (prefix, prefix + LAST_CHARACTER))


def _containing(words: tuple[str, ...], *, indexed: bool) -> Clause:
    """Facts that hold any of `words` as a part of their name, key or value."""
    if not indexed:
        return Clause("has_word(?, shown, key, value)", ("\n".join(words),))
    if all(len(word) >= TRIGRAM for word in words):
        phrases = " OR ".join('"' + word.replace('"', '""') + '"' for word in words)
        return Clause("seq IN (SELECT rowid FROM facts_text WHERE facts_text MATCH ?)", (phrases,))
    parts = " OR ".join(["instr(text, ?)"] * len(words))
    return Clause(f"seq IN (SELECT rowid FROM facts_text WHERE {parts})", words)


def _fact_by_id(by_id: FactById, connection: sqlite3.Connection, policy: DecayPolicy) -> Fact | None:
    row = connection.execute(f"SELECT {COLUMNS} FROM facts WHERE fact_id = ?", (by_id.fact_id,)).fetchone()
    return fact_of(row) if row else None


def _head(head: Head, connection: sqlite3.Connection, policy: DecayPolicy) -> Fact | None:
    row = connection.execute(
        f"SELECT {COLUMNS} FROM facts WHERE shown = ? AND key = ? AND entity = ? AND tenant = ? AND deleted = 0 "
        "ORDER BY seq DESC LIMIT 1",
        (split_entity(head.entity)[1], head.key, head.entity, head.tenant),
    ).fetchone()
    return fact_of(row) if row else None


def _chain(chain: Chain, connection: sqlite3.Connection, policy: DecayPolicy) -> tuple[Fact, ...]:
    clauses = [_named(chain.entity), *_visible(chain.viewer), *_of_tenant(chain.tenant)]
    if chain.key is not None:
        clauses.append(Clause("key = ?", (chain.key,)))
    where = _all(clauses)
    rows = connection.execute(f"SELECT {COLUMNS} FROM facts WHERE {where.sql} ORDER BY seq", where.parameters)
    return tuple(fact_of(row) for row in rows)


def _entities(entities: Entities, connection: sqlite3.Connection, policy: DecayPolicy) -> tuple[str, ...]:
    where = _all([Clause("deleted = 0"), *_visible(entities.viewer), *_of_tenant(entities.tenant)])
    name = "entity" if entities.viewer.sees_all else "shown"
    rows = connection.execute(f"SELECT DISTINCT {name} FROM facts WHERE {where.sql} ORDER BY {name}", where.parameters)
    return tuple(name for (name,) in rows)


def _export(export: Export, connection: sqlite3.Connection, policy: DecayPolicy) -> Page:
    clauses = [Clause("seq > ?", (export.cursor,)), *_visible(export.viewer), *_of_tenant(export.tenant)]
    if export.since_us is not None:
        clauses.append(Clause("stored_at >= ?", (export.since_us,)))
    where = _all(clauses)
    rows = connection.execute(
        f"SELECT {COLUMNS}, seq FROM facts WHERE {where.sql} ORDER BY seq LIMIT ?",
        (*where.parameters, export.limit + 1),
    ).fetchall()
    page = rows[: export.limit]
    cursor = page[-1][-1] if len(rows) > len(page) else None
    return Page(tuple(fact_of(row[:-1]) for row in page), cursor)


def _all(clauses: Sequence[Clause]) -> Clause:
    """The clause that holds where every one of `clauses` does."""
    sql = " AND ".join(clause.sql for clause in clauses)
    return Clause(sql, tuple(value for clause in clauses for value in clause.parameters))


def _count(connection: sqlite3.Connection, clauses: Sequence[Clause]) -> int:
    where = _all(clauses)
    (count,) = connection.execute(f"SELECT count(*) FROM facts WHERE {where.sql}", where.parameters).fetchone()
    return int(count)


_READS: Mapping[type, Callable[[Any, sqlite3.Connection, DecayPolicy], object]] = {
    Search: _search,
    FactById: _fact_by_id,
    Head: _head,
    Chain: _chain,
    Entities: _entities,
    Export: _export,
}
