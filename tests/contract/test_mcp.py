"""The MCP port over a real socket: the handshake, the methods, and every tool's answer as documented."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio

from crux import __version__
from crux.config import ServerKind
from crux.domain.surface import SurfaceMode
from crux.tools.catalogue import CATALOGUE
from tests.serving import BOB, EVE, FACT, LIST, Serving, bearer, serving, text_of, tool


async def test_initialize_shakes_hands_and_mints_a_session(daemon: Serving, client: httpx.AsyncClient) -> None:
    response = await client.post(daemon.mcp, json={**LIST, "method": "initialize", "params": {"anything": []}})
    result = response.json()["result"]
    assert result["protocolVersion"] == "2024-11-05"
    assert result["capabilities"] == {"tools": {"listChanged": True}}
    assert result["serverInfo"] == {"name": "crux", "version": __version__}
    assert list(result["_welcome"]) == ["hint", "quickstart", "docs"]
    assert [text.partition("(")[0] for text in result["_welcome"]["quickstart"]] == [
        "get_bootstrap",
        "store_fact",
        "query_facts",
    ], "of the documented calls, those whose tool is served"
    minted = response.headers["mcp-session-id"]
    assert len(minted) == 32
    assert set(minted) <= set("0123456789abcdef")
    assert response.headers["content-type"] == "application/json"


async def test_a_session_id_is_echoed_and_otherwise_only_initialize_has_one(
    daemon: Serving, client: httpx.AsyncClient
) -> None:
    assert "mcp-session-id" not in (await client.post(daemon.mcp, json=LIST)).headers
    for body in (LIST, {**LIST, "method": "initialize"}, {"jsonrpc": "2.0", "method": "notifications/x"}):
        response = await client.post(daemon.mcp, json=body, headers={"Mcp-Session-Id": "kept.since:before_the-restart"})
        assert response.headers["mcp-session-id"] == "kept.since:before_the-restart"


@pytest.mark.parametrize("method", ["notifications/initialized", "tools/call", "nonsense"])
async def test_a_notification_is_accepted_without_body_or_type_and_runs_nothing(
    daemon: Serving, client: httpx.AsyncClient, method: str
) -> None:
    params = {"name": "store_fact", "arguments": FACT}
    response = await client.post(daemon.mcp, json={"jsonrpc": "2.0", "method": method, "params": params})
    assert (response.status_code, response.content) == (202, b"")
    assert "content-type" not in response.headers
    assert text_of(await tool(client, daemon.mcp, "list_entities")) == {"entities": []}


async def test_an_initialized_with_an_id_is_answered_null(daemon: Serving, client: httpx.AsyncClient) -> None:
    response = await client.post(daemon.mcp, json={**LIST, "method": "notifications/initialized"})
    assert response.json() == {"jsonrpc": "2.0", "id": 1, "result": None}


@pytest.mark.parametrize(
    "method",
    [
        "ping",
        "resources/list",
        "resources/read",
        "prompts/list",
        "completion/complete",
        "logging/setLevel",
        "roots/list",
    ],
)
async def test_every_other_method_is_not_found_inside_a_200(
    daemon: Serving, client: httpx.AsyncClient, method: str
) -> None:
    response = await client.post(daemon.mcp, json={**LIST, "id": "x", "method": method})
    assert response.status_code == 200
    assert response.json() == {
        "jsonrpc": "2.0",
        "id": "x",
        "error": {"code": -32601, "message": f"method not found: {method}"},
    }


async def test_the_list_shows_the_tools_that_work(daemon: Serving, client: httpx.AsyncClient) -> None:
    result = (await client.post(daemon.mcp, json={**LIST, "params": {"cursor": "ignored"}})).json()["result"]
    assert list(result) == ["tools"]
    assert [entry["name"] for entry in result["tools"]] == [tool.name for tool in CATALOGUE.tools]


FLOOR = [tool.name for tool in CATALOGUE.tools if tool.floor_rank is not None]


@pytest.mark.parametrize("surface", [SurfaceMode.MINIMAL, SurfaceMode.DYNAMIC])
async def test_a_narrow_surface_lists_the_floor_and_hides_nothing_from_a_call(
    tmp_path: Path, client: httpx.AsyncClient, surface: SurfaceMode
) -> None:
    async with serving(tmp_path, tool_surface=surface) as daemon:
        listed = (await client.post(daemon.mcp, json=LIST)).json()["result"]["tools"]
        assert [entry["name"] for entry in listed] == FLOOR
        assert text_of(await tool(client, daemon.mcp, "list_entities")) == {"entities": []}


@pytest.mark.parametrize("params", [None, {}, [], "x", {"name": 7}, {"name": None}, {"arguments": {}}])
async def test_a_call_without_a_name_is_refused(daemon: Serving, client: httpx.AsyncClient, params: object) -> None:
    response = await client.post(daemon.mcp, json={**LIST, "method": "tools/call", "params": params})
    assert response.json()["error"] == {"code": -32602, "message": 'tools/call requires a "name" parameter'}


async def test_an_unknown_tool_is_not_found(daemon: Serving, client: httpx.AsyncClient) -> None:
    response = await tool(client, daemon.mcp, "nope")
    assert response["error"] == {"code": -32601, "message": "unknown tool: nope"}


async def test_a_fact_is_stored_found_corrected_and_deleted(daemon: Serving, client: httpx.AsyncClient) -> None:
    async def call(name: str, **arguments: object) -> dict[str, Any]:
        return text_of(await tool(client, daemon.mcp, name, **arguments))

    first = await call("store_fact", entity="service:billing", key="owner", value="platform team")
    assert (first["version"], first["entity"], first["superseded_fact_ids"]) == (1, "service:billing", [])
    second = await call("store_fact", entity="service:billing", key="owner", value="payments 支払い 🦀")
    assert second["superseded_fact_ids"] == [first["fact_id"]]
    found = await call("query_facts", query="支払い")
    assert found["contract"] == "crc-v1"
    assert [row["value"] for row in found["rows"]] == ["payments 支払い 🦀"]
    legacy = await call("query_facts", entity="service:billing", contract="Legacy ")
    assert list(legacy) == ["rows", "filtered_below_threshold"]
    history = await call("fact_history", entity="service:billing", key="owner")
    assert [version["version"] for version in history["versions"]] == [1, 2]
    assert await call("delete_fact", fact_id=second["fact_id"]) == {"deleted": True, "fact_id": second["fact_id"]}
    assert await call("delete_fact", fact_id=second["fact_id"]) == {"deleted": False, "fact_id": second["fact_id"]}
    assert (await call("query_facts", entity="service:billing"))["rows"] == []
    assert await call("list_entities") == {"entities": ["service:billing"]}
    assert await call("get_agent_identity") == {"agent_name": "anonymous", "passport": None}


@pytest.mark.parametrize(
    ("name", "arguments", "says"),
    [
        ("store_fact", {}, "'entity' is required"),
        ("store_fact", {"entity": "a", "key": "k"}, "'value' is required"),
        ("store_fact", {"entity": "a", "key": "k", "value": 7}, "'value' must be a string, got 7"),
        ("store_fact", {"entity": "a", "key": "k", "value": "v", "confidence": 2}, "from 0 to 1, got 2"),
        ("store_fact", {"entity": "a", "key": "k", "value": "v", "horizon_class": "x"}, "one of volatile, medium"),
        ("store_fact", {"entity": "a", "key": "k", "value": "v", "supersedes": [1]}, "'supersedes' must be an array"),
        ("store_fact", {"entity": "a", "key": "k", "value": "v", "supersedes": ["f_x"]}, "do not exist"),
        ("store_fact", {"entity": "a", "key": "k", "value": "v", "private": True}, "need an owner"),
        ("store_fact", {"entity": "__work__::1", "key": "k", "value": "v"}, "'__work__::' belong to the daemon"),
        ("store_fact", {"entity": "__agent::bob::a", "key": "k", "value": "v"}, "belong to the daemon"),
        ("store_fact", {"entity": " ", "key": "k", "value": "v"}, "'entity' must not be blank"),
        ("store_fact", {"entity": "a", "key": "", "value": "v"}, "'key' must not be blank"),
        (
            "store_fact",
            {"entity": "a", "key": "k", "value": "v", "supersedes": ["f"] * 257},
            "at most 256 ids, got 257",
        ),
        ("query_facts", {"query": "x" * 8193}, "8193 characters"),
        ("query_facts", {"top_k": "ten"}, "'top_k' must be an integer"),
        ("query_facts", {"top_k": 0}, "at least 1"),
        ("query_facts", {"token_budget": -1}, "'token_budget' must be an integer, at least 0"),
        ("query_facts", {"as_of": "yesterday"}, "'as_of' must be"),
        ("query_facts", {"min_effective_confidence": 1.1}, "from 0 to 1"),
        ("query_facts", {"query": " ".join(map(str, range(257)))}, "257 different words"),
        ("delete_fact", {"fact_id": None}, "'fact_id' is required"),
        ("fact_history", {"entity": "a"}, "'key' is required"),
    ],
)
async def test_wrong_arguments_are_refused_by_name_and_nothing_is_kept(
    daemon: Serving, client: httpx.AsyncClient, name: str, arguments: dict[str, object], says: str
) -> None:
    error = (await tool(client, daemon.mcp, name, **arguments))["error"]
    assert error["code"] == -32602
    assert says in error["message"]
    assert text_of(await tool(client, daemon.mcp, "list_entities")) == {"entities": []}


async def test_a_horizon_is_named_in_any_case_and_a_wrong_one_is_told_the_names(
    daemon: Serving, client: httpx.AsyncClient
) -> None:
    await tool(client, daemon.mcp, "store_fact", **FACT, horizon_class=" MEDIUM ")
    (row,) = text_of(await tool(client, daemon.mcp, "query_facts", entity="a"))["rows"]
    assert row["horizon_class"] == "medium"
    error = (await tool(client, daemon.mcp, "store_fact", **FACT, horizon_class="soon"))["error"]
    assert error["data"]["param"] == "horizon_class"
    assert error["data"]["allowed"] == ["volatile", "medium", "stable", "none"]


async def test_as_many_words_as_are_looked_for_are_taken(daemon: Serving, client: httpx.AsyncClient) -> None:
    found = text_of(await tool(client, daemon.mcp, "query_facts", query=" ".join(f"w{n}" for n in range(256))))
    assert found["rows"] == []


async def test_two_agents_never_see_each_other_s_private_facts(guarded: Serving, client: httpx.AsyncClient) -> None:
    async def call(token: str, name: str, **arguments: object) -> dict[str, Any]:
        return await tool(client, guarded.mcp, name, bearer(token), **arguments)

    stored = text_of(await call(BOB, "store_fact", entity="plan", key="k", value="bob's secret", private=True))
    assert text_of(await call(BOB, "get_agent_identity")) == {"agent_name": "bob", "passport": "bob"}
    assert [row["value"] for row in text_of(await call(BOB, "query_facts", query="secret"))["rows"]] == ["bob's secret"]
    attempts: list[tuple[str, dict[str, object]]] = [
        ("query_facts", {"query": "secret"}),
        ("query_facts", {"entity": "plan"}),
        ("query_facts", {"entity": "__agent::bob::plan", "include_superseded": True}),
        ("query_facts", {"top_k": 1000}),
        ("list_entities", {}),
        ("fact_history", {"entity": "plan", "key": "k"}),
        ("fact_history", {"entity": "__agent::bob::plan", "key": "k"}),
        ("get_bootstrap", {"topic": "x", "query": "secret"}),
        ("delete_fact", {"fact_id": stored["fact_id"]}),
        ("store_fact", {"entity": "a", "key": "k", "value": "v", "supersedes": [stored["fact_id"]]}),
    ]
    for name, arguments in attempts:
        assert "secret" not in json.dumps(await call(EVE, name, **arguments))
    assert text_of(await call(BOB, "query_facts", entity="plan"))["rows"], "and eve could not delete or retire it"


async def test_replies_belong_to_their_exchange_and_not_to_the_id(daemon: Serving, client: httpx.AsyncClient) -> None:
    """Some clients send id 1 always and share one session."""
    answers: dict[str, str] = {}

    async def ask(entity: str) -> None:
        headers = {"Mcp-Session-Id": "shared"}
        stored = text_of(await tool(client, daemon.mcp, "store_fact", headers, entity=entity, key="k", value="v"))
        answers[entity] = str(stored["entity"])

    async with trio.open_nursery() as nursery:
        for number in range(30):
            nursery.start_soon(ask, f"e{number}")
    assert answers == {f"e{number}": f"e{number}" for number in range(30)}


async def test_a_large_result_without_a_budget_says_how_to_narrow_it(
    daemon: Serving, client: httpx.AsyncClient
) -> None:
    await tool(client, daemon.mcp, "store_fact", entity="a", key="k", value="long " * 10_000)
    free = await tool(client, daemon.mcp, "query_facts", entity="a")
    assert "token_budget" in free["result"]["_meta"]["crux"]["hint"]
    bounded = await tool(client, daemon.mcp, "query_facts", entity="a", token_budget=100)
    assert "_meta" not in bounded["result"]


async def test_bootstrap_knowledge_is_there_from_the_start(daemon: Serving, client: httpx.AsyncClient) -> None:
    async def topics(**arguments: object) -> list[str]:
        found = text_of(await tool(client, daemon.mcp, "get_bootstrap", **arguments))
        assert isinstance(found["total_tokens"], int)
        return [fact["entity"] for fact in found["facts"]]

    assert len(await topics()) == 17
    assert all(entity.startswith("__bootstrap__::pattern:") for entity in await topics(topic=" Patterns "))
    assert await topics(topic="errors", query="method") != []
    assert "__bootstrap__::tool-output:query_facts" in await topics(topic="tool-outputs")
    assert await topics(topic="tool-output", query="memory_sweep_candidates") == [
        "__bootstrap__::tool-output:memory_sweep_candidates"
    ]
    empty = text_of(await tool(client, daemon.mcp, "get_bootstrap", topic="Unheard Of"))
    assert empty == {
        "facts": [],
        "total_tokens": 0,
        "message": "no bootstrap knowledge for topic 'Unheard Of'",
    }


async def test_an_agent_adds_bootstrap_knowledge_and_it_survives_a_restart(
    tmp_path: Path, server: ServerKind, client: httpx.AsyncClient
) -> None:
    arguments = {"entity": "__bootstrap__::pattern:ours", "key": "how we work", "value": "ask first"}
    async with serving(tmp_path, mcp_server=server) as daemon:
        await tool(client, daemon.mcp, "store_fact", **arguments)
    async with serving(tmp_path, mcp_server=server) as daemon:
        found = text_of(await tool(client, daemon.mcp, "get_bootstrap", topic="pattern", query="ask first"))
        assert {"entity": arguments["entity"], "key": "how we work", "value": "ask first"} in found["facts"]
        assert text_of(await tool(client, daemon.mcp, "query_facts", query="ask first"))["rows"] == []
