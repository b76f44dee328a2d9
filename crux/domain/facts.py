"""The fact: one value of one key of one entity, in a chain of versions (memory contract section 1)."""

from collections.abc import Container, Sequence

import msgspec
from attrs import frozen

from crux.domain.decay import Horizon, default_horizon, horizon_from_prose, salience
from crux.domain.privacy import PrivacyRules, Viewer, private_entity, reserved_prefix, split_entity
from crux.domain.tokens import of_text
from crux.errors import Denied, InvalidArgument

DEFAULT_TENANT = "default"


class Recalls(msgspec.Struct, frozen=True, gc=False):
    """How often a fact was given to readers since the daemon started, and when last. Kept in memory, not with the
    fact."""

    count: int
    last_us: int

    @property
    def salience(self) -> float:
        """How much longer they keep the fact fresh."""
        return salience(self.count)


class Fact(msgspec.Struct, frozen=True, gc=False):
    """A stored version. Times are microseconds since the Unix epoch; `entity` is the stored name.

    A struct, since a read makes many: it costs a fifth of an attrs instance.
    """

    fact_id: str
    tenant: str
    entity: str
    key: str
    value: str
    version: int
    stored_at_us: int
    tokens: int
    confidence: float = 1.0
    source_receipt: str | None = None
    supersedes: str | None = None
    superseded_by: str | None = None
    actor: str | None = None
    reverified_at_us: int | None = None
    valid_from_us: int | None = None
    valid_to_us: int | None = None
    horizon: Horizon = Horizon.NONE
    private: bool = False
    deleted: bool = False
    recalls: Recalls | None = None

    @property
    def anchor_us(self) -> int:
        """The moment that decay counts from."""
        return self.reverified_at_us if self.reverified_at_us is not None else self.stored_at_us

    @property
    def salience(self) -> float:
        """How much longer the fact stays fresh for having been recalled."""
        return 1.0 if self.recalls is None else self.recalls.salience


@frozen
class Draft:
    """A fact about to be stored: everything but what the store itself decides (id, version, time, chain)."""

    entity: str
    key: str
    value: str
    tenant: str = DEFAULT_TENANT
    confidence: float = 1.0
    source_receipt: str | None = None
    horizon: Horizon = Horizon.NONE
    private: bool = False
    actor: str | None = None
    valid_from_us: int | None = None
    valid_to_us: int | None = None


def draft_fact(
    *,
    entity: str,
    key: str,
    value: str,
    viewer: Viewer,
    rules: PrivacyRules,
    tenant: str = DEFAULT_TENANT,
    confidence: float = 1.0,
    source_receipt: str | None = None,
    horizon: Horizon | None = None,
    freshness_horizon: str | None = None,
    private: bool = False,
    actor: str | None = None,
) -> Draft:
    """The fact that an agent or a person asks to store, after every rule that needs no look into the store.

    Raises `InvalidArgument` for a daemon-owned entity, a blank name, and a private fact of nobody.
    """
    check_writable(entity, key)
    if private and viewer.owner is None:
        raise InvalidArgument(
            "private facts need an owner: connect with an agent token, or leave 'private' out",
            data={"param": "private", "requires_agent_identity": True},
        )
    stored = private_entity(viewer.owner, entity) if private and viewer.owner is not None else entity
    if horizon is None:
        horizon = default_horizon(stored) if freshness_horizon is None else horizon_from_prose(freshness_horizon)
    return Draft(
        entity=stored,
        key=key,
        value=value,
        tenant=tenant,
        confidence=confidence,
        source_receipt=source_receipt,
        horizon=horizon,
        private=rules.is_private(stored, requested=private),
        actor=actor,
    )


def check_writable(entity: str, key: str) -> None:
    """Raise `InvalidArgument` for a name that nobody writes by a tool: the daemon's own, and a blank one."""
    if (prefix := reserved_prefix(entity)) is not None:
        raise InvalidArgument(
            f"entity '{entity}' is reserved: names starting with '{prefix}' belong to the daemon; choose another name",
            data={
                "error_code": "RESERVED_ENTITY_PREFIX",
                "param": "entity",
                "entity": entity,
                "reserved_prefix": prefix,
            },
        )
    for name, text in (("entity", entity), ("key", key)):
        if not text.strip():
            raise InvalidArgument(f"'{name}' must not be blank", data={"param": name})


def next_version(draft: Draft, head: Fact | None, *, fact_id: str, now_us: int) -> Fact:
    """The fact that storing `draft` makes, `head` being the newest live fact of its chain (memory contract 1.2)."""
    return Fact(
        fact_id=fact_id,
        tenant=draft.tenant,
        entity=draft.entity,
        key=draft.key,
        value=draft.value,
        version=head.version + 1 if head else 1,
        stored_at_us=now_us,
        tokens=of_text(draft.value),
        confidence=draft.confidence,
        source_receipt=draft.source_receipt,
        horizon=draft.horizon,
        private=draft.private,
        supersedes=head.fact_id if head else None,
        actor=draft.actor,
        valid_from_us=draft.valid_from_us,
        valid_to_us=draft.valid_to_us,
    )


def shown_to(viewer: Viewer, fact: Fact) -> str | None:
    """The entity name under which `viewer` sees `fact`, or None where the fact is not for its eyes (1.5)."""
    if viewer.sees_all:
        return fact.entity
    owner, logical = split_entity(fact.entity)
    if owner is not None:
        return logical if owner in viewer.owners else None
    return None if fact.private else fact.entity


def found_by(viewer: Viewer, fact: Fact | None, tenant: str | None = DEFAULT_TENANT) -> str | None:
    """The name under which a fact is there for `viewer`; None where there is none, it is deleted, or not for its
    eyes."""
    if fact is None or fact.deleted or tenant not in (None, fact.tenant):
        return None
    return shown_to(viewer, fact)


def check_retirable(
    targets: Sequence[Fact | None],
    asked: Sequence[str],
    viewer: Viewer,
    tenant: str,
    consolidated: Container[str] = (),
) -> None:
    """Whether `viewer` may retire the facts asked for by id; `targets[i]` is what the store has for `asked[i]`.

    `consolidated` are the ids of those that a consolidation stands on. Raises `Denied` for them, then
    `InvalidArgument`: reserved targets first, then ids that are unknown, deleted or not the viewer's to see.
    """
    found = [
        (fact_id, fact, None if fact is None or fact.tenant != tenant else shown_to(viewer, fact))
        for fact_id, fact in zip(asked, targets, strict=True)
    ]
    sources = [fact_id for fact_id, _, shown in found if shown is not None and fact_id in consolidated]
    if sources:
        raise Denied(
            f"supersedes names facts that a consolidation stands on: {', '.join(sources)}; an operator has to undo it",
            data={"error_code": "CONSOLIDATION_SOURCE_REQUIRES_UNDO", "param": "supersedes", "fact_ids": sources},
        )
    reserved = [
        {"fact_id": fact_id, "entity": shown, "reserved_prefix": prefix}
        for fact_id, fact, shown in found
        if shown is not None and (prefix := reserved_prefix(split_entity(shown)[1])) is not None
    ]
    if reserved:
        raise InvalidArgument(
            f"supersedes names facts that belong to the daemon: {', '.join(str(r['fact_id']) for r in reserved)}",
            data={"error_code": "RESERVED_SUPERSEDES_TARGET", "param": "supersedes", "reserved_refs": reserved},
        )
    invalid = [fact_id for fact_id, fact, shown in found if shown is None or fact is None or fact.deleted]
    if invalid:
        raise InvalidArgument(
            f"supersedes names facts that do not exist or are not visible to you: {', '.join(invalid)}",
            data={"param": "supersedes", "invalid_refs": invalid},
        )


def check_deletable(fact: Fact, shown: str, *, canonical: bool = False) -> None:
    """Raise `Denied` where the fact belongs to the daemon, or is the `canonical` one of a consolidation."""
    if (prefix := reserved_prefix(split_entity(shown)[1])) is not None:
        raise Denied(
            f"fact {fact.fact_id} belongs to the daemon ('{prefix}') and is not deleted this way",
            data={
                "error_code": "RESERVED_ENTITY_PREFIX",
                "fact_id": fact.fact_id,
                "entity": shown,
                "reserved_prefix": prefix,
            },
        )
    if canonical:
        raise Denied(
            f"fact {fact.fact_id} is what a consolidation made of others; an operator has to undo it first",
            data={"error_code": "CONSOLIDATION_CANONICAL_REQUIRES_UNDO", "fact_id": fact.fact_id},
        )
