"""Documents in, and searches over them (HTTP API contract 4.3 and 4.10)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec
import trio
from attrs import frozen

from crux.domain.answers import BACKEND, MOST_GAPS, SOURCE_LABEL, score_space
from crux.domain.budgets import Room
from crux.domain.documents import Document, Ingested, Prepared, RemoveDocument, StoreDocuments
from crux.domain.ingest import commits
from crux.domain.retrieval import Expand, Handle, Hit, Retrieved, Segment, Source
from crux.errors import CruxError, InvalidArgument, NotFound
from crux.tools.retrieval import MOST_HANDLES, search, tenant_named
from crux.tools.schema import arg, parameters_of, parser_of, shortened
from crux.transport.rest.route import ADMINISTER, READ, HttpCall, Reply, json_reply, route

DEFAULT_HITS = 10
MOST_HITS = 100
MODES = ("normal", "scan")


@route("POST", "/v1/local/ingest", ADMINISTER)
async def ingest(call: HttpCall) -> Reply:
    """Keep documents to be searched, each in the place of what has its id; what has not changed is left alone.

    They are checked before the first is kept. Each is kept whole or not at all; where keeping one fails, the answer
    says how many are kept, and sending all of them again does no harm.
    """
    given = await call.json_object()
    tenant = _tenant(given.get("tenant_id"))
    documents = await call.api.services.preparation.read(given.get("documents"))
    kept, failure = await _keep(documents, tenant, call)
    if failure is not None:
        raise type(failure)(
            f"{len(kept)} of {len(documents)} documents are kept, the others are not: {failure.message}",
            data={**(failure.data or {}), "kept": len(kept)},
        ) from failure
    counts = Counter(document.status for document in kept)
    return json_reply(
        {
            "tenant_id": tenant,
            "documents": kept,
            **{status: counts[status] for status in ("stored", "updated", "unchanged")},
            "passages": sum(document.passages for document in kept),
        }
    )


@route("DELETE", "/v1/local/documents/<text:document_id>", ADMINISTER)
async def remove_document(call: HttpCall, document_id: str) -> Reply:
    """Remove a document and its passages for good."""
    tenant = _tenant(call.query.get("tenant_id"))
    if not await call.ask(call.api.services.facts, RemoveDocument(tenant, document_id)):
        raise NotFound(f"tenant {shortened(tenant)} has no document {shortened(document_id)}")
    return json_reply({"tenant_id": tenant, "id": document_id, "removed": True})


@frozen
class SearchBody:
    """A search as a caller sends it; members beyond these are not looked at."""

    tenant_id: str = arg("Whose index to search")
    query: str = arg("What to look for")
    limit: int | None = arg("Most hits", default=None)
    top_k: int | None = arg("Another name of limit", default=None)
    token_budget: int | None = arg("Most tokens of hits", default=None, at_least=0)
    min_score: float | None = arg("Least score of a hit", default=None)
    mode: str = arg("normal, or scan", default="normal")


_search_body = parser_of(SearchBody, parameters_of(SearchBody))


class ShownHit(msgspec.Struct, frozen=True, kw_only=True):
    """One hit as scripts read it."""

    result_id: str
    rank: int
    segment_index: int
    doc_id: int
    score: float
    source_label: str = SOURCE_LABEL
    score_space: str
    semantic_profile_id: None = None
    local_semantic_profile_id: None = None
    frame_offset: int = 0
    token_count: int
    source: Source


@route("POST", "/v1/query/text-search", READ)
async def text_search(call: HttpCall) -> Reply:
    """Search a tenant's documents and public facts, best first."""
    body = _search_body(await call.json_object())
    if not body.query.strip():
        raise InvalidArgument("'query' must not be blank", data={"param": "query"})
    if body.mode not in MODES:
        raise InvalidArgument(f"'mode' must be one of {', '.join(MODES)}, got {shortened(body.mode)}")
    asked = body.limit if body.limit is not None else body.top_k
    limit = min(max(DEFAULT_HITS if asked is None else asked, 1), MOST_HITS)
    began = trio.current_time()
    found = await search(body.tenant_id, body.query, limit, call.api.services, min_score=body.min_score)
    room = Room(body.token_budget)
    shown = [_shown(rank, hit, found) for rank, hit in enumerate(found.hits, start=1)]
    fitting = next((n for n, hit in enumerate(shown) if not room.takes(hit)), len(shown))
    if fitting < len(shown):
        call.api.services.truncated("text_search", "token_budget")
    budget = {
        "tokens_used": room.spent,
        "tokens_available": body.token_budget,
        "results_omitted": len(shown) - fitting,
    }
    return json_reply(
        {
            "results": shown[:fitting],
            "coverage": {
                "score": found.coverage,
                "gaps": [_gap(word) for word in found.missing[:MOST_GAPS]],
                "below_floor": found.below_floor,
            },
            "meta": {
                "backend": BACKEND,
                "took_ms": round((trio.current_time() - began) * 1000, 2),
                "segments_searched": len(Segment) if found.passages else 0,
                "total_docs": found.passages,
                "total_candidates": found.total,
                "exhaustive": found.exhaustive,
            },
            **(budget if body.token_budget is not None else {}),
            **({"scan_mode": True} if body.mode == "scan" else {}),
        }
    )


@route("POST", "/v1/query/text-search/expand", READ)
async def expand_hits(call: HttpCall) -> Reply:
    """Read the texts of hits; what is not there, or another tenant's, is left out."""
    given = await call.json_object()
    tenant = _tenant(given.get("tenant_id"))
    try:
        handles = msgspec.convert(given.get("result_ids"), tuple[Handle, ...])
    except msgspec.ValidationError as error:
        raise InvalidArgument(f"'result_ids' must be an array of {{segment_index, doc_id}}: {error}") from None
    if not 0 < len(handles) <= MOST_HANDLES:
        raise InvalidArgument(f"'result_ids' must be 1 to {MOST_HANDLES} of them, got {len(handles)}")
    found = await call.ask(call.api.services.recall, Expand(tenant, handles))
    return json_reply(
        {
            "chunks": [
                {
                    "segment_index": chunk.handle.segment,
                    "doc_id": chunk.handle.doc,
                    "source_label": SOURCE_LABEL,
                    "content": chunk.text,
                    "token_count": chunk.tokens,
                    "source": chunk.source,
                }
                for chunk in found.chunks
            ],
            "tokens_loaded": sum(chunk.tokens for chunk in found.chunks),
            "meta": {"backend": BACKEND, "left_out": len(found.too_much)},
        }
    )


ROUTES = (ingest, remove_document, text_search, expand_hits)


async def _keep(documents: Sequence[Document], tenant: str, call: HttpCall) -> tuple[list[Ingested], CruxError | None]:
    """What was kept, and what kept the rest from being so. While one run is committed the next is made ready."""
    kept: list[Ingested] = []
    failure: CruxError | None = None
    send, receive = trio.open_memory_channel[tuple[Prepared, ...]](1)  # one run waits, or the writer would

    async def make_ready() -> None:
        async with send:
            for run in commits(documents):
                await send.send(await call.api.services.preparation.prepare(run))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(make_ready)
        async for run in receive:
            try:
                kept += await call.ask(call.api.services.facts, StoreDocuments(tenant, run))
            except CruxError as error:
                failure = error
                nursery.cancel_scope.cancel()
                break
    return kept, failure


def _tenant(given: object) -> str:
    if not isinstance(given, str):
        raise InvalidArgument(
            "'tenant_id' is required: the tenant that the documents are of, such as default",
            data={"param": "tenant_id", "required": True},
        )
    return tenant_named(given)


def _shown(rank: int, hit: Hit, found: Retrieved) -> ShownHit:
    return ShownHit(
        result_id=str(hit.handle),
        rank=rank,
        segment_index=hit.handle.segment,
        doc_id=hit.handle.doc,
        score=hit.score,
        score_space=score_space(found),
        token_count=hit.tokens,
        source=hit.source,
    )


def _gap(word: str) -> dict[str, str]:
    return {"query_terms": word, "match_quality": "none", "suggestion": "ingest a text about it, or ask in other words"}
