"""Contradictions, and making one fact of several, as SQL (memory contract 9)."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any

from crux.domain.commands import Put
from crux.domain.consolidation import (
    CONSOLIDATION_KEY,
    Consolidate,
    Consolidation,
    Replaced,
    UndoConsolidation,
    canonical_hash,
    check_targets,
    record_draft,
    record_entity,
)
from crux.domain.contradictions import LONGEST_VALUE, Claim, Contradiction, Contradictions, contradictions
from crux.domain.decay import DecayPolicy
from crux.domain.facts import DEFAULT_TENANT
from crux.domain.memory import PIN_PREFIX
from crux.errors import Conflict
from crux.storage.clauses import LAST_CHARACTER, Clause, all_of
from crux.storage.memory import IS_PIN, in_memory
from crux.storage.transaction import Transaction
from crux.storage.versions import consolidation, put


def _contradictions(
    asked: Contradictions, connection: sqlite3.Connection, policy: DecayPolicy
) -> tuple[Contradiction, ...]:
    live = all_of([*in_memory(asked.viewer, asked.tenant), Clause("superseded_by IS NULL")])
    rows = connection.execute(
        f"SELECT shown, key, fact_id, value FROM facts WHERE {live.sql} AND length(value) <= {LONGEST_VALUE} AND "
        f"(shown, key) IN (SELECT shown, key FROM facts WHERE {live.sql} GROUP BY shown, key HAVING count(*) > 1) "
        "ORDER BY shown, key, seq",
        (*live.parameters, *live.parameters),
    )
    return tuple(islice(contradictions(Claim(*row) for row in rows), asked.limit))


def _consolidate(request: Consolidate, transaction: Transaction, now_us: int) -> Consolidation:
    if (known := consolidation(request.consolidation_id, transaction)) is not None:
        if known.request_hash == request.request_hash:
            return known
        raise Conflict(
            f"consolidation {request.consolidation_id} is another one; leave consolidation_id out, or choose another",
            data={"status": Conflict.status, "consolidation_id": request.consolidation_id},
        )
    targets = [transaction.fact(fact_id) for fact_id in request.targets]
    head = transaction.head(DEFAULT_TENANT, request.entity, request.key)
    check_targets(request, targets, head, _pinned_by_anyone(transaction.connection))
    heads = [] if head is None or head.fact_id in request.targets else [head]
    sources = [fact for fact in (*targets, *heads) if fact is not None]
    canonical = put(Put(request.draft, request.viewer), transaction, now_us).fact
    for fact in sources:
        if fact != head:  # storing the canonical fact has retired that one
            transaction.retire(fact.fact_id, canonical.fact_id)
    record = Consolidation(
        consolidation_id=request.consolidation_id,
        canonical_fact_id=canonical.fact_id,
        canonical_hash=canonical_hash(canonical.value),
        sources=request.targets,
        replaced=tuple(Replaced(fact.fact_id, fact.superseded_by) for fact in sources),
        agent=request.agent,
        request_hash=request.request_hash,
    )
    put(Put(record_draft(record)), transaction, now_us)
    return record


def _undo(undo: UndoConsolidation, transaction: Transaction, now_us: int) -> Consolidation | None:
    record = consolidation(undo.consolidation_id, transaction)
    if record is None:
        return None
    canonical = transaction.fact(record.canonical_fact_id)
    if canonical is not None and canonical.superseded_by is not None:
        raise Conflict(
            f"what consolidation {record.consolidation_id} made has been replaced by {canonical.superseded_by} since",
            data={"canonical_fact_id": canonical.fact_id, "superseded_by": canonical.superseded_by},
        )
    transaction.delete(record.canonical_fact_id)
    for replaced in record.replaced:
        fact = transaction.fact(replaced.fact_id)
        if fact is not None and fact.superseded_by == record.canonical_fact_id:
            transaction.restore(fact, replaced.superseded_by)
    transaction.erase_chain(DEFAULT_TENANT, record_entity(record.consolidation_id), CONSOLIDATION_KEY)
    return record


def _pinned_by_anyone(connection: sqlite3.Connection) -> frozenset[str]:
    """The ids of all facts that any agent has pinned."""
    pins = connection.execute(
        f"SELECT shown FROM facts WHERE shown >= ? AND shown < ? AND {IS_PIN}",
        (PIN_PREFIX, PIN_PREFIX + LAST_CHARACTER),
    )
    return frozenset(entity.rpartition("::")[2] for (entity,) in pins)


CONSOLIDATION_READS: Mapping[type, Callable[[Any, sqlite3.Connection, DecayPolicy], object]] = {
    Contradictions: _contradictions
}
CONSOLIDATION_WRITES: Mapping[type, Callable[[Any, Transaction, int], object]] = {
    Consolidate: _consolidate,
    UndoConsolidation: _undo,
}
