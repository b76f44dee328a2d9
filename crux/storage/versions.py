"""Storing the next version of a chain, and what a consolidation keeps from being retired or deleted."""

import uuid

import msgspec

from crux.domain.commands import Put, Stored
from crux.domain.consolidation import CONSOLIDATION_KEY, RECEIPT_PREFIX, Consolidation, record_entity, record_of
from crux.domain.facts import DEFAULT_TENANT, Fact, check_retirable, next_version
from crux.errors import Conflict
from crux.storage.transaction import Transaction


def put(command: Put, transaction: Transaction, now_us: int) -> Stored:
    """Store the next version of a chain; raises as `Put` says."""
    draft = command.draft
    head = transaction.head(draft.tenant, draft.entity, draft.key)
    if command.expected_version is not None:
        _check_version(command, head)
    targets = [transaction.fact(fact_id) for fact_id in command.retires]
    sources = frozenset(target.fact_id for target in targets if target is not None and is_source(target, transaction))
    check_retirable(targets, command.retires, command.viewer, draft.tenant, sources)
    fact = next_version(draft, head, fact_id=f"f_{uuid.uuid4().hex}", now_us=now_us)
    if not command.keep_history:
        transaction.erase_chain(draft.tenant, draft.entity, draft.key)
        fact = msgspec.structs.replace(fact, supersedes=None)
    elif head is not None:
        transaction.retire(head.fact_id, fact.fact_id)
    for fact_id in command.retires:
        transaction.retire(fact_id, fact.fact_id)
    transaction.insert(fact)
    return Stored(fact, command.retires)


def _check_version(command: Put, head: Fact | None) -> None:
    found = head.version if head else 0
    if found != command.expected_version:
        raise Conflict(
            f"expected version {command.expected_version} and found {found}: somebody else wrote meanwhile; read again",
            data={"expected_version": command.expected_version, "version": found},
        )


def consolidation(consolidation_id: str, transaction: Transaction) -> Consolidation | None:
    """The record of a consolidation that has not been undone."""
    found = transaction.head(DEFAULT_TENANT, record_entity(consolidation_id), CONSOLIDATION_KEY)
    return None if found is None else record_of(found)


def made_by(fact: Fact, transaction: Transaction) -> Consolidation | None:
    """The consolidation that protects `fact`, its canonical one, and its sources: until a later version takes over."""
    return origin(fact, transaction) if fact.superseded_by is None else None


def origin(fact: Fact, transaction: Transaction) -> Consolidation | None:
    """The consolidation that `fact` is the canonical one of, whatever became of it since."""
    if fact.source_receipt is None or not fact.source_receipt.startswith(RECEIPT_PREFIX):
        return None
    record = consolidation(fact.source_receipt.removeprefix(RECEIPT_PREFIX), transaction)
    return record if record is not None and record.canonical_fact_id == fact.fact_id else None


def is_source(fact: Fact, transaction: Transaction) -> bool:
    """Whether a consolidation has retired `fact` and would bring it back if it was undone."""
    if fact.superseded_by is None or (retired_by := transaction.fact(fact.superseded_by)) is None:
        return False
    record = made_by(retired_by, transaction)
    return record is not None and any(replaced.fact_id == fact.fact_id for replaced in record.replaced)
