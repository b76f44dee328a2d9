"""What can be asked of the retrieval index, and what it answers (memory contract 2 and 3)."""

from __future__ import annotations

import re
from enum import IntEnum
from typing import Final

import msgspec
from attrs import frozen

from crux.domain.messages import Message

# An index has one row for each passage and each fact: `place_of` is its number there.
LONGEST_QUERY_BYTES = 128 * 1024


class Segment(IntEnum):
    """What a hit is a part of. An index has both kinds in one order of ranks."""

    DOCUMENTS = 0
    FACTS = 1


class Handle(msgspec.Struct, frozen=True):
    """What a hit is asked for by. `doc` is the sealed number of a passage or fact: it tells nothing of how many there
    are."""

    segment: int = msgspec.field(name="segment_index")
    doc: int = msgspec.field(name="doc_id")

    def __str__(self) -> str:
        return f"{self.segment}:{self.doc}"


_HANDLE: Final = re.compile(r"([0-9]{1,18}):([0-9]{1,18})", re.ASCII)


def parse_handle(text: str) -> Handle | None:
    """The handle that `text` is (`<segment>:<doc>`), None where it can be none of ours.

    Raises ValueError where it does not have two parts.
    """
    if text.count(":") != 1:
        raise ValueError(text)
    found = _HANDLE.fullmatch(text)
    return Handle(int(found[1]), int(found[2])) if found else None


class Source(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a hit is from: a document's id, title and address, or a fact's id, entity and key."""

    document: str | None = None
    title: str | None = None
    uri: str | None = None
    fact_id: str | None = None
    entity: str | None = None
    key: str | None = None


class Hit(msgspec.Struct, frozen=True):
    """One passage or fact that was found. `tokens` is what its text costs to read."""

    handle: Handle
    score: float
    tokens: int
    source: Source


class Retrieved(msgspec.Struct, frozen=True):
    """The best hits in order of rank.

    `total` counts all that have a word of the query and `below_floor` those of them under the least score; where not
    all of them were looked at (`exhaustive` is false), these two count what was. `missing` are the words of the query
    that the index does not hold, each once, and `missed` is how many of all `words` they are. `passages` is how many
    the index holds, facts included.
    """

    hits: tuple[Hit, ...] = ()
    total: int = 0
    below_floor: int = 0
    words: int = 0
    missing: tuple[str, ...] = ()
    missed: int = 0
    passages: int = 0
    exhaustive: bool = True
    fused: bool = False

    @property
    def coverage(self) -> float:
        """The share of the query's words that the index holds, 0 for a query without words."""
        return (self.words - self.missed) / self.words if self.words else 0.0


@frozen
class Retrieve(Message[Retrieved]):
    """Search one tenant's documents and public live facts for `text`, best first.

    `min_score` is a floor on BM25, before scores of linked hits are fused.
    """

    tenant: str
    text: str
    limit: int
    min_score: float | None = None


@frozen
class Chunk:
    """The text of a hit, and where it is from."""

    handle: Handle
    text: str
    tokens: int
    source: Source


@frozen
class Expanded:
    """The texts asked for, in that order; `absent` are handles without one, `too_much` those that had no room."""

    chunks: tuple[Chunk, ...]
    absent: frozenset[Handle]
    too_much: frozenset[Handle]


@frozen
class Expand(Message[Expanded]):
    """Read the texts of hits of an earlier search."""

    tenant: str
    handles: tuple[Handle, ...]
