"""What the daemon keeps of calls, seen from outside: the dynamic list, envelopes, the ledger, the figures."""

from __future__ import annotations

import json
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest
from blake3 import blake3

from crux.config import ServerKind
from crux.domain.commands import Chain
from crux.domain.decay import DecayPolicy
from crux.domain.privacy import RAW_ADMIN
from crux.domain.surface import SurfaceMode, shape
from crux.storage.engine import SqliteEngine
from crux.tools.catalogue import CATALOGUE
from tests.serving import AGENTS, BOB, EVE, FACT, LIST, Serving, bearer, serving, text_of, tool

AS_BOB, AS_EVE = bearer(BOB), bearer(EVE)


async def listed(client: httpx.AsyncClient, daemon: Serving, headers: dict[str, str]) -> list[str]:
    answer = await client.post(daemon.mcp, json=LIST, headers=headers)
    return [entry["name"] for entry in answer.json()["result"]["tools"]]


async def test_a_dynamic_list_follows_the_caller_s_intent_and_hidden_tools_stay_callable(
    tmp_path: Path, server: ServerKind, client: httpx.AsyncClient
) -> None:
    settings: dict[str, Any] = {"mcp_server": server, "agent_tokens": AGENTS, "tool_surface": SurfaceMode.DYNAMIC}
    async with serving(tmp_path, **settings) as daemon:
        floor = await listed(client, daemon, AS_BOB)
        assert floor[0] == "cuecrux_session"
        assert "delete_fact" not in floor
        await tool(client, daemon.mcp, "cuecrux_session", AS_BOB, intent=" document_ingest ")
        wanted = [tool.name for tool in shape(SurfaceMode.DYNAMIC, "document_ingest", (), CATALOGUE.tools)]
        assert await listed(client, daemon, AS_BOB) == wanted
        assert {"delete_fact", *floor} < set(wanted)
        assert await listed(client, daemon, AS_EVE) == floor, "an intent is its caller's own"
        await tool(client, daemon.mcp, "cuecrux_session", AS_BOB)
        assert await listed(client, daemon, AS_BOB) == wanted, "a session without an intent changes none"
        await tool(client, daemon.mcp, "cuecrux_session", AS_BOB, intent=" ")
        assert await listed(client, daemon, AS_BOB) == floor
        assert "result" in await tool(client, daemon.mcp, "list_entities", AS_BOB)
        await tool(client, daemon.mcp, "cuecrux_session", AS_BOB, intent="compliance_export")
        assert await listed(client, daemon, AS_BOB) == [*floor, "list_entities"], "called lately"
        await tool(client, daemon.mcp, "cuecrux_session", AS_BOB, intent="anything else")
        assert await listed(client, daemon, AS_BOB) == [*floor, "list_entities"], "an intent without a meaning"


async def test_without_traces_no_call_moves_a_tool_into_the_list(
    tmp_path: Path, server: ServerKind, client: httpx.AsyncClient
) -> None:
    settings: dict[str, Any] = {"mcp_server": server, "tool_surface": SurfaceMode.DYNAMIC, "tool_traces": False}
    async with serving(tmp_path, **settings) as daemon:
        floor = await listed(client, daemon, {})
        await tool(client, daemon.mcp, "list_entities")
        await tool(client, daemon.mcp, "cuecrux_session", intent="compliance_export")
        assert await listed(client, daemon, {}) == floor


async def test_an_envelope_goes_out_beside_the_result_where_it_is_switched_on(
    tmp_path: Path, server: ServerKind, client: httpx.AsyncClient
) -> None:
    async with serving(tmp_path, mcp_server=server, agent_tokens=AGENTS, audit_envelope=True) as daemon:
        await tool(client, daemon.mcp, "store_fact", AS_BOB, **FACT, source_receipt="r1")
        await tool(client, daemon.mcp, "store_fact", AS_BOB, **FACT | {"entity": "b"}, private=True)
        found = await tool(client, daemon.mcp, "query_facts", AS_BOB)
        plain = (await tool(client, daemon.mcp, "list_entities", AS_BOB))["result"]
    envelope = found["result"]["_meta"]["envelope"]
    assert len(text_of(found)["rows"]) == 2
    assert [memory["topic"] for memory in envelope["memories_used"]] == ["a"], "what is private is not named"
    assert envelope["receipts_used"] == ["r1"]
    assert envelope["autonomy_consumed"] == {"capability": "facts:read", "cost_credits": 0, "scope": "agent:bob"}
    assert envelope["links"]["verify"] == f"{daemon.http}/v1/receipts/r1/verification?tenant_id=default"
    assert "_meta" not in plain


async def test_an_envelope_names_what_the_answer_shows_and_no_more(
    tmp_path: Path, server: ServerKind, client: httpx.AsyncClient
) -> None:
    async with serving(tmp_path, mcp_server=server, audit_envelope=True) as daemon:
        for name in ("a", "b", "c"):
            await tool(client, daemon.mcp, "store_fact", **FACT | {"entity": name, "value": name * 2000})
        for contract in ("crc-v1", "legacy"):
            arguments = {"token_budget": 900, "contract": contract}
            found = await tool(client, daemon.mcp, "query_facts", **arguments)
            answer = text_of(found)
            shown = answer["pointers"] if contract == "crc-v1" else answer["rows"]
            memories = found["result"]["_meta"]["envelope"]["memories_used"]
            assert [m["fact_id"] for m in memories] == [row.get("id", row.get("fact_id")) for row in shown]


async def test_without_the_switch_there_is_no_envelope(daemon: Serving, client: httpx.AsyncClient) -> None:
    assert "_meta" not in (await tool(client, daemon.mcp, "query_facts"))["result"]


async def ledger_of(directory: Path, who: str) -> list[dict[str, Any]]:
    """The records of a ledger in a data directory that no daemon holds, oldest first."""
    with closing(await SqliteEngine.open(directory, DecayPolicy())) as engine:
        chain: Any = engine.read_now(Chain(f"__ledger__::{who}", None, RAW_ADMIN))
    return [json.loads(fact.value) for fact in chain]


async def test_the_ledger_holds_every_call_and_every_new_list_in_one_chain(
    tmp_path: Path, server: ServerKind, client: httpx.AsyncClient
) -> None:
    settings: dict[str, Any] = {"mcp_server": server, "agent_tokens": AGENTS, "tool_ledger": True}
    for _ in range(2):  # the chain goes on after a restart
        async with serving(tmp_path, **settings) as daemon:
            await listed(client, daemon, AS_BOB)
            await listed(client, daemon, AS_BOB)
            await tool(client, daemon.mcp, "store_fact", AS_BOB, **FACT, turn_id="t1")
            await tool(client, daemon.mcp, "no_such_tool", AS_BOB)
            await tool(client, daemon.mcp, "list_entities", AS_EVE)
    records = await ledger_of(tmp_path, "bob")
    assert [record["kind"] for record in records] == [
        "agent.tools_offered.v1", "agent.tool_invocation.v1", "agent.tool_invocation.v1",
    ] * 2  # fmt: skip
    stored = records[1]["payload"]
    assert (stored["tool"], stored["outcome"], stored["turn_id"], stored["request_id"]) == ("store_fact", "ok", "t1", 1)
    assert stored["args_hash"].startswith("blake3:")
    assert "args_raw" not in stored
    assert (records[2]["payload"]["tool"], records[2]["payload"]["outcome"]) == ("unknown", "error")
    for earlier, later in pairwise(records):
        body = {key: value for key, value in earlier.items() if key != "receipt"}
        canonical = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
        assert later["prev_hash"] == blake3(canonical).hexdigest()
        assert later["seq"] == earlier["seq"] + 1
    assert len(await ledger_of(tmp_path, "eve")) == 2


async def test_without_the_switch_there_is_no_ledger(
    tmp_path: Path, server: ServerKind, client: httpx.AsyncClient
) -> None:
    async with serving(tmp_path, mcp_server=server) as daemon:
        await tool(client, daemon.mcp, "list_entities")
    assert await ledger_of(tmp_path, "__anon__") == []


async def test_the_ledger_is_nobody_s_to_read_or_write_as_facts(
    tmp_path: Path, server: ServerKind, client: httpx.AsyncClient
) -> None:
    async with serving(tmp_path, mcp_server=server, agent_tokens=AGENTS, tool_ledger=True) as daemon:
        await tool(client, daemon.mcp, "list_entities", AS_BOB)
        entity = "__ledger__::bob"
        refused = await tool(client, daemon.mcp, "store_fact", AS_BOB, **FACT | {"entity": entity})
        assert refused["error"]["data"]["error_code"] == "RESERVED_ENTITY_PREFIX"
        assert text_of(await tool(client, daemon.mcp, "query_facts", AS_BOB, entity=entity))["rows"] == []


async def test_tokens_of_every_call_are_counted_by_tool(daemon: Serving, client: httpx.AsyncClient) -> None:
    await tool(client, daemon.mcp, "list_entities")
    await tool(client, daemon.mcp, "no_such_tool")
    figures = (await client.get(f"{daemon.http}/metrics", headers={"X-Corecrux-Scopes": "admin:read"})).text
    spent = {
        line.split('"')[1]: float(line.rsplit(" ", 1)[1])
        for line in figures.splitlines()
        if line.startswith("corecrux_token_spend_total{")
    }
    result = '{"content":[{"type":"text","text":"{\\"entities\\":[]}"}]}'
    assert spent == {"list_entities": 1 + len(result) // 4, "unknown": 1 + len("unknown tool: no_such_tool") // 4}


@pytest.mark.parametrize("contract", ["crc-v1", "legacy"])
async def test_a_result_that_a_budget_cut_short_is_counted(
    daemon: Serving, client: httpx.AsyncClient, contract: str
) -> None:
    for name in ("a", "b"):
        await tool(client, daemon.mcp, "store_fact", **FACT | {"entity": name, "value": name * 2000})
    await tool(client, daemon.mcp, "query_facts", token_budget=10_000, contract=contract)
    await tool(client, daemon.mcp, "query_facts", top_k=1, contract=contract)
    url, scopes = f"{daemon.http}/metrics", {"X-Corecrux-Scopes": "admin:read"}
    assert "truncated_total{" not in (await client.get(url, headers=scopes)).text
    await tool(client, daemon.mcp, "query_facts", token_budget=700, contract=contract)
    line = 'corecrux_tool_response_truncated_total{reason="token_budget",tool="query_facts"} 1.0'
    assert line in (await client.get(url, headers=scopes)).text
