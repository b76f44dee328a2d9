"""What `query_expand` answers: the texts of hits, under CRC-v1 or plainly (protocol 8, memory contract 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from crux.domain.answers import SOURCE_LABEL, Envelope, Next, Pointer
from crux.domain.recall import POINTER_TOKENS, SUMMARY_TOKENS, CostEstimate
from crux.domain.retrieval import Chunk, Expanded, Handle, parse_handle


class Unread(msgspec.Struct, frozen=True):
    """A handle that there is no text for in this answer, and why."""

    result_id: str
    error: str
    error_kind: Literal["invalid_format", "evicted", "result_too_large"]


class Text(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The text of one hit, and the document or fact that it is of."""

    result_id: str
    doc_id: int
    content: str
    token_count: int
    document: str | None = None
    title: str | None = None
    uri: str | None = None
    fact_id: str | None = None


class Meta(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What the texts cost, and what was asked for and is not here."""

    tokens_loaded: int
    score_space: Literal["bm25_lexical"] = "bm25_lexical"
    errors: tuple[Unread, ...] = ()


class CrcExpansion(msgspec.Struct, frozen=True, kw_only=True):
    """The answer under CRC-v1, with the texts beside its keys."""

    contract: Literal["crc-v1"] = "crc-v1"
    kind: Literal["addressed"] = "addressed"
    hydrate_tier: Literal["pointer"] = "pointer"
    pointers: tuple[Pointer, ...]
    cost_estimate: CostEstimate
    agent_decision: None = None
    envelope: Envelope = Envelope()
    next: Next = Next(None)
    meta: Meta
    results: tuple[Text, ...]


class PlainChunk(msgspec.Struct, frozen=True, kw_only=True):
    """The text of one hit in the plain form."""

    segment_index: int
    doc_id: int
    source_label: str = SOURCE_LABEL
    score_space: Literal["bm25_lexical"] = "bm25_lexical"
    semantic_profile_id: None = None
    local_semantic_profile_id: None = None
    frame_offset: int = 0
    token_count: int
    content: str


class PlainExpansion(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The answer without CRC-v1."""

    chunks: tuple[PlainChunk, ...]
    tokens_loaded: int
    meta: Mapping[str, str | None]
    errors: tuple[Unread, ...] = ()


def read_handles(result_ids: Sequence[str]) -> tuple[dict[str, Handle], list[Unread]]:
    """The handles among `result_ids`, each once and in order, and what is wrong with the others."""
    handles: dict[str, Handle] = {}
    wrong: list[Unread] = []
    for result_id in dict.fromkeys(result_ids):
        try:
            handle = parse_handle(result_id)
        except ValueError:
            wrong.append(Unread(result_id, "expected <segment>:<doc> as a search gives it", "invalid_format"))
            continue
        if handle is None:
            wrong.append(_evicted(result_id))
        else:
            handles[result_id] = handle
    return handles, wrong


def unread(found: Expanded, handles: Mapping[str, Handle]) -> list[Unread]:
    """The handles that `found` has no text for. Another tenant's are as unknown as those that never were."""
    return [
        _evicted(result_id)
        if handle in found.absent
        else Unread(result_id, "the other texts leave no room for it; ask for it alone", "result_too_large")
        for result_id, handle in handles.items()
        if handle in found.absent or handle in found.too_much
    ]


def crc_expansion(chunks: Sequence[Chunk], errors: Sequence[Unread]) -> CrcExpansion:
    """The texts under CRC-v1."""
    loaded = sum(chunk.tokens for chunk in chunks)
    return CrcExpansion(
        pointers=tuple(Pointer(str(chunk.handle), None) for chunk in chunks),
        cost_estimate=CostEstimate(POINTER_TOKENS * len(chunks), SUMMARY_TOKENS * len(chunks), loaded),
        meta=Meta(tokens_loaded=loaded, errors=tuple(errors)),
        results=tuple(
            Text(
                result_id=str(chunk.handle),
                doc_id=chunk.handle.doc,
                content=chunk.text,
                token_count=chunk.tokens,
                document=chunk.source.document,
                title=chunk.source.title,
                uri=chunk.source.uri,
                fact_id=chunk.source.fact_id,
            )
            for chunk in chunks
        ),
    )


def plain_expansion(chunks: Sequence[Chunk], errors: Sequence[Unread]) -> PlainExpansion:
    """The texts as they were before CRC-v1."""
    return PlainExpansion(
        chunks=tuple(
            PlainChunk(
                segment_index=chunk.handle.segment,
                doc_id=chunk.handle.doc,
                token_count=chunk.tokens,
                content=chunk.text,
            )
            for chunk in chunks
        ),
        tokens_loaded=sum(chunk.tokens for chunk in chunks),
        meta={"source_label": SOURCE_LABEL, "score_space": "bm25_lexical", "semantic_profile_id": None},
        errors=tuple(errors),
    )


def _evicted(result_id: str) -> Unread:
    return Unread(result_id, "no such text in this tenant's index: search again", "evicted")
