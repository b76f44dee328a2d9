"""What each write does inside its transaction: read, apply the domain's rules, write."""

from collections.abc import Callable, Mapping
from typing import Any

from crux.domain.commands import Delete, Deleted, Erase, Probe, Put, Seed, Transact
from crux.domain.facts import Draft, check_deletable, found_by
from crux.domain.messages import Message
from crux.storage.artefacts import ARTEFACT_WRITES
from crux.storage.consolidating import CONSOLIDATION_WRITES
from crux.storage.documents import DOCUMENT_WRITES
from crux.storage.forgetting import FORGET_WRITES
from crux.storage.memory import MEMORY_WRITES
from crux.storage.substrate import SUBSTRATE_WRITES
from crux.storage.transaction import Transaction
from crux.storage.versions import made_by, put


def apply(command: Message[Any], transaction: Transaction, now_us: int) -> object:
    """Carry out `command`; its reply. Raises `CruxError` where it is refused, having perhaps written a part: the caller
    rolls back to where it was before."""
    return _APPLY[type(command)](command, transaction, now_us)


def _delete(delete: Delete, transaction: Transaction, now_us: int) -> Deleted:
    fact = transaction.fact(delete.fact_id)
    shown = found_by(delete.viewer, fact, delete.tenant)
    if fact is None or shown is None:
        return Deleted(found=False)
    check_deletable(fact, shown, canonical=made_by(fact, transaction) is not None)
    transaction.delete(fact.fact_id)
    return Deleted(found=True)


def _erase(erase: Erase, transaction: Transaction, now_us: int) -> Deleted:
    return Deleted(found=transaction.erase_chain(erase.tenant, erase.entity, erase.key) > 0)


def _seed(seed: Seed, transaction: Transaction, now_us: int) -> int:
    due = [draft for draft in seed.drafts if _is_due(draft, transaction)]
    for draft in due:
        put(Put(draft), transaction, now_us)
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
    Put: put,
    Delete: _delete,
    Erase: _erase,
    Seed: _seed,
    Probe: _probe,
    Transact: _transact,
    **DOCUMENT_WRITES,
    **MEMORY_WRITES,
    **FORGET_WRITES,
    **CONSOLIDATION_WRITES,
    **SUBSTRATE_WRITES,
    **ARTEFACT_WRITES,
}
