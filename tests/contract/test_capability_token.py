"""A daemon with a capability router: what its clients see and may call, on both servers of the MCP port."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import httpx
import pytest

from crux.config import ServerKind
from crux.domain.rcx_mint import mint_free_token
from crux.domain.rcx_token import encode_token
from tests.rcx_tokens import KEY, PUBLIC
from tests.serving import Serving, serving, tool

LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
FACT = {"entity": "a", "key": "k", "value": "v"}
READING = ("crux-mcp.query_facts", "crux-mcp.list_entities")


def with_token(directory: Path, server: ServerKind, **changes: Any) -> AbstractAsyncContextManager[Serving]:
    """A daemon whose token, valid by default, lets its callers read facts and do nothing else."""
    fields = {"instance_id": "n", "capabilities": READING, "issued_at": int(time.time()) - 60, **changes}
    path = directory / "token"
    path.write_bytes(encode_token(mint_free_token(KEY, **fields)))
    return serving(directory, mcp_server=server, rcx_router=str(path), rcx_issuer_key=PUBLIC.hex())


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(trust_env=False, timeout=20) as opened:
        yield opened


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
    async with with_token(tmp_path, server) as daemon:
        assert [entry["name"] for entry in (await listed(client, daemon))["tools"]] == ["query_facts", "list_entities"]
        body = {**LIST, "method": "tools/call", "params": {"name": "store_fact", "arguments": FACT}}
        refused = await client.post(daemon.mcp, json=body)
        found = await client.post(daemon.mcp, json={**body, "params": {"name": "list_entities"}})
    assert (refused.status_code, refused.headers["x-crux-mode"]) == (200, "refused")
    error = refused.json()["error"]
    assert error["code"] == -32030
    assert "denied:capability_not_permitted" in error["message"]
    assert list(error["data"]) == [
        "reason_code", "mode", "token_id", "token_hash", "stamp", "refusal_receipt", "upgrade_hint",
    ]  # fmt: skip
    assert error["data"]["refusal_receipt"]["capability"] == "crux-mcp.store_fact"
    assert error["data"]["upgrade_hint"] is None
    assert found.json()["result"]["content"][0]["text"] == '{"entities":[]}', "and nothing was stored"
    assert "x-crux-mode" not in found.headers


async def test_an_expired_token_lists_nothing_and_refuses_all(
    tmp_path: Path, server: ServerKind, client: httpx.AsyncClient
) -> None:
    async with with_token(tmp_path, server, valid_s=30) as daemon:
        assert (await listed(client, daemon))["tools"] == []
        error = (await tool(client, daemon.mcp, "query_facts"))["error"]
    assert error["data"]["reason_code"] == "denied:token_expired"


async def test_a_refusal_is_in_no_figure(tmp_path: Path, server: ServerKind, client: httpx.AsyncClient) -> None:
    async with with_token(tmp_path, server) as daemon:
        await tool(client, daemon.mcp, "store_fact", **FACT)
        await tool(client, daemon.mcp, "list_entities")
        scopes = {"X-Corecrux-Scopes": "admin:read"}
        figures = (await client.get(f"{daemon.http}/metrics", headers=scopes)).text
    assert 'corecrux_tool_invocation_duration_seconds_count{outcome="ok",tool="list_entities"} 1.0' in figures
    assert "store_fact" not in figures
    assert "unknown" not in figures
