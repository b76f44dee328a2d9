"""The memory panel and the janitor, as SQL (memory contract 5, 6 and 8)."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from crux.domain.budgets import within_budget
from crux.domain.commands import Put
from crux.domain.decay import DecayPolicy
from crux.domain.facts import Draft, Fact
from crux.domain.memory import (
    PINNED,
    PINNED_KEY,
    Aging,
    Edited,
    EditFact,
    FactsById,
    PinFact,
    Remembered,
    Reverify,
    SetHorizon,
    Viewed,
    ViewMemory,
    no_fact,
    pin_draft,
    pin_entity,
    reverify_draft,
    touchable,
)
from crux.domain.privacy import BOOTSTRAP_PREFIX, Viewer
from crux.storage.clauses import LAST_CHARACTER, Clause, all_of, any_of, named, of_tenant, stale, visible
from crux.storage.rows import WITHOUT_VALUE, fact_of
from crux.storage.transaction import Transaction, fact_by_id
from crux.storage.versions import put

IS_PIN = f"key = '{PINNED_KEY}' AND value = '{PINNED}' AND deleted = 0"
# Bootstrap facts are nobody's memory; of the daemon's own, nobody sees any in the first place.
_MEMORY = Clause("NOT (shown >= ? AND shown < ?)", (BOOTSTRAP_PREFIX, BOOTSTRAP_PREFIX + LAST_CHARACTER))


def in_memory(viewer: Viewer, tenant: str) -> list[Clause]:
    """The facts, replaced ones included, that are `viewer`'s memory: public ones and its own."""
    return [Clause("deleted = 0"), _MEMORY, *visible(viewer), *of_tenant(tenant)]


def _view(view: ViewMemory, connection: sqlite3.Connection, policy: DecayPolicy) -> Viewed:
    clauses = [*in_memory(view.viewer, view.tenant), *_names(view.entity, view.key)]
    found = _facts(connection, all_of(clauses), "stored_at DESC, confidence DESC, seq DESC", view.limit)
    # A row of the answer costs more than its value, so none fits whose value does not.
    read = [fact_by_id(connection, fact.fact_id) for fact in within_budget(found, view.token_budget)]
    facts = [fact for fact in read if fact is not None]
    pinned = set() if view.agent is None else _pinned(view.agent, facts, connection)
    remembered = tuple(Remembered(fact, fact.fact_id in pinned) for fact in facts)
    return Viewed(remembered, len(found) - len(facts))


def _aging(aging: Aging, connection: sqlite3.Connection, policy: DecayPolicy) -> tuple[Fact, ...]:
    clauses = [*in_memory(aging.viewer, aging.tenant), *_names(aging.entity, aging.key)]
    if aging.out_of_date:
        clauses.append(any_of([Clause("superseded_by IS NOT NULL"), stale(aging.now_us, policy)]))
    return tuple(_facts(connection, all_of(clauses), "stored_at, seq", aging.limit))


def _names(entity: str | None, key: str | None) -> list[Clause]:
    """Facts of an entity and a key, as far as these are given."""
    clauses = [] if entity is None else [named(entity)]
    return clauses if key is None else [*clauses, Clause("key = ?", (key,))]


def _facts(connection: sqlite3.Connection, where: Clause, order: str, limit: int) -> list[Fact]:
    """The first facts in that order, without their values."""
    rows = connection.execute(
        f"SELECT {WITHOUT_VALUE} FROM facts WHERE {where.sql} ORDER BY {order} LIMIT ?", (*where.parameters, limit)
    )
    return [fact_of(row) for row in rows]


def _pinned(agent: str, facts: Sequence[Fact], connection: sqlite3.Connection) -> set[str]:
    """The ids of those facts that an agent has pinned."""
    ids = {pin_entity(agent, fact.fact_id): fact.fact_id for fact in facts}
    marks = ", ".join("?" * len(ids))
    pins = connection.execute(f"SELECT shown FROM facts WHERE shown IN ({marks}) AND {IS_PIN}", tuple(ids))
    return {ids[entity] for (entity,) in pins}


def _by_id(read: FactsById, connection: sqlite3.Connection, policy: DecayPolicy) -> tuple[Fact | None, ...]:
    return tuple(fact_by_id(connection, fact_id, WITHOUT_VALUE) for fact_id in read.fact_ids)


def _edit(edit: EditFact, transaction: Transaction, now_us: int) -> Edited:
    fact = transaction.fact(edit.fact_id)
    if fact is None or touchable(edit.viewer, fact) is None:
        raise no_fact(edit.fact_id)
    draft = Draft(
        entity=fact.entity,
        key=fact.key,
        value=edit.value,
        tenant=fact.tenant,
        confidence=fact.confidence,
        source_receipt=None if edit.reason is None else f"memory_edit:{edit.reason}",
        horizon=fact.horizon,
        private=fact.private,
        actor=edit.agent,
        valid_from_us=fact.valid_from_us,
        valid_to_us=fact.valid_to_us,
    )
    stored = put(Put(draft, edit.viewer), transaction, now_us).fact
    pin = transaction.head(fact.tenant, pin_entity(edit.agent, fact.fact_id), PINNED_KEY)
    pinned = pin is not None and pin.value == PINNED
    if pinned:
        _set_pin(edit.agent, stored.fact_id, transaction, now_us, pinned=True)
    return Edited(stored, pinned)


def _pin(pin: PinFact, transaction: Transaction, now_us: int) -> None:
    if touchable(pin.viewer, transaction.fact(pin.fact_id)) is None:
        raise no_fact(pin.fact_id)
    _set_pin(pin.agent, pin.fact_id, transaction, now_us, pinned=pin.pinned)


def _set_pin(agent: str, fact_id: str, transaction: Transaction, now_us: int, *, pinned: bool) -> None:
    put(Put(pin_draft(agent, fact_id, pinned=pinned), keep_history=False), transaction, now_us)


def _set_horizon(change: SetHorizon, transaction: Transaction, now_us: int) -> bool:
    if touchable(change.viewer, transaction.fact(change.fact_id)) is None:
        return False
    transaction.set_horizon(change.fact_id, change.horizon)
    return True


def _reverify(reverify: Reverify, transaction: Transaction, now_us: int) -> int | None:
    if touchable(reverify.viewer, transaction.fact(reverify.fact_id)) is None:
        return None
    transaction.reverify(reverify.fact_id, now_us)
    put(Put(reverify_draft(reverify.fact_id, reverify.receipt_id, reverify.agent, now_us)), transaction, now_us)
    return now_us


MEMORY_READS: Mapping[type, Callable[[Any, sqlite3.Connection, DecayPolicy], object]] = {
    ViewMemory: _view,
    Aging: _aging,
    FactsById: _by_id,
}
MEMORY_WRITES: Mapping[type, Callable[[Any, Transaction, int], object]] = {
    EditFact: _edit,
    PinFact: _pin,
    SetHorizon: _set_horizon,
    Reverify: _reverify,
}
