"""Live facts under one name that say opposite things (memory contract 9)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import groupby

import msgspec
from attrs import frozen

from crux.domain.facts import DEFAULT_TENANT
from crux.domain.messages import Message
from crux.domain.privacy import Viewer

_YES = "true yes y on enabled enable active complete completed passed pass approved approve present"
_NO = "false no n off disabled disable inactive blocked failed fail rejected reject absent"
POSITIVE, NEGATIVE = frozenset(_YES.split(" ")), frozenset(_NO.split(" "))
# A longer value has no polarity, whatever stands around its word.
LONGEST_VALUE = 64

_AROUND = re.compile(r"^[^\w]+|[^\w]+$")


@frozen
class Claim:
    """What one live fact says of a name: `entity` as shown."""

    entity: str
    key: str
    fact_id: str
    value: str


class Contradiction(msgspec.Struct, frozen=True, kw_only=True):
    """Facts of one name with opposite values, the negative ones first; `values[i]` is that of `fact_ids[i]`."""

    entity: str
    key: str
    reason: str = "opposite_polarity_same_entity_key"
    polarity_a: str = "negative"
    polarity_b: str = "positive"
    fact_ids: tuple[str, ...]
    values: tuple[str, ...]


@frozen
class Contradictions(Message[tuple[Contradiction, ...]]):
    """The first `limit` (None: all) of the contradictions that `viewer` sees, by entity and key."""

    viewer: Viewer
    limit: int | None
    tenant: str = DEFAULT_TENANT


def polarity(value: str) -> bool | None:
    """Whether a value as a whole says yes or no; None where it says neither."""
    word = _AROUND.sub("", value.strip()).lower()
    if word in POSITIVE:
        return True
    return False if word in NEGATIVE else None


def contradictions(claims: Iterable[Claim]) -> Iterable[Contradiction]:
    """The contradictions among claims that come ordered by entity and key."""
    for (entity, key), group in groupby(claims, key=lambda claim: (claim.entity, claim.key)):
        sides: dict[bool, list[Claim]] = {False: [], True: []}
        for claim in group:
            if (side := polarity(claim.value)) is not None:
                sides[side].append(claim)
        if all(sides.values()):
            both = sides[False] + sides[True]
            yield Contradiction(
                entity=entity,
                key=key,
                fact_ids=tuple(claim.fact_id for claim in both),
                values=tuple(claim.value for claim in both),
            )
