"""What can be asked of the store: immutable messages, each naming the type of its reply.

Writes commit together with what they imply or not at all; `Transact` makes one write of several.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeVar

from attrs import frozen

from crux.domain.facts import DEFAULT_TENANT, Draft, Fact, Recalls
from crux.domain.messages import Message
from crux.domain.privacy import ANONYMOUS, Viewer

R = TypeVar("R")


@frozen
class Stored:
    """The fact as stored, and the ids of the other facts that it retired."""

    fact: Fact
    retired: tuple[str, ...] = ()


@frozen
class Put(Message[Stored]):
    """Store one fact as the next version of its chain.

    `retires` are ids of other facts that it takes the place of, checked against what `viewer` may see. With
    `expected_version` (0 = the chain is empty) the write is refused with `Conflict` unless the live head has that
    version.
    `keep_history=False` erases the earlier versions, for records whose past nobody asks for.
    """

    draft: Draft
    viewer: Viewer = ANONYMOUS
    retires: tuple[str, ...] = ()
    expected_version: int | None = None
    keep_history: bool = True


@frozen
class Deleted:
    """Whether there was such a fact for this viewer."""

    found: bool


@frozen
class Delete(Message[Deleted]):
    """Soft-delete one fact that `viewer` can see; `Denied` where it belongs to the daemon."""

    fact_id: str
    viewer: Viewer
    tenant: str | None = DEFAULT_TENANT


@frozen
class Erase(Message[Deleted]):
    """Remove every version of a chain for good, values included. For the daemon's own records."""

    entity: str
    key: str
    tenant: str = DEFAULT_TENANT


@frozen
class Seed(Message[int]):
    """Store the daemon's stock of facts; the reply is how many were new or renewed.

    A draft is stored where its chain has never existed, and where the head is an earlier stock that nobody edited: one
    with the draft's `source_receipt` and another value. What was edited or deleted is left alone (seed 11.12).
    """

    drafts: tuple[Draft, ...]


@frozen
class Readiness:
    """Whether writes are kept; each problem is (name of the check, what is wrong)."""

    problems: tuple[tuple[str, str], ...] = ()


@frozen
class CheckReadiness(Message[Readiness]):
    """Learn whether writing works, by writing and syncing a byte where no recent write says so."""


@frozen
class Probe(Message[None]):
    """Write and sync a byte."""


@frozen
class Transact(Message[tuple[R, ...]]):
    """Apply all steps in order, or none: the first that is refused refuses the whole."""

    steps: tuple[Message[R], ...]


@frozen
class FactById(Message[Fact | None]):
    """One fact, deleted ones included; visibility is for the asker to judge."""

    fact_id: str


@frozen
class Head(Message[Fact | None]):
    """The live head of a chain of stored names."""

    entity: str
    key: str
    tenant: str = DEFAULT_TENANT


@frozen
class Last(Message[Fact | None]):
    """The live head of that chain of an entity, a stored name, whose key sorts last."""

    entity: str
    tenant: str = DEFAULT_TENANT


@frozen
class Records(Message[tuple[Fact, ...]]):
    """The live heads that have a value, of all chains whose entity, a stored name, starts with `prefix`.

    They are ordered by entity, then by key.

    For the daemon's own records, whose number their keeper bounds: all of them are in the reply.
    """

    prefix: str
    tenant: str = DEFAULT_TENANT


@frozen
class Newest(Message[tuple[Fact, ...]]):
    """The live heads of those `limit` chains of an entity, a stored name, whose keys sort last; by key, last one last.

    What it costs grows with `limit`, not with how many chains there are.
    """

    entity: str
    limit: int
    tenant: str = DEFAULT_TENANT


@frozen
class Chain(Message[tuple[Fact, ...]]):
    """All versions, oldest first, of the chains that `viewer` sees as (entity, key); deleted ones included.

    `entity` is a stored or a shown name; with `key` None, every key.
    """

    entity: str
    key: str | None
    viewer: Viewer
    tenant: str | None = DEFAULT_TENANT


@frozen
class Entities(Message[tuple[str, ...]]):
    """The shown names, sorted, of entities that have a fact which is not deleted."""

    viewer: Viewer
    tenant: str | None = DEFAULT_TENANT


@frozen
class Found:
    """The best matches in rank order, how many there are in all, and how many fell below the confidence floor."""

    facts: tuple[Fact, ...]
    total: int
    below_floor: int


@frozen
class Search(Message[Found]):
    """Facts that are not deleted, visible to `viewer`, best first (memory contract, `query_facts`).

    `words` (as `query_words` gives them): any of them must be a part of the shown entity, key or value.
    `entity`: a stored or shown name. Rank: effective confidence (plain confidence with `decayed=False`), then newest.
    `recalls`, by fact id, stretch horizons; whoever answers the search fills them in.
    """

    viewer: Viewer
    now_us: int
    words: tuple[str, ...] = ()
    entity: str | None = None
    entity_prefix: str | None = None
    top_k: int = 10
    include_superseded: bool = False
    as_of_us: int | None = None
    min_effective_confidence: float | None = None
    decayed: bool = True
    tenant: str | None = DEFAULT_TENANT
    recalls: Mapping[str, Recalls] = MappingProxyType({})


@frozen
class CountRecalls(Message[None]):
    """Note that a reader was given facts: what is recalled often goes stale later. To be told, not asked."""

    fact_ids: tuple[str, ...]
    now_us: int


@frozen
class Page:
    """One page of an export, and the cursor that the next one starts after (None: that was the last)."""

    facts: tuple[Fact, ...]
    next_cursor: int | None


@frozen
class Export(Message[Page]):
    """Every fact that `viewer` sees, in commit order, from `since_us` on and after `cursor`."""

    viewer: Viewer
    since_us: int | None = None
    cursor: int = 0
    limit: int = 1000
    tenant: str | None = DEFAULT_TENANT
