"""Forgetting what is in a scope, as SQL: preview and deed ask the same question (memory contract 7)."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from typing import Any

from crux.domain.budgets import within_budget
from crux.domain.commands import Put
from crux.domain.consolidation import record_draft, without_hashes
from crux.domain.decay import DecayPolicy
from crux.domain.forget import (
    MOST_FORGOTTEN,
    Forget,
    Forgotten,
    PreviewForget,
    Reach,
    Reached,
    Scope,
    ScopeType,
    forgotten,
    ids_of,
    receipt_draft,
    value_hash,
)
from crux.domain.memory import pin_entity
from crux.storage.clauses import Clause, all_of, any_of, starting
from crux.storage.memory import IS_PIN, in_memory
from crux.storage.rows import WITHOUT_VALUE, fact_of
from crux.storage.transaction import Transaction
from crux.storage.versions import origin, put

_TENANT_PREFIXES = ("tenant:", "personal::", "business::")


def reached(reach: Reach, connection: sqlite3.Connection) -> Reached:
    """The facts that a scope reaches."""
    clauses = [*in_memory(reach.viewer, reach.tenant), _SCOPES[reach.scope.type](reach.scope)]
    if reach.agent is not None and not reach.include_pinned:
        pins = f"SELECT 1 FROM facts AS pins WHERE pins.shown = ? || facts.fact_id AND {_qualified(IS_PIN)}"
        clauses.append(Clause(f"NOT EXISTS ({pins})", (pin_entity(reach.agent, ""),)))
    where = all_of(clauses)
    (total,) = connection.execute(f"SELECT count(*) FROM facts WHERE {where.sql}", where.parameters).fetchone()
    rows = connection.execute(
        f"SELECT {WITHOUT_VALUE} FROM facts WHERE {where.sql} ORDER BY stored_at, seq LIMIT {MOST_FORGOTTEN}",
        where.parameters,
    )
    facts = within_budget([fact_of(row) for row in rows], reach.token_budget)
    return Reached(tuple(facts), total - len(facts))


def _qualified(condition: str) -> str:
    """The condition on `pins`, whose columns the facts outside have as well."""
    return " AND ".join(f"pins.{part}" for part in condition.split(" AND "))


def _under_tenant(scope: Scope) -> Clause:
    return any_of([starting(f"{prefix}{scope.value}::") for prefix in _TENANT_PREFIXES])


def _glob(scope: Scope) -> Clause:
    # In a glob of SQLite's these two have a meaning as well.
    literal = scope.value.replace("[", "[[]").replace("?", "[?]")
    return Clause("key GLOB ?", (literal,))


_SCOPES: Mapping[ScopeType, Callable[[Scope], Clause]] = {
    ScopeType.ENTITY_PREFIX: lambda scope: starting(scope.value),
    ScopeType.KEY_GLOB: _glob,
    ScopeType.PASSPORT_ID: lambda scope: Clause("actor = ?", (scope.value,)),
    ScopeType.BEFORE_TIMESTAMP: lambda scope: Clause("stored_at < ?", (scope.before_us,)),
    ScopeType.TENANT_ID: _under_tenant,
}


def _preview(preview: PreviewForget, connection: sqlite3.Connection, policy: DecayPolicy) -> Reached:
    return reached(preview.reach, connection)


def _forget(forget: Forget, transaction: Transaction, now_us: int) -> Forgotten:
    found = reached(forget.reach, transaction.connection)
    hashes = [value_hash(transaction.value(fact.fact_id), forget.hash_key) for fact in found.facts]
    receipt = forgotten(forget, found, hashes, now_us)
    for fact in found.facts:
        if (record := origin(fact, transaction)) is not None:
            put(Put(record_draft(without_hashes(record)), keep_history=False), transaction, now_us)
    transaction.forget(ids_of(found.facts))
    put(Put(receipt_draft(receipt)), transaction, now_us)
    return receipt


FORGET_READS: Mapping[type, Callable[[Any, sqlite3.Connection, DecayPolicy], object]] = {PreviewForget: _preview}
FORGET_WRITES: Mapping[type, Callable[[Any, Transaction, int], object]] = {Forget: _forget}
