"""The retrieval tools over a real socket: search, read, gaps, and all that must stay hidden."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from crux.domain.gaps import NoteGap
from crux.domain.retrieval import LONGEST_QUERY_BYTES
from tests.serving import BOB, EVE, Serving, bearer, serving, text_of, tool

OPERATOR = {"x-corecrux-scopes": "admin:write query:read"}
AS_BOB, AS_EVE = bearer(BOB), bearer(EVE)


async def ingest(client: httpx.AsyncClient, daemon: Serving, *texts: str, tenant: str = "default") -> None:
    documents = [{"id": f"d{n}", "text": text} for n, text in enumerate(texts)]
    body = {"tenant_id": tenant, "documents": documents}
    answer = await client.post(f"{daemon.http}/v1/local/ingest", json=body, headers=OPERATOR)
    assert answer.status_code == 200, answer.text


async def ask(client: httpx.AsyncClient, daemon: Serving, name: str, **arguments: Any) -> dict[str, Any]:
    return text_of(await tool(client, daemon.mcp, name, **{"tenant_id": "default", **arguments}))


async def test_an_agent_searches_then_reads_what_matters(daemon: Serving, client: httpx.AsyncClient) -> None:
    await ingest(client, daemon, "Backups are rotated weekly", "The login flow has two steps")
    await tool(client, daemon.mcp, "store_fact", entity="backup", key="owner", value="platform team rotates them")
    found = await ask(client, daemon, "query", query="how are backups rotated")
    assert list(found)[:9] == [
        "contract", "kind", "hydrate_tier", "pointers", "cost_estimate", "agent_decision", "envelope", "next", "meta",
    ]  # fmt: skip
    assert [row.get("document") or row["entity"] for row in found["results"]] == ["d0", "backup"]
    assert found["coverage"]["gaps"] == ["how"]
    ids = [pointer["id"] for pointer in found["pointers"]]
    expanded = await ask(client, daemon, "query_expand", result_ids=[*ids, "0:77", "nonsense"])
    assert [row["content"] for row in expanded["results"]] == [
        "Backups are rotated weekly",
        "backup owner = platform team rotates them",
    ]
    assert expanded["meta"]["tokens_loaded"] == sum(row["token_count"] for row in found["results"])
    assert [error["error_kind"] for error in expanded["meta"]["errors"]] == ["invalid_format", "evicted"]


async def test_the_plain_forms_have_the_documented_keys(daemon: Serving, client: httpx.AsyncClient) -> None:
    await ingest(client, daemon, "login flow")
    query = await ask(client, daemon, "query", query="login", contract=" Legacy ")
    scan = await ask(client, daemon, "query_scan", query="login", contract="v0")
    expand = await ask(client, daemon, "query_expand", result_ids=[query["results"][0]["result_id"]], contract="off")
    assert list(query) == ["results", "total_candidates", "coverage", "left_out", "meta"]
    assert list(scan) == ["scan", "total_candidates", "tokens_returned", "budget_truncated", "meta"]
    assert query["results"] == scan["scan"]
    assert (query["results"][0]["result_id"][:2], query["results"][0]["rank"]) == ("0:", 1)
    assert expand["chunks"][0]["content"] == "login flow"
    assert (await ask(client, daemon, "query", query="login", contract="v1"))["contract"] == "crc-v1"


async def test_limits_floors_and_budgets_hold_and_are_told(daemon: Serving, client: httpx.AsyncClient) -> None:
    await ingest(client, daemon, *(f"needle {'hay ' * n}" for n in range(30)))
    assert len((await ask(client, daemon, "query", query="needle"))["results"]) == 10
    assert len((await ask(client, daemon, "query_scan", query="needle"))["results"]) == 20
    assert (await ask(client, daemon, "query", query="needle", limit=0))["meta"]["total_candidates"] == 30
    floored = await ask(client, daemon, "query", query="needle", limit=30, min_score=0.02)
    assert len(floored["results"]) + floored["coverage"]["below_floor"] == 30
    assert min(row["score"] for row in floored["results"]) >= 0.02
    cut = await ask(client, daemon, "query_scan", query="needle", token_budget=60)
    assert 1 <= len(cut["results"]) < 20
    assert (cut["meta"]["left_out"], cut["meta"]["budget_truncated"]) == (20 - len(cut["results"]), True)
    metrics = (await client.get(f"{daemon.http}/metrics")).text
    assert 'corecrux_tool_response_truncated_total{reason="token_budget",tool="query_scan"} 1.0' in metrics


async def test_a_reversible_budget_pays_for_pointers(tmp_path: Path, client: httpx.AsyncClient) -> None:
    async with serving(tmp_path, reversible_budget=True) as daemon:
        await ingest(client, daemon, *("needle" for _ in range(5)))
        answer = await ask(client, daemon, "query", query="needle", token_budget=80)
        assert (len(answer["pointers"]), answer["meta"]["left_out"]) == (2, 3)


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("query", {"query": "x", "tenant_id": " "}, "'tenant_id' must name one tenant"),
        ("query", {"query": "x", "tenant_id": "*"}, "'tenant_id' must name one tenant"),
        ("query", {}, "'query' is required"),
        ("query", {"query": "x", "limit": -1}, "'limit' must be an integer, at least 0, got -1"),
        ("query", {"query": "x", "token_budget": "1"}, "'token_budget' must be an integer"),
        ("query", {"query": "x" * (LONGEST_QUERY_BYTES + 1)}, f"at most {LONGEST_QUERY_BYTES} are read"),
        ("query_scan", {"query": 1}, "'query' must be a string"),
        ("query_expand", {}, "'result_ids' is required"),
        ("query_expand", {"result_ids": [1]}, "'result_ids' must be an array of strings"),
        ("query_expand", {"result_ids": ["0:1"] * 257}, "at most 256 ids, got 257"),
        ("get_gaps", {"query": 1}, "'query' must be a string"),
    ],
)
async def test_bad_arguments_are_named(
    daemon: Serving, client: httpx.AsyncClient, name: str, arguments: dict[str, Any], message: str
) -> None:
    error = (await tool(client, daemon.mcp, name, **{"tenant_id": "default", **arguments}))["error"]
    assert error["code"] == -32602
    assert message in error["message"]


async def test_a_query_as_long_as_may_be_is_answered(daemon: Serving, client: httpx.AsyncClient) -> None:
    await ingest(client, daemon, "a needle")
    words = " ".join(f"w{n}" for n in range(30_000))[: LONGEST_QUERY_BYTES - 7] + " needle"
    answer = await ask(client, daemon, "query", query=words)
    assert [row["document"] for row in answer["results"]] == ["d0"]
    assert len(answer["coverage"]["gaps"]) == 32


async def test_an_empty_index_is_no_error_and_says_so(daemon: Serving, client: httpx.AsyncClient) -> None:
    answer = await ask(client, daemon, "query", query="anything", tenant_id="nobody")
    assert answer["results"] == []
    assert "the index is empty" in answer["meta"]["note"]


async def test_gaps_are_what_searches_missed_for_everybody_to_read(daemon: Serving, client: httpx.AsyncClient) -> None:
    await ingest(client, daemon, "login flow")
    for question in ("zebra crossing", "crossing zebra", "login flow"):
        await ask(client, daemon, "query", query=question)
    await ask(client, daemon, "query_scan", query="private zoo", tenant_id="nobody")
    await daemon.parts.mailboxes["gaps"].ask(NoteGap("settle", ("x",), 1))
    gaps = await ask(client, daemon, "get_gaps")
    assert [(gap["key"], '"queries":2' in gap["value"]) for gap in gaps["gaps"]] == [("crossing zebra", True)]
    assert (await ask(client, daemon, "get_gaps", query="lion"))["gaps"] == []
    assert gaps["total_tokens"] > 0


async def test_what_is_not_for_everybody_shows_in_no_answer(guarded: Serving, client: httpx.AsyncClient) -> None:
    async def call(headers: dict[str, str], name: str, /, **arguments: Any) -> dict[str, Any]:
        return text_of(await tool(client, guarded.mcp, name, headers, **arguments))

    async def all_answers() -> list[dict[str, Any]]:
        answers = [
            await call(AS_BOB, name, tenant_id="default", query="needle secret zebra")
            for name in ("query", "query_scan")
        ]
        for answer in answers:
            answer["meta"].pop("took_ms")
        return answers

    fact = await call(AS_BOB, "store_fact", entity="a", key="k", value="needle")
    await call(AS_BOB, "store_fact", entity="b", key="k", value="other needle")
    before = await all_answers()
    await call(AS_EVE, "store_fact", entity="a", key="k", value="needle secret", private=True)
    await call(AS_EVE, "store_fact", entity="decisions::1", key="k", value="needle secret")
    gone = await call(AS_EVE, "store_fact", entity="c", key="k", value="needle secret")
    await call(AS_EVE, "delete_fact", fact_id=gone["fact_id"])
    await call(AS_EVE, "store_fact", entity="d", key="k", value="needle secret")
    await call(AS_EVE, "store_fact", entity="d", key="k", value="other")
    after = await all_answers()
    for was, now in zip(before, after, strict=True):
        assert now["coverage"]["gaps"] == was["coverage"]["gaps"] == ["secret", "zebra"]
        assert now["meta"]["total_candidates"] == was["meta"]["total_candidates"] == 2
        assert {row["fact_id"] for row in now["results"]} == {row["fact_id"] for row in was["results"]}
        assert fact["fact_id"] in {row["fact_id"] for row in now["results"]}


async def test_documents_are_there_after_a_restart(tmp_path: Path, client: httpx.AsyncClient) -> None:
    async with serving(tmp_path) as daemon:
        await ingest(client, daemon, "needle in a stack", "東京タワー")
        before = await ask(client, daemon, "query", query="needle 東京")
    async with serving(tmp_path) as daemon:
        after = await ask(client, daemon, "query", query="needle 東京")
        assert after["pointers"] == before["pointers"]
        assert len(after["pointers"]) == 2
