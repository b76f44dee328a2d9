"""What the retrieval tools answer: hits within a budget of tokens, under CRC-v1 or plainly (protocol 8, memory 3)."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from crux.domain.budgets import Room
from crux.domain.recall import POINTER_TOKENS, SUMMARY_TOKENS, Autonomy, CostEstimate
from crux.domain.retrieval import Hit, Retrieved, Segment
from crux.domain.tokens import of_json

BACKEND: Final = "fts5"
SOURCE_LABEL: Final = "local_tenant_index"
# Missing words that are named; the score tells how many there are.
MOST_GAPS: Final = 32
EXPAND: Final = "query_expand with result_ids: the ids of the pointers worth reading"


class Lane(msgspec.Struct, frozen=True):
    """How much one way of searching decided the order."""

    share: float = 1.0
    confidence: None = None


class Lanes(msgspec.Struct, frozen=True):
    """The ways of searching that there are."""

    bm25: Lane = Lane()


class AgentDecision(msgspec.Struct, frozen=True):
    """Which way of searching the order comes from: there is one."""

    load_bearing_lane: str = "Bm25"
    fused_confidence: None = None
    suggested_next_lane: str = "None"
    lane_attribution: Lanes = Lanes()
    read_pointers: tuple[str, ...] = ()


class Links(msgspec.Struct, frozen=True):
    """Where a person can look at the same: nowhere as yet."""


class Envelope(msgspec.Struct, frozen=True):
    """Where the answer comes from."""

    freshness: None = None
    receipts_used: tuple[str, ...] = ()
    memories_used: tuple[str, ...] = ()
    autonomy_consumed: Autonomy = Autonomy("retrieve:read", 0, "agent")
    links: Links = Links()


class Next(msgspec.Struct, frozen=True):
    """What to ask about next."""

    expand: str | None
    resolution_pointer: None = None


class Pointer(msgspec.Struct, frozen=True):
    """A hit in one line."""

    id: str
    score: float | None


class Found(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One hit: its address, what reading it costs, and the document or fact that it is of."""

    doc_id: int
    segment_index: int
    score: float
    token_count: int
    document: str | None = None
    title: str | None = None
    uri: str | None = None
    fact_id: str | None = None
    entity: str | None = None
    key: str | None = None


class Coverage(msgspec.Struct, frozen=True):
    """The share of the query's words that the index holds, words that it does not, and how many hits the floor kept
    out."""

    score: float
    gaps: tuple[str, ...]
    below_floor: int


class Meta(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """How the hits were found. `left_out` counts those within the limit that the budget had no room for; where
    `exhaustive` is false, not every text with a word of the query was scored."""

    backend: str
    took_ms: float
    segments_searched: int
    score_space: str
    total_candidates: int
    exhaustive: bool
    tokens_returned: int
    budget_truncated: bool
    left_out: int = 0
    note: str | None = None


class CrcSearch(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of a search under CRC-v1, with the hits in more detail beside its keys."""

    contract: Literal["crc-v1"] = "crc-v1"
    kind: Literal["search"] = "search"
    hydrate_tier: Literal["pointer"] = "pointer"
    pointers: tuple[Pointer, ...]
    cost_estimate: CostEstimate
    agent_decision: AgentDecision = AgentDecision()
    envelope: Envelope = Envelope()
    next: Next = Next(EXPAND)
    meta: Meta
    results: tuple[Found, ...]
    coverage: Coverage


class PlainHit(msgspec.Struct, frozen=True, kw_only=True):
    """One hit in the plain form."""

    result_id: str
    rank: int
    score: float
    source_label: str = SOURCE_LABEL
    score_space: str
    semantic_profile_id: None = None
    local_semantic_profile_id: None = None
    segment_index: int
    doc_id: int
    doc_length_tokens: int


class PlainCoverage(msgspec.Struct, frozen=True):
    """Coverage in the plain form."""

    score: float
    missing_tokens: tuple[str, ...]
    below_floor: int


class PlainMeta(msgspec.Struct, frozen=True, kw_only=True):
    """How the hits were found, in the plain form; there are no vectors, so their members are null."""

    source_label: str = SOURCE_LABEL
    score_space: str
    score_merge_rule: str
    mixed_profile_merge_rule: Literal["none"] = "none"
    semantic_profile_id: None = None
    local_semantic_profile_id: None = None
    local_semantic_profile: None = None
    embedding_fingerprint: None = None


class PlainQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of `query` without CRC-v1."""

    results: tuple[PlainHit, ...]
    total_candidates: int
    coverage: PlainCoverage
    left_out: int
    meta: PlainMeta


class PlainScan(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of `query_scan` without CRC-v1."""

    scan: tuple[PlainHit, ...]
    total_candidates: int
    tokens_returned: int
    budget_truncated: bool
    meta: PlainMeta


def crc_search(found: Retrieved, *, token_budget: int | None, pointers_only: bool, took_ms: float) -> CrcSearch:
    """The hits as far as `token_budget` goes, the first in any case.

    With `pointers_only` the budget pays for pointers at `POINTER_TOKENS` each (protocol 8.4), else for all that is
    returned of a hit (Decision 32).
    """
    room = Room(token_budget)
    pointers: list[Pointer] = []
    rows: list[Found] = []
    most = None if token_budget is None or not pointers_only else max(1, token_budget // POINTER_TOKENS)
    for hit in found.hits[:most]:
        pointer, row = Pointer(str(hit.handle), _rounded(hit.score)), _row(hit)
        if most is None and not room.takes(pointer, row):
            break
        pointers.append(pointer)
        rows.append(row)
    emitted = len(rows)
    return CrcSearch(
        pointers=tuple(pointers),
        cost_estimate=CostEstimate(
            pointer=POINTER_TOKENS * emitted,
            summary=SUMMARY_TOKENS * emitted,
            full=sum(row.token_count for row in rows),
        ),
        meta=Meta(
            backend=BACKEND,
            took_ms=round(took_ms, 2),
            segments_searched=len(Segment) if found.passages else 0,
            score_space=score_space(found),
            total_candidates=found.total,
            exhaustive=found.exhaustive,
            tokens_returned=of_json([pointers, rows]) if rows else 0,
            budget_truncated=emitted < len(found.hits),
            left_out=len(found.hits) - emitted,
            note=None if found.passages else "the index is empty: ingest documents, or store public facts",
        ),
        results=tuple(rows),
        coverage=Coverage(_rounded(found.coverage), found.missing[:MOST_GAPS], found.below_floor),
    )


def plain_query(found: Retrieved, token_budget: int | None) -> PlainQuery:
    """The answer of `query` as it was before CRC-v1; the budget pays for what is returned of each hit."""
    hits = _plain(found, token_budget)
    return PlainQuery(
        results=hits,
        total_candidates=found.total,
        coverage=PlainCoverage(_rounded(found.coverage), found.missing[:MOST_GAPS], found.below_floor),
        left_out=len(found.hits) - len(hits),
        meta=_plain_meta(found),
    )


def plain_scan(found: Retrieved, token_budget: int | None) -> PlainScan:
    """The answer of `query_scan` as it was before CRC-v1."""
    hits = _plain(found, token_budget)
    return PlainScan(
        scan=hits,
        total_candidates=found.total,
        tokens_returned=of_json(hits) if hits else 0,
        budget_truncated=len(hits) < len(found.hits),
        meta=_plain_meta(found),
    )


def _plain(found: Retrieved, token_budget: int | None) -> tuple[PlainHit, ...]:
    room = Room(token_budget)
    hits: list[PlainHit] = []
    for rank, hit in enumerate(found.hits, start=1):
        plain = PlainHit(
            result_id=str(hit.handle),
            rank=rank,
            score=_rounded(hit.score),
            score_space=score_space(found),
            segment_index=hit.handle.segment,
            doc_id=hit.handle.doc,
            doc_length_tokens=hit.tokens,
        )
        if not room.takes(plain):
            break
        hits.append(plain)
    return tuple(hits)


def _plain_meta(found: Retrieved) -> PlainMeta:
    return PlainMeta(
        score_space=score_space(found), score_merge_rule="weighted_linear" if found.fused else "single_space"
    )


def _row(hit: Hit) -> Found:
    source = hit.source
    return Found(
        doc_id=hit.handle.doc,
        segment_index=hit.handle.segment,
        score=_rounded(hit.score),
        token_count=hit.tokens,
        document=source.document,
        title=source.title,
        uri=source.uri,
        fact_id=source.fact_id,
        entity=source.entity,
        key=source.key,
    )


def score_space(found: Retrieved) -> str:
    """What the scores can be compared with."""
    return "bm25_graph_fused" if found.fused else "bm25_lexical"


def _rounded(score: float) -> float:
    """A score with the digits that tell hits apart; more cost tokens and say nothing."""
    return round(score, 4)
