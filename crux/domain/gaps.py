"""What agents looked for and the index did not hold (memory contract 4, `get_gaps`).

A gap is the words that were missing, not the query that they were in: what somebody asked is not everybody's to read.
"""

from collections.abc import Iterable
from typing import Final

import msgspec
from attrs import frozen

from crux.domain.bounds import cut
from crux.domain.decay import Horizon
from crux.domain.facts import Draft, Fact
from crux.domain.instants import rfc3339
from crux.domain.messages import Message
from crux.domain.retrieval import Retrieved

GAPS_PREFIX: Final = "__ops__::coverage::"
# A query that finds less than this share of its words leaves a gap.
LOW_COVERAGE: Final = 0.5
MOST_WORDS: Final = 8
MOST_KEY_BYTES: Final = 200
# Gaps that are kept of one tenant: of more, those asked for last.
MOST_GAPS: Final = 200


@frozen
class NoteGap(Message[None]):
    """Write down that a tenant's index lacks `words`. To be told, not asked."""

    tenant: str
    words: tuple[str, ...]
    now_us: int

    @property
    def key(self) -> str:
        """The same for the same words in any order."""
        return cut(" ".join(sorted(word.casefold() for word in self.words)), MOST_KEY_BYTES)


class Gap(msgspec.Struct, frozen=True):
    """What is kept under a gap's key."""

    missing: tuple[str, ...]
    queries: int
    last_asked: str


def gap_of(found: Retrieved, tenant: str, now_us: int) -> NoteGap | None:
    """The gap that a search came upon, None where it covered enough or there is no index."""
    if not found.passages or not found.missing or found.coverage >= LOW_COVERAGE:
        return None
    return NoteGap(tenant, found.missing[:MOST_WORDS], now_us)


def entity_of(tenant: str) -> str:
    """The stored name that the gaps of a tenant are under."""
    return f"{GAPS_PREFIX}{tenant}"


def draft_of(noted: NoteGap, queries: int) -> Draft:
    """The record of a gap that `queries` searches came upon."""
    gap = Gap(noted.words, queries, rfc3339(noted.now_us))
    return Draft(
        entity=entity_of(noted.tenant),
        key=noted.key,
        value=msgspec.json.encode(gap).decode(),
        tenant=noted.tenant,
        horizon=Horizon.VOLATILE,
        private=True,
    )


def queries_of(fact: Fact) -> int:
    """How many searches came upon a gap, given its record."""
    return msgspec.json.decode(fact.value, type=Gap).queries


def matching(gaps: Iterable[Fact], words: tuple[str, ...], most: int) -> list[Fact]:
    """Those with any of `words`, or all without any; the latest `most`, the latest first."""
    found = [gap for gap in gaps if not words or any(word in gap.value.lower() for word in words)]
    return sorted(found, key=lambda gap: gap.stored_at_us, reverse=True)[:most]
