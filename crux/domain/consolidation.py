"""Making one fact of several (memory contract 9): what is protected from it, and the record by which it is undone."""

from __future__ import annotations

from collections.abc import Container, Sequence

import msgspec
from attrs import frozen
from blake3 import blake3

from crux.domain.canonical import canonical_json
from crux.domain.decay import Horizon, default_horizon
from crux.domain.facts import DEFAULT_TENANT, Draft, Fact, found_by
from crux.domain.messages import Message
from crux.domain.privacy import PrivacyRules, Viewer
from crux.errors import CruxError, Denied, InvalidArgument

CONSOLIDATION_PREFIX = "__consolidation__::"
CONSOLIDATION_KEY = "consolidation"
RECEIPT_PREFIX = "consolidation:"
MOST_TARGETS = 256


class Replaced(msgspec.Struct, frozen=True):
    """A fact that a consolidation retired, and what had retired it before."""

    fact_id: str
    superseded_by: str | None


class Consolidation(msgspec.Struct, frozen=True, kw_only=True):
    """The record of a consolidation: what it made, of what, for whom, and the hash of what was asked."""

    consolidation_id: str
    canonical_fact_id: str
    canonical_hash: str
    sources: tuple[str, ...]
    replaced: tuple[Replaced, ...]
    agent: str
    request_hash: str


@frozen(kw_only=True)
class Consolidate(Message[Consolidation]):
    """Store one canonical fact in the place of `targets` and of the chain's head, all or nothing.

    The same request under the same id again changes nothing and has the same answer. Raises what `check_targets` does,
    and `Conflict` for an id that another consolidation has.
    """

    consolidation_id: str
    entity: str
    key: str
    value: str
    targets: tuple[str, ...]
    protected: frozenset[str]
    confidence: float
    confidence_floor: float
    horizon: Horizon | None
    viewer: Viewer
    agent: str
    rules: PrivacyRules

    @property
    def draft(self) -> Draft:
        """The canonical fact."""
        horizon = default_horizon(self.entity) if self.horizon is None else self.horizon
        return Draft(
            entity=self.entity,
            key=self.key,
            value=self.value,
            confidence=self.confidence,
            source_receipt=f"{RECEIPT_PREFIX}{self.consolidation_id}",
            horizon=horizon,
            private=self.rules.is_private(self.entity),
            actor=self.agent,
        )

    @property
    def request_hash(self) -> str:
        """What tells this request from another under the same id."""
        asked = [self.entity, self.key, self.value, self.targets, sorted(self.protected)]
        return blake3(canonical_json([*asked, self.confidence, self.confidence_floor, self.horizon])).hexdigest()


@frozen
class UndoConsolidation(Message[Consolidation | None]):
    """Bring back what a consolidation retired and delete what it made; None where there is no such consolidation.

    Raises `Conflict` where the canonical fact has been replaced since.
    """

    consolidation_id: str


def check_targets(
    request: Consolidate, targets: Sequence[Fact | None], head: Fact | None, pinned: Container[str]
) -> None:
    """Whether all of `targets` (for each of the request's, what the store has) may be consolidated.

    The chain's `head` is replaced with them, asked for or not, so that it must not be pinned either. `pinned` are the
    ids that any agent has pinned. Raises for the first fact that may not: unknown targets and those of another name
    `InvalidArgument`, protected ones `Denied`.
    """
    for fact_id, fact in zip(request.targets, targets, strict=True):
        if (refusal := _refusal(request, fact_id, fact, pinned)) is not None:
            raise refusal
    if head is not None and (head.fact_id in request.protected or head.fact_id in pinned):
        raise _pinned(head.fact_id)


def _refusal(request: Consolidate, fact_id: str, fact: Fact | None, pinned: Container[str]) -> CruxError | None:
    # Another agent's private fact, or another tenant's, is as unknown as one that never was.
    if fact is None or fact.tenant != DEFAULT_TENANT or (found_by(request.viewer, fact) is None and not fact.deleted):
        return _wrong(fact_id, "target_not_found", "is no fact that you can see")
    if fact.deleted:
        if fact.private:
            return _wrong(fact_id, "target_not_found", "is no fact that you can see")
        return _protected(fact_id, "target_deleted", "is deleted")
    if fact_id in request.protected or fact_id in pinned:
        return _pinned(fact_id)
    if fact.private:
        return _protected(fact_id, "target_private", "is private, and what is made of it would be public")
    if fact.source_receipt is not None:
        return _protected(fact_id, "target_receipt_linked", f"is backed by a receipt ({fact.source_receipt})")
    if fact.confidence >= request.confidence_floor:
        return _protected(
            fact_id,
            "target_high_confidence",
            f"has confidence {fact.confidence:g}, and from {request.confidence_floor:g} on facts are protected; "
            "raise protected_confidence_floor above it to merge it",
        )
    if (fact.entity, fact.key) != (request.entity, request.key):
        return _wrong(fact_id, "invalid_request", "is not of this entity and key")
    return None


def _pinned(fact_id: str) -> Denied:
    return _protected(fact_id, "target_pinned", "is pinned")


def _wrong(fact_id: str, reason: str, why: str) -> InvalidArgument:
    data = {"param": "target_fact_ids", "fact_id": fact_id, "reason": reason, "protected": True}
    return InvalidArgument(f"target {fact_id} {why}; nothing was changed", data=data)


def _protected(fact_id: str, reason: str, why: str) -> Denied:
    data = {"fact_id": fact_id, "reason": reason, "protected": True}
    return Denied(f"target {fact_id} {why}; nothing was changed", data=data)


def record_entity(consolidation_id: str) -> str:
    """The stored name of a consolidation's record."""
    return f"{CONSOLIDATION_PREFIX}{consolidation_id}"


def record_draft(record: Consolidation) -> Draft:
    """A consolidation's record as it is stored."""
    value = msgspec.json.encode(record).decode()
    return Draft(entity=record_entity(record.consolidation_id), key=CONSOLIDATION_KEY, value=value, private=True)


def without_hashes(record: Consolidation) -> Consolidation:
    """The record once the canonical value is forgotten: it can still be undone, and tells nobody a value tried out."""
    return msgspec.structs.replace(record, canonical_hash="", request_hash="")


def record_of(fact: Fact) -> Consolidation:
    """The record in a stored fact."""
    return msgspec.json.decode(fact.value, type=Consolidation)


def canonical_hash(value: str) -> str:
    """What names a canonical value without saying it."""
    return f"blake3:{blake3(value.encode()).hexdigest()}"
