"""A daemon with a capability router: what its clients see and may call, on both servers of the MCP port."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx

from crux.config import ServerKind
from tests.rcx_tokens import reading_token
from tests.serving import FACT, LIST, Serving, call_of, serving, text_of, tool


async def listed(client: httpx.AsyncClient, daemon: Serving) -> dict[str, Any]:
    result: dict[str, Any] = (await client.post(daemon.mcp, json=LIST)).json()["result"]
    return result


async def test_without_a_router_nothing_is_stamped(daemon: Serving, client: httpx.AsyncClient) -> None:
    result = await listed(client, daemon)
    assert set(result) == {"tools"}
    for entry in result["tools"]:
        assert set(entry["_meta"]["crux"]) == {"consequence_metadata"}
        assert not [key for key in entry["inputSchema"] if key.startswith("x-crux")]


async def test_the_local_token_lists_every_local_tool_with_its_stamp(
    tmp_path: Path, server: ServerKind, client: httpx.AsyncClient
) -> None:
    async with serving(tmp_path, mcp_server=server, rcx_router="local") as daemon:
        result = await listed(client, daemon)
        stored = await tool(client, daemon.mcp, "store_fact", **FACT)
    crux = result["_meta"]["crux"]
    assert crux["filtered_by"] == "rcx-capability-token"
    assert (crux["tier"], crux["receipt_class"]) == ("free", "verified")
    assert len(result["tools"]) >= 7
    for entry in result["tools"]:
        assert {key: entry["_meta"]["crux"][key] for key in crux} == crux
        schema = entry["inputSchema"]
        assert schema["x-crux-token-ref"] == crux["token_ref"]
        assert (schema["x-crux-receipt-class"], schema["x-crux-tier"]) == ("verified", "free")
    assert "result" in stored


async def test_a_narrow_token_lists_and_allows_what_it_names(
    tmp_path: Path, server: ServerKind, client: httpx.AsyncClient
) -> None:
    async with serving(tmp_path, mcp_server=server, **reading_token(tmp_path)) as daemon:
        assert [entry["name"] for entry in (await listed(client, daemon))["tools"]] == ["query_facts", "list_entities"]
        refused = await client.post(daemon.mcp, json=call_of("store_fact", **FACT))
        found = await client.post(
            daemon.mcp, json={**LIST, "method": "tools/call", "params": {"name": "list_entities"}}
        )
    assert (refused.status_code, refused.headers["x-crux-mode"]) == (200, "refused")
    error = refused.json()["error"]
    assert error["code"] == -32030
    assert "denied:capability_not_permitted" in error["message"]
    assert list(error["data"]) == [
        "reason_code", "mode", "token_id", "token_hash", "stamp", "refusal_receipt", "upgrade_hint",
    ]  # fmt: skip
    assert error["data"]["refusal_receipt"]["capability"] == "crux-mcp.store_fact"
    assert error["data"]["upgrade_hint"] is None
    assert text_of(found.json()) == {"entities": []}, "and nothing was stored"
    assert "x-crux-mode" not in found.headers


async def test_an_expired_token_lists_nothing_and_refuses_all(
    tmp_path: Path, server: ServerKind, client: httpx.AsyncClient
) -> None:
    async with serving(tmp_path, mcp_server=server, **reading_token(tmp_path, valid_s=30)) as daemon:
        assert (await listed(client, daemon))["tools"] == []
        error = (await tool(client, daemon.mcp, "query_facts"))["error"]
    assert error["data"]["reason_code"] == "denied:token_expired"


async def test_a_refusal_is_in_no_figure(tmp_path: Path, server: ServerKind, client: httpx.AsyncClient) -> None:
    async with serving(tmp_path, mcp_server=server, **reading_token(tmp_path)) as daemon:
        await tool(client, daemon.mcp, "store_fact", **FACT)
        await tool(client, daemon.mcp, "list_entities")
        scopes = {"X-Corecrux-Scopes": "admin:read"}
        figures = (await client.get(f"{daemon.http}/metrics", headers=scopes)).text
    assert 'corecrux_tool_invocation_duration_seconds_count{outcome="ok",tool="list_entities"} 1.0' in figures
    assert "store_fact" not in figures
    assert "unknown" not in figures
