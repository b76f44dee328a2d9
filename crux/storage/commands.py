"""What each write does inside its transaction: read, apply the domain's rules, write."""

import uuid
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from crux.domain.commands import Delete, Deleted, Erase, Probe, Put, Seed, Stored, Transact
from crux.domain.facts import Draft, Fact, check_deletable, check_retirable, next_version, shown_to
from crux.domain.messages import Message
from crux.errors import Conflict
from crux.storage.documents import DOCUMENT_WRITES
from crux.storage.transaction import Transaction


def apply(command: Message[Any], transaction: Transaction, now_us: int) -> object:
    """Carry out `command`; its reply. Raises `CruxError` where it is refused, having perhaps written a part: the caller
    rolls back to where it was before."""
    return _APPLY[type(command)](command, transaction, now_us)


def _put(put: Put, transaction: Transaction, now_us: int) -> Stored:
    draft = put.draft
    head = transaction.head(draft.tenant, draft.entity, draft.key)
    if put.expected_version is not None:
        _check_version(put, head)
    targets = [transaction.fact(fact_id) for fact_id in put.retires]
    check_retirable(targets, put.retires, put.viewer, draft.tenant)
    fact = next_version(draft, head, fact_id=f"f_{uuid.uuid4().hex}", now_us=now_us)
    if not put.keep_history:
        transaction.erase_chain(draft.tenant, draft.entity, draft.key)
        fact = msgspec.structs.replace(fact, supersedes=None)
    elif head is not None:
        transaction.retire(head.fact_id, fact.fact_id)
    for fact_id in put.retires:
        transaction.retire(fact_id, fact.fact_id)
    transaction.insert(fact)
    return Stored(fact, put.retires)


def _check_version(put: Put, head: Fact | None) -> None:
    found = head.version if head else 0
    if found != put.expected_version:
        raise Conflict(
            f"expected version {put.expected_version} and found {found}: somebody else wrote meanwhile; read again",
            data={"expected_version": put.expected_version, "version": found},
        )


def _delete(delete: Delete, transaction: Transaction, now_us: int) -> Deleted:
    fact = transaction.fact(delete.fact_id)
    if fact is None or fact.deleted or delete.tenant not in (None, fact.tenant):
        return Deleted(found=False)
    shown = shown_to(delete.viewer, fact)
    if shown is None:
        return Deleted(found=False)
    check_deletable(fact, shown)
    transaction.delete(fact.fact_id)
    return Deleted(found=True)


def _erase(erase: Erase, transaction: Transaction, now_us: int) -> Deleted:
    return Deleted(found=transaction.erase_chain(erase.tenant, erase.entity, erase.key) > 0)


def _seed(seed: Seed, transaction: Transaction, now_us: int) -> int:
    due = [draft for draft in seed.drafts if _is_due(draft, transaction)]
    for draft in due:
        _put(Put(draft), transaction, now_us)
    return len(due)


def _is_due(draft: Draft, transaction: Transaction) -> bool:
    if not transaction.has_chain(draft.tenant, draft.entity, draft.key):
        return True
    head = transaction.head(draft.tenant, draft.entity, draft.key)
    return head is not None and head.source_receipt == draft.source_receipt and head.value != draft.value


def _probe(probe: Probe, transaction: Transaction, now_us: int) -> None:
    transaction.probe(now_us)


def _transact(transact: Transact[object], transaction: Transaction, now_us: int) -> tuple[object, ...]:
    return tuple(apply(step, transaction, now_us) for step in transact.steps)


_APPLY: Mapping[type, Callable[[Any, Transaction, int], object]] = {
    Put: _put,
    Delete: _delete,
    Erase: _erase,
    Seed: _seed,
    Probe: _probe,
    Transact: _transact,
    **DOCUMENT_WRITES,
}
