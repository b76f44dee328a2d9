"""Documents in and searches over HTTP: what is kept, what is refused, and that nothing is half done."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from crux.domain.documents import StoreDocuments
from crux.domain.ingest import COMMIT_BYTES
from tests.conftest import Stack
from tests.unit.actors.stores import kept_back, noted

Http = httpx.AsyncClient
Who = Callable[..., dict[str, str]]

DOCUMENTS: list[dict[str, Any]] = [
    {"id": "guide", "title": "Guide", "text": "Backups are rotated weekly.\n\nThe key is in the safe.", "uri": "file:///g"},
    {"id": "notes", "chunks": [{"id": "n1", "text": "Weekly notes"}, {"text": "Zürich notes"}], "metadata": {"by": "eve"}},
]  # fmt: skip


async def ingest(http: Http, headers: dict[str, str], documents: object, **more: object) -> httpx.Response:
    body = {"tenant_id": "default", "documents": documents, **more}
    return await http.post("/v1/local/ingest", headers=headers, json=body)


async def search(http: Http, headers: dict[str, str], query: str, **more: object) -> dict[str, Any]:
    body = {"tenant_id": "default", "query": query, **more}
    answer = await http.post("/v1/query/text-search", headers=headers, json=body)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def test_documents_are_kept_found_read_and_removed(http: Http, who: Who) -> None:
    answer = await ingest(http, who(), DOCUMENTS)
    assert answer.status_code == 200
    assert answer.json() == {
        "tenant_id": "default",
        "documents": [
            {"id": "guide", "status": "stored", "passages": 1},
            {"id": "notes", "status": "stored", "passages": 2},
        ],
        "stored": 2,
        "updated": 0,
        "unchanged": 0,
        "passages": 3,
    }
    found = await search(http, who(), "weekly zebra")
    (guide, notes) = sorted(found["results"], key=lambda hit: hit["source"]["document"])
    assert guide["source"] == {"document": "guide", "title": "Guide", "uri": "file:///g"}
    assert found["coverage"]["score"] == 0.5
    assert [gap["query_terms"] for gap in found["coverage"]["gaps"]] == ["zebra"]
    assert (found["meta"]["total_docs"], found["meta"]["total_candidates"]) == (3, 2)
    handle = {"segment_index": notes["segment_index"], "doc_id": notes["doc_id"]}
    body = {"tenant_id": "default", "result_ids": [handle, {"segment_index": 0, "doc_id": 999}]}
    expanded = (await http.post("/v1/query/text-search/expand", headers=who(), json=body)).json()
    assert [chunk["content"] for chunk in expanded["chunks"]] == ["Weekly notes"]
    assert expanded["tokens_loaded"] == 3

    gone = await http.delete("/v1/local/documents/notes?tenant_id=default", headers=who())
    assert gone.json() == {"tenant_id": "default", "id": "notes", "removed": True}
    again = await http.delete("/v1/local/documents/notes?tenant_id=default", headers=who())
    assert (again.status_code, again.json()["detail"]) == (404, 'tenant "default" has no document "notes"')
    assert (await search(http, who(), "notes"))["results"] == []


async def test_an_ingest_again_changes_only_what_differs(http: Http, who: Who) -> None:
    await ingest(http, who(), DOCUMENTS)
    answer = (await ingest(http, who(), [DOCUMENTS[0], {**DOCUMENTS[1], "title": "Notes"}, {"text": "x"}])).json()
    assert [document["status"] for document in answer["documents"]] == ["unchanged", "updated", "stored"]
    again = (await ingest(http, who(), [{"text": "x"}])).json()
    assert again["documents"] == [{**answer["documents"][2], "status": "unchanged"}]


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ({"documents": DOCUMENTS}, "'tenant_id' is required"),
        ({"tenant_id": 7, "documents": DOCUMENTS}, "'tenant_id' is required"),
        ({"tenant_id": " ", "documents": DOCUMENTS}, "must name one tenant"),
        ({"tenant_id": "*", "documents": DOCUMENTS}, "must name one tenant"),
        ({"tenant_id": "default"}, "'documents' must be an array"),
        ({"tenant_id": "default", "documents": [*DOCUMENTS, {"text": ""}]}, "'documents[2]' holds no text"),
        ({"tenant_id": "default", "documents": [{"text": "a\0b"}]}, "NUL"),
    ],
)
async def test_a_wrong_ingest_is_refused_and_keeps_nothing(
    http: Http, who: Who, body: dict[str, Any], detail: str
) -> None:
    answer = await http.post("/v1/local/ingest", headers=who(), json=body)
    assert (answer.status_code, answer.headers["content-type"]) == (400, "application/problem+json")
    assert detail in answer.json()["detail"]
    assert (await search(http, who(), "weekly"))["meta"]["total_docs"] == 0


async def test_documents_are_for_whoever_may_administer(http: Http, who: Who) -> None:
    for scope in ("facts:write", "query:read", "admin:read"):
        headers = who(scopes=scope)
        assert (await ingest(http, headers, DOCUMENTS)).status_code == 403
        assert (await http.delete("/v1/local/documents/x?tenant_id=default", headers=headers)).status_code == 403


async def test_other_writes_get_their_turn_between_the_commits_of_a_large_ingest(
    http: Http, who: Who, stack: Stack
) -> None:
    batches = noted(stack.engine)
    documents = [{"id": f"d{n}", "text": "x" * (COMMIT_BYTES // 8)} for n in range(2)]
    assert (await ingest(http, who(), documents)).json()["stored"] == 2
    assert sum(isinstance(command, StoreDocuments) for batch in batches for command in batch) == 1


async def test_an_ingest_that_breaks_off_says_how_much_is_kept(http: Http, who: Who, stack: Stack) -> None:
    kept_back(stack.engine, lands=False).set()
    answer = await ingest(http, who(), DOCUMENTS)
    assert answer.status_code == 507
    assert answer.json()["detail"].startswith("0 of 2 documents are kept, the others are not: ")
    assert (await ingest(http, who(), DOCUMENTS)).json()["stored"] == 2


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ({"query": "x"}, "'tenant_id' is required"),
        ({"tenant_id": "default"}, "'query' is required"),
        ({"tenant_id": "default", "query": " "}, "'query' must not be blank"),
        ({"tenant_id": "default", "query": "x", "mode": "deep"}, "'mode' must be one of normal, scan"),
        ({"tenant_id": "default", "query": "x", "min_score": "high"}, "'min_score' must be a number"),
        ({"tenant_id": "default", "query": "x", "token_budget": -1}, "'token_budget' must be an integer, at least 0"),
    ],
)
async def test_a_wrong_search_is_refused(http: Http, who: Who, body: dict[str, Any], detail: str) -> None:
    answer = await http.post("/v1/query/text-search", headers=who(), json=body)
    assert answer.status_code == 400
    assert detail in answer.json()["detail"]


async def test_a_search_keeps_its_limit_and_budget_and_tells(http: Http, who: Who) -> None:
    await ingest(http, who(), [{"id": f"d{n}", "text": f"needle {n}"} for n in range(12)])
    assert len((await search(http, who(), "needle"))["results"]) == 10
    assert len((await search(http, who(), "needle", limit=0))["results"]) == 1
    assert len((await search(http, who(), "needle", top_k=999))["results"]) == 12
    cut = await search(http, who(), "needle", limit=12, token_budget=200)
    assert 1 < len(cut["results"]) < 12
    assert cut["results_omitted"] == 12 - len(cut["results"])
    assert cut["tokens_used"] <= cut["tokens_available"] == 200
    scanned = await search(http, who(), "needle", mode="scan", token_budget=0)
    assert (len(scanned["results"]), scanned["scan_mode"]) == (1, True)


@pytest.mark.parametrize(
    "result_ids", [None, [], ["0:1"], [{"segment_index": 0}], [{"segment_index": 0, "doc_id": 1}] * 257]
)
async def test_wrong_handles_are_refused(http: Http, who: Who, result_ids: object) -> None:
    body = {"tenant_id": "default", "result_ids": result_ids}
    answer = await http.post("/v1/query/text-search/expand", headers=who(), json=body)
    assert answer.status_code == 400
    assert "'result_ids' must be" in answer.json()["detail"]
