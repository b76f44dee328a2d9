"""What `query_facts` answers: the facts found, within a budget of tokens.

The records are msgspec structs, not attrs classes: this is the hottest path, and they are made in a fifth of the time.
Their fields stand in the order of the JSON; `omit_defaults` leaves out the keys that are there only at times.
"""

from collections.abc import Sequence
from typing import Literal

import msgspec
from blake3 import blake3

from crux.domain.budgets import Room
from crux.domain.decay import Freshness, Horizon
from crux.domain.tokens import utf8_size

POINTER_TOKENS = 40
SUMMARY_TOKENS = 150
_EPITOME_BYTES = 80


class Recalled(msgspec.Struct, frozen=True):
    """One fact as its reader sees it: `entity` is the shown name, ages are whole hours."""

    fact_id: str
    entity: str
    key: str
    value: str
    confidence: float
    effective_confidence: float
    horizon_class: Horizon
    freshness: Freshness
    age_hours: int
    superseded_by: str | None
    actor: str | None


class Pointer(msgspec.Struct, frozen=True, omit_defaults=True):
    """A fact in one line; `content_hash` stands for the text of a fact that the budget kept out."""

    id: str
    score: float
    epitome: str
    reason: Literal["Exact", "Demoted"]
    content_hash: str | None = None


class Content(msgspec.Struct, frozen=True):
    """The text of a fact given in full."""

    id: str
    text: str


class CostEstimate(msgspec.Struct, frozen=True):
    """Tokens that all facts pointed to would cost as pointers, as summaries and in full."""

    pointer: int
    summary: int
    full: int


class BestFreshness(msgspec.Struct, frozen=True):
    """How far the best fact can be relied on; all null where none was found."""

    effective_confidence: float | None = None
    age_hours: int | None = None
    horizon_class: Horizon | None = None
    superseded_by: str | None = None


class MemoryUsed(msgspec.Struct, frozen=True):
    """A fact that the answer draws on."""

    fact_id: str
    topic: str
    freshness: Freshness


class Autonomy(msgspec.Struct, frozen=True):
    """What the call drew on the caller's permissions and credits."""

    capability: str
    cost_credits: int
    scope: str


class Links(msgspec.Struct, frozen=True):
    """Where a person can look at the same facts."""

    open_in_console: str


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """Where the answer comes from."""

    freshness: BestFreshness
    receipts_used: tuple[str, ...] = ()
    memories_used: tuple[MemoryUsed, ...]
    autonomy_consumed: Autonomy = Autonomy("facts:read", 0, "agent")
    links: Links


class Next(msgspec.Struct, frozen=True):
    """What to ask about next."""

    canonical_slug: str | None
    resolution_pointer: None = None
    expand: None = None


class Meta(msgspec.Struct, frozen=True, omit_defaults=True):
    """How the facts were found and, where not all of them are here in full, how many are what."""

    resolved_by: Literal["entity+key", "query"]
    ranked: bool
    demoted: int | None = None
    total_candidates: int | None = None
    emitted_full: int | None = None
    capped: int = 0


class CrcFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The answer under CRC-v1 (protocol 8.1 and 8.3), with the facts given in full beside its keys."""

    contract: Literal["crc-v1"] = "crc-v1"
    kind: Literal["fact"] = "fact"
    hydrate_tier: Literal["full", "mixed"]
    pointers: tuple[Pointer, ...]
    content: tuple[Content, ...]
    cost_estimate: CostEstimate
    agent_decision: None = None
    envelope: Envelope
    next: Next
    meta: Meta
    rows: tuple[Recalled, ...]
    filtered_below_threshold: int


class LegacyFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """The answer without CRC-v1; `left_out` counts the rows that the budget had no room for."""

    rows: tuple[Recalled, ...]
    filtered_below_threshold: int
    left_out: int = 0


def crc_answer(
    rows: Sequence[Recalled],
    total: int,
    *,
    query: str | None,
    entity: str | None,
    token_budget: int | None,
    filtered_below_threshold: int,
    console_url: str,
) -> CrcFacts:
    """The facts of `rows`, best first, as far as `token_budget` goes; `total` counts all matches, shown or not.

    Facts are given in full while they fit, the first in any case. From the first that does not fit they shrink to
    pointers; from the first pointer that does not fit they are left out, and counted as `capped` (Decision 32).
    """
    room = Room(token_budget)
    pointers: list[Pointer] = []
    content: list[Content] = []
    memories: list[MemoryUsed] = []
    in_full = True
    for row in rows:
        memory = MemoryUsed(row.fact_id, row.entity, row.freshness)
        if in_full:
            pointer = Pointer(row.fact_id, row.effective_confidence, _epitome(row), "Exact")
            text = Content(row.fact_id, row.value)
            if in_full := room.takes(row, pointer, text, memory):
                content.append(text)
        if not in_full:
            pointer = Pointer(row.fact_id, row.effective_confidence, _epitome(row), "Demoted", content_hash(row.value))
            if not room.takes(pointer, memory):
                break
        pointers.append(pointer)
        memories.append(memory)

    emitted, full = len(pointers), len(content)
    resolved_by: Literal["entity+key", "query"] = "query" if entity is None else "entity+key"
    ranked = query is not None and entity is None
    if full == total:
        meta = Meta(resolved_by, ranked)
    else:
        meta = Meta(resolved_by, ranked, emitted - full, total, full, total - emitted)
    best = rows[0] if rows else None
    return CrcFacts(
        hydrate_tier="full" if full == emitted else "mixed",
        pointers=tuple(pointers),
        content=tuple(content),
        cost_estimate=CostEstimate(
            pointer=POINTER_TOKENS * emitted,
            summary=SUMMARY_TOKENS * emitted,
            full=sum([utf8_size(row.value) // 4 for row in rows[:emitted]]),
        ),
        envelope=Envelope(
            freshness=(
                BestFreshness(best.effective_confidence, best.age_hours, best.horizon_class, best.superseded_by)
                if best
                else BestFreshness()
            ),
            memories_used=tuple(memories),
            links=Links(console_url),
        ),
        next=Next(best.entity if entity is None and best else entity),
        meta=meta,
        rows=tuple(rows[:full]),
        filtered_below_threshold=filtered_below_threshold,
    )


def legacy_answer(rows: Sequence[Recalled], *, token_budget: int | None, filtered_below_threshold: int) -> LegacyFacts:
    """The same facts as plain rows: the first in any case, then as many as fit into `token_budget`."""
    room = Room(token_budget)
    fitting = next((n for n, row in enumerate(rows) if not room.takes(row)), len(rows))
    return LegacyFacts(tuple(rows[:fitting]), filtered_below_threshold, len(rows) - fitting)


def content_hash(text: str) -> str:
    """A short fingerprint that tells whether `text` changed: `blake3:` and 16 hex digits (protocol 8.3)."""
    return f"blake3:{blake3(text.encode()).hexdigest(8)}"


def _epitome(row: Recalled) -> str:
    """The fact in at most 80 bytes, cut between characters."""
    # No part can show more than 80 characters of itself, and a value may be a megabyte.
    text = f"{row.entity[:_EPITOME_BYTES]} {row.key[:_EPITOME_BYTES]} = {row.value[:_EPITOME_BYTES]}"[:_EPITOME_BYTES]
    return text if text.isascii() else text.encode()[:_EPITOME_BYTES].decode(errors="ignore")
