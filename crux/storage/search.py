"""Reads: each turns a message into SQL over one read-only connection."""

import sqlite3
from collections.abc import Callable, Mapping
from typing import Any

from crux.domain.commands import (
    Chain,
    Entities,
    Export,
    FactById,
    Found,
    Head,
    Last,
    Newest,
    Page,
    Records,
    Search,
)
from crux.domain.decay import DecayPolicy, Horizon
from crux.domain.facts import Fact
from crux.domain.messages import Message
from crux.domain.privacy import split_entity
from crux.errors import ResultTooLarge
from crux.storage.artefacts import ARTEFACT_READS
from crux.storage.clauses import Clause, all_of, named, of_tenant, starting, stored_under, visible
from crux.storage.consolidating import CONSOLIDATION_READS
from crux.storage.forgetting import FORGET_READS
from crux.storage.memory import MEMORY_READS
from crux.storage.rows import COLUMNS, fact_of, search_text
from crux.storage.substrate import SUBSTRATE_READS
from crux.storage.transaction import fact_by_id, head_of

TRIGRAM = 3
PHRASE = 8
# What one answer may hold of values; the first is always there.
PAGE_BYTES = 8 * 1024 * 1024
HISTORY_BYTES = 32 * 1024 * 1024


def read(message: Message[Any], connection: sqlite3.Connection, policy: DecayPolicy) -> object:
    """The reply to a read, as of the last commit."""
    return _READS[type(message)](message, connection, policy)


def needs_scan(message: Message[Any]) -> bool:
    """Whether a read looks at every fact, one by one: no index holds what it asks for."""
    return isinstance(message, Search) and bool(message.words) and not _is_indexed(message)


def register_functions(
    connection: sqlite3.Connection, is_over: Callable[[], bool], salience_of: Callable[[str], float]
) -> None:
    """Make `has_part(words, text)`, `holds(words, shown, key, value)` and `salience(fact_id)` known to SQL; `words` are
    joined by line breaks.

    The first two look at `is_over` between words, since SQLite cannot interrupt them; what they say after it is worth
    nothing.
    """

    def has_part(words: str, text: str) -> bool:
        for word in words.split("\n"):
            if word in text:
                return True
            if is_over():
                break
        return False

    def holds(words: str, shown: str, key: str, value: str) -> bool:
        return has_part(words, search_text(shown, key, value))

    connection.create_function("salience", 1, salience_of)
    connection.create_function("has_part", 2, has_part, deterministic=True)
    connection.create_function("holds", 4, holds, deterministic=True)


def _search(search: Search, connection: sqlite3.Connection, policy: DecayPolicy) -> Found:
    clauses = [Clause("deleted = 0"), *visible(search.viewer), *of_tenant(search.tenant)]
    if not search.include_superseded:
        clauses.append(Clause("superseded_by IS NULL"))
    if search.entity is not None:
        clauses.append(named(search.entity))
    if search.entity_prefix:
        clauses.append(starting(search.entity_prefix))
    if search.as_of_us is not None:
        clauses.append(
            Clause(
                "(valid_from IS NULL OR valid_from <= ?) AND (valid_to IS NULL OR valid_to > ?)",
                (search.as_of_us, search.as_of_us),
            )
        )
    if search.words:
        clauses.append(_containing(search))
    where = all_of(clauses)
    rank = _effective(search, policy) if search.decayed else Clause("confidence")
    floor = search.min_effective_confidence
    # One statement, so that rows and counts are of one moment; only the rows that are returned are read whole.
    total = (
        Clause("count(*) OVER ()") if floor is None else Clause("count(*) FILTER (WHERE rank >= ?) OVER ()", (floor,))
    )
    rows = connection.execute(
        f"""
        SELECT {COLUMNS}, rank, total, everything FROM (
            SELECT seq AS hit, rank, at, {total.sql} AS total, count(*) OVER () AS everything
            FROM (SELECT seq, stored_at AS at, {rank.sql} AS rank FROM facts WHERE {where.sql})
            ORDER BY rank DESC, at DESC, hit DESC LIMIT ?
        ) JOIN facts ON seq = hit ORDER BY rank DESC, at DESC, hit DESC
        """,
        (*total.parameters, *rank.parameters, *where.parameters, search.top_k),
    )
    kept: list[Fact] = []
    size = matching = everything = 0
    for row in rows:
        *columns, score, matching, everything = row
        if size > PAGE_BYTES or (floor is not None and score < floor):
            break
        fact = fact_of(columns)
        kept.append(fact)
        size += fact.tokens * 4
    return Found(tuple(kept), matching, everything - matching)


def _effective(search: Search, policy: DecayPolicy) -> Clause:
    """Effective confidence: half of the stored one where the fact is stale (memory contract 1.4)."""
    aged = [(horizon, search.now_us - us) for horizon, us in policy.thresholds_us]
    if not search.recalls:
        return Clause(_STALE_CASES, tuple(value for case in aged for value in case))
    salient = [(horizon, before_us, search.now_us, policy.threshold_us(horizon)) for horizon, before_us in aged]
    return Clause(_SALIENT_CASES, tuple(value for case in salient for value in case))


_ANCHOR = "coalesce(reverified_at, stored_at)"
_STALE = f"WHEN horizon = ? AND {_ANCHOR} < ? "
_STALE_CASES = f"confidence * CASE {f'{_STALE} THEN 0.5 ' * (len(Horizon) - 1)} ELSE 1.0 END"
# Only a fact that would be stale without them is asked for its recalls.
_SALIENT = f"{_STALE} AND ? - {_ANCHOR} > ? * salience(fact_id) THEN 0.5 "
_SALIENT_CASES = f"confidence * CASE {_SALIENT * (len(Horizon) - 1)} ELSE 1.0 END"


def _is_indexed(search: Search) -> bool:
    """Whether the index can find the words: it holds live facts, by three characters in a row."""
    return not search.include_superseded and all(len(word) >= TRIGRAM for word in search.words)


def _containing(search: Search) -> Clause:
    """Facts that hold any of the words as a part of their name, key or value."""
    words = "\n".join(search.words)
    if search.include_superseded:
        return Clause("holds(?, shown, key, value)", (words,))
    if not _is_indexed(search):
        return Clause("seq IN (SELECT rowid FROM facts_text WHERE has_part(?, text))", (words,))
    # The index is asked for the start of each word, and the text for the rest: on repetitive text, what a phrase costs
    # grows with its length times the text's.
    starts = dict.fromkeys(word[:PHRASE] for word in search.words)
    phrases = " OR ".join('"' + start.replace('"', '""') + '"' for start in starts)
    if all(len(word) <= PHRASE for word in search.words):
        return Clause("seq IN (SELECT rowid FROM facts_text WHERE facts_text MATCH ?)", (phrases,))
    return Clause(
        "seq IN (SELECT rowid FROM facts_text WHERE facts_text MATCH ? AND has_part(?, text))", (phrases, words)
    )


def _fact_by_id(by_id: FactById, connection: sqlite3.Connection, policy: DecayPolicy) -> Fact | None:
    return fact_by_id(connection, by_id.fact_id)


def _head(head: Head, connection: sqlite3.Connection, policy: DecayPolicy) -> Fact | None:
    return head_of(connection, head.tenant, head.entity, head.key)


def _last(last: Last, connection: sqlite3.Connection, policy: DecayPolicy) -> Fact | None:
    row = connection.execute(
        f"SELECT {COLUMNS} FROM facts WHERE shown = ? AND entity = ? AND tenant = ? AND deleted = 0 "
        "ORDER BY key DESC, seq DESC LIMIT 1",
        (split_entity(last.entity)[1], last.entity, last.tenant),
    ).fetchone()
    return fact_of(row) if row else None


def _records(records: Records, connection: sqlite3.Connection, policy: DecayPolicy) -> tuple[Fact, ...]:
    # By the shown name for the index's sake; an agent's private fact may be shown under such a name.
    where = all_of([starting(records.prefix), stored_under(records.prefix), *of_tenant(records.tenant)])
    rows = connection.execute(
        f"SELECT {COLUMNS} FROM facts WHERE seq IN "
        f"(SELECT max(seq) FROM facts WHERE {where.sql} AND deleted = 0 GROUP BY entity, key) "
        "AND value <> '' ORDER BY entity, key",
        where.parameters,
    )
    return tuple(fact_of(row) for row in rows)


def _newest(newest: Newest, connection: sqlite3.Connection, policy: DecayPolicy) -> tuple[Fact, ...]:
    # The index is walked from its end, and no further than the limit.
    rows = connection.execute(
        f"SELECT {COLUMNS} FROM facts WHERE seq IN (SELECT max(seq) FROM facts WHERE shown = ? AND entity = ? "
        "AND tenant = ? AND deleted = 0 GROUP BY key ORDER BY key DESC LIMIT ?) ORDER BY key",
        (split_entity(newest.entity)[1], newest.entity, newest.tenant, max(newest.limit, 0)),
    )
    return tuple(fact_of(row) for row in rows)


def _chain(chain: Chain, connection: sqlite3.Connection, policy: DecayPolicy) -> tuple[Fact, ...]:
    clauses = [named(chain.entity), *visible(chain.viewer), *of_tenant(chain.tenant)]
    if chain.key is not None:
        clauses.append(Clause("key = ?", (chain.key,)))
    where = all_of(clauses)
    (size,) = connection.execute(f"SELECT sum(tokens) * 4 FROM facts WHERE {where.sql}", where.parameters).fetchone()
    if (size or 0) > HISTORY_BYTES:
        raise ResultTooLarge(
            f"the history holds {size} bytes and at most {HISTORY_BYTES} are given at once; "
            "read it in pages with GET /v1/facts/export"
        )
    rows = connection.execute(f"SELECT {COLUMNS} FROM facts WHERE {where.sql} ORDER BY seq", where.parameters)
    return tuple(fact_of(row) for row in rows)


def _entities(entities: Entities, connection: sqlite3.Connection, policy: DecayPolicy) -> tuple[str, ...]:
    where = all_of([Clause("deleted = 0"), *visible(entities.viewer), *of_tenant(entities.tenant)])
    name = "entity" if entities.viewer.sees_all else "shown"
    rows = connection.execute(f"SELECT DISTINCT {name} FROM facts WHERE {where.sql} ORDER BY {name}", where.parameters)
    return tuple(name for (name,) in rows)


def _export(export: Export, connection: sqlite3.Connection, policy: DecayPolicy) -> Page:
    clauses = [Clause("seq > ?", (export.cursor,)), *visible(export.viewer), *of_tenant(export.tenant)]
    if export.since_us is not None:
        clauses.append(Clause("stored_at >= ?", (export.since_us,)))
    where = all_of(clauses)
    rows = connection.execute(
        f"SELECT {COLUMNS}, seq FROM facts WHERE {where.sql} ORDER BY seq LIMIT ?",
        (*where.parameters, export.limit + 1),
    )
    page: list[Fact] = []
    size = cursor = 0
    for *row, seq in rows:
        if len(page) == export.limit or size > PAGE_BYTES:
            return Page(tuple(page), cursor)
        fact = fact_of(row)
        page.append(fact)
        size += fact.tokens * 4
        cursor = seq
    return Page(tuple(page), None)


_READS: Mapping[type, Callable[[Any, sqlite3.Connection, DecayPolicy], object]] = {
    Search: _search,
    FactById: _fact_by_id,
    Head: _head,
    Last: _last,
    Records: _records,
    Newest: _newest,
    Chain: _chain,
    Entities: _entities,
    Export: _export,
    **MEMORY_READS,
    **FORGET_READS,
    **CONSOLIDATION_READS,
    **SUBSTRATE_READS,
    **ARTEFACT_READS,
}
