"""The memory panel and the janitor: what may be touched, pins, what is asked of the store (memory contract 5, 8)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from attrs import frozen

from crux.domain.decay import Horizon
from crux.domain.facts import DEFAULT_TENANT, Draft, Fact, found_by
from crux.domain.instants import rfc3339
from crux.domain.messages import Message
from crux.domain.privacy import ANONYMOUS, BOOTSTRAP_PREFIX, Viewer, owned, reserved_prefix, split_entity
from crux.errors import Denied, InvalidArgument

PIN_PREFIX = "__memory_pin::"
PINNED_KEY = "pinned"
PINNED, UNPINNED = "1", "0"
REVERIFY_PREFIX = "__reverify_receipts__::"


def hidden_prefix(entity: str) -> str | None:
    """The prefix that keeps an entity, stored or shown, out of an agent's own memory; None where none does."""
    logical = split_entity(entity)[1]
    return BOOTSTRAP_PREFIX if logical.startswith(BOOTSTRAP_PREFIX) else reserved_prefix(logical)


def touchable(viewer: Viewer, fact: Fact | None) -> str | None:
    """The shown name of a fact that `viewer` may change, None where there is no such fact for it.

    Raises `Denied` where the fact is seen and belongs to the daemon (Decision 22).
    """
    shown = found_by(viewer, fact)
    if fact is not None and shown is not None and (prefix := hidden_prefix(shown)) is not None:
        raise Denied(
            f"fact {fact.fact_id} is under '{prefix}', which has tools of its own",
            data={"fact_id": fact.fact_id, "reserved": True, "reserved_prefix": prefix},
        )
    return shown


def no_fact(fact_id: str) -> InvalidArgument:
    """The refusal of an id that is no live fact of the caller's; whose else it is does not show."""
    return InvalidArgument(
        f"no fact {fact_id} that you can see; memory_view and query_facts give the ids",
        data={"param": "fact_id", "fact_id": fact_id},
    )


def pin_entity(agent: str, fact_id: str) -> str:
    """The stored name of an agent's pin on a fact."""
    return owned(PIN_PREFIX, agent, fact_id)


def pin_draft(agent: str, fact_id: str, *, pinned: bool) -> Draft:
    """The record that an agent has pinned a fact, or no longer has."""
    return Draft(entity=pin_entity(agent, fact_id), key=PINNED_KEY, value=PINNED if pinned else UNPINNED, private=True)


class Reverified(msgspec.Struct, frozen=True):
    """What a receipt of a re-verification says."""

    fact_id: str
    reverified_by: str
    reverified_at: str
    class_: str = msgspec.field(default="Reverify", name="class")


def reverify_draft(fact_id: str, receipt_id: str, agent: str, now_us: int) -> Draft:
    """The receipt of a re-verification."""
    value = msgspec.json.encode(Reverified(fact_id, agent, rfc3339(now_us))).decode()
    return Draft(
        entity=f"{REVERIFY_PREFIX}{fact_id}",
        key=receipt_id,
        value=value,
        source_receipt=receipt_id,
        horizon=Horizon.STABLE,
        private=True,
    )


@frozen
class Remembered:
    """A fact, and whether the asking agent has pinned it."""

    fact: Fact
    pinned: bool


@frozen
class Viewed:
    """The latest facts, and how many more there are up to the limit."""

    facts: tuple[Remembered, ...]
    left_out: int


@frozen
class ViewMemory(Message[Viewed]):
    """The latest facts that `viewer` sees, replaced ones included, the latest first; of those of one moment the surest.

    `agent` is whose pins count. No more are read than those whose values the budget has tokens for, the first in any
    case.
    """

    viewer: Viewer = ANONYMOUS
    agent: str | None = None
    entity: str | None = None
    key: str | None = None
    limit: int = 20
    token_budget: int | None = None
    tenant: str = DEFAULT_TENANT


@frozen
class Aging(Message[tuple[Fact, ...]]):
    """Facts that `viewer` sees, without their values, replaced ones included, the oldest first.

    With `out_of_date`, only those that are stale at `now_us` or replaced.
    """

    viewer: Viewer
    now_us: int
    entity: str | None = None
    key: str | None = None
    limit: int = 20
    out_of_date: bool = False
    tenant: str = DEFAULT_TENANT


@frozen
class FactsById(Message[tuple[Fact | None, ...]]):
    """The facts with these ids, without their values, in that order, deleted ones included.

    Visibility is for the asker to judge.
    """

    fact_ids: Sequence[str]


@frozen
class Edited:
    """The version that an edit made, and whether its writer has it pinned."""

    fact: Fact
    pinned: bool


@frozen
class EditFact(Message[Edited]):
    """Replace a fact's value by a further version; the writer's pin moves to it. `InvalidArgument` for no such fact."""

    fact_id: str
    value: str
    reason: str | None
    viewer: Viewer
    agent: str


@frozen
class PinFact(Message[None]):
    """Pin a fact for an agent, or no longer. `InvalidArgument` where there is no such fact for it."""

    fact_id: str
    pinned: bool
    viewer: Viewer
    agent: str


@frozen
class SetHorizon(Message[bool]):
    """Change how fast a fact goes stale, in place; whether there is such a fact. `Denied` for the daemon's own."""

    fact_id: str
    horizon: Horizon
    viewer: Viewer


@frozen
class Reverify(Message[int | None]):
    """Begin a fact's decay anew and keep a receipt of it.

    The reply is the moment in microseconds, None where there is no such fact. `Denied` for the daemon's own.
    """

    fact_id: str
    receipt_id: str
    viewer: Viewer
    agent: str
