"""What an OAuth caller may do on the MCP port, and what is its own there, over real sockets."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import trio

from crux.actors.sessions import LIST_CHANGED
from crux.config import ServerKind
from tests.authorization import ACTIVE, AuthorizationServer, answer, settings_for
from tests.serving import AGENTS, BOB, FACT, LIST, Serving, bearer, call_of, encoded, serving, text_of, tool
from tests.wires import get


async def test_a_reader_shakes_hands_lists_and_reads_and_does_nothing_else(
    guarded: Serving, client: httpx.AsyncClient
) -> None:
    async def ask(body: object) -> httpx.Response:
        return await client.post(guarded.mcp, json=body, headers={**bearer("good"), "Mcp-Session-Id": "mine"})

    for method in ("initialize", "notifications/initialized", "tools/list"):
        response = await ask({**LIST, "method": method})
        assert "result" in response.json()
        assert response.headers["mcp-session-id"] == "mine"
    assert "result" in (await ask(call_of("query_facts", query="x"))).json()
    refused = [
        (call_of("store_fact", **FACT), "store_fact"),
        (call_of("delete_fact", fact_id="x"), "delete_fact"),
        (call_of("no_such_tool"), "no_such_tool"),
        (call_of(7), "tools/call"),
        ({**LIST, "method": "ping"}, "ping"),
        ({**LIST, "method": "resources/list"}, "resources/list"),
    ]
    for body, named in refused:
        response = await ask({**body, "id": 7})
        assert response.status_code == 200
        assert response.json() == {
            "jsonrpc": "2.0",
            "id": 7,
            "error": {
                "code": -32601,
                "message": f"'{named}' is not available to read-only OAuth callers (mcp:read scope)",
            },
        }
        assert "mcp-session-id" not in response.headers
    notified = await ask({**call_of("store_fact"), "id": None})
    assert (notified.status_code, notified.headers["mcp-session-id"]) == (202, "mine")
    listed = await tool(client, guarded.mcp, "list_entities", bearer(BOB))
    assert text_of(listed) == {"entities": []}, "nothing was stored"


SPELLINGS = (
    *("Store_Fact", "STORE_FACT", "store_fact ", " store_fact", "store_fact\n", "store_fact\u200b", "store\uff3ffact"),
    *("\u017ftore_fact", "st\u043ere_fact", "store-fact", "store.fact", "crux-mcp.store_fact", "tools/store_fact"),
    *("query_facts,store_fact", "query_facts/store_fact", "query_facts ", "Query_Facts", "", " ", "cuecrux_session"),
)
STORE = {"name": "store_fact", "arguments": FACT}


def disguises() -> Iterator[bytes]:
    """Requests that would store a fact, or open a session, if anything but a permitted name counted."""
    for name in SPELLINGS:
        yield encoded(call_of(name, **FACT))
    for method in (
        "tools/call ",
        "Tools/Call",
        "tools/call\u200b",
        "store_fact",
        "notifications/initialized ",
        "ping",
        "",
    ):
        yield encoded({**LIST, "method": method, "params": STORE})
    for params in (
        [STORE],
        [STORE["name"]],
        {"params": STORE},
        {"name": [STORE["name"]]},
        {"name": STORE},
        "store_fact",
    ):
        yield encoded({**LIST, "method": "tools/call", "params": params})
    twice = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"arguments":%s,%s}}'
    for name in ('"name":"query_facts","name":"store_fact"', '"name":"store\\u005ffact"', '"n\\u0061me":"store_fact"'):
        yield (twice % (json.dumps(FACT), name)).encode()
    yield encoded({**LIST, "params": STORE}).replace(b"tools/list", b'tools/list","method":"tools\\/call')


async def test_no_spelling_of_a_name_or_a_method_lets_a_reader_do_more(
    guarded: Serving, client: httpx.AsyncClient
) -> None:
    async def ask(body: bytes, **headers: str) -> dict[str, Any]:
        answered = await client.post(guarded.mcp, content=body, headers={**bearer("good"), **headers})
        found: dict[str, Any] = answered.json()
        return found

    for body in disguises():
        for headers in ({}, {"X-Corecrux-Passport-Id": "bob"}, {"X-Corecrux-Scopes": "admin:write facts:write"}):
            assert (await ask(body, **headers))["error"]["code"] == -32601, body
    within = {**STORE, "method": "tools/call", "params": STORE}
    assert "result" in await ask(encoded(call_of("query_facts", **within))), "arguments are the tool's own"
    body = encoded(call_of("store_fact", **FACT))
    last_counts = body.replace(b'"name":"store_fact"', b'"name":"store_fact","name":"query_facts"')
    assert "result" in await ask(last_counts)
    listed = await tool(client, guarded.mcp, "list_entities", bearer(BOB))
    assert text_of(listed) == {"entities": []}, "nothing was stored"


async def test_a_reader_puts_nothing_on_another_s_stream(guarded: Serving, client: httpx.AsyncClient) -> None:
    session = {"Mcp-Session-Id": "of.bob"}
    declare = call_of("cuecrux_session", intent="audit_review")
    bob = await guarded.dial()
    fields = ("Accept: text/event-stream", "Mcp-Session-Id: of.bob", f"Authorization: Bearer {BOB}")
    async with bob.stream:
        await bob.send(get("/mcp", *fields))
        await bob.until(b"\r\n\r\n")
        for _ in range(3):
            refused = await client.post(guarded.mcp, json=declare, headers={**session, **bearer("good")})
            assert refused.json()["error"]["code"] == -32601
        assert guarded.parts.mailboxes["sessions"].figures.handled == 1, "the stream's own opening"
        await client.post(guarded.mcp, json=declare, headers={**session, **bearer(BOB)})
        with trio.fail_after(20):
            await bob.until(LIST_CHANGED)


async def test_gates_come_in_the_documented_order(guarded: Serving, client: httpx.AsyncClient) -> None:
    bad_session = {"Mcp-Session-Id": "!"}
    first = await client.post(guarded.mcp, content=b"{", headers={**bad_session, **bearer("bad")})
    assert first.status_code == 401
    second = await client.post(guarded.mcp, content=b"{", headers={**bad_session, **bearer("good")})
    assert second.status_code == 400
    third = await client.post(guarded.mcp, content=b"{", headers=bearer("good"))
    assert third.json()["error"]["code"] == -32700


async def test_all_who_hold_a_token_are_the_tenant_and_see_no_agents_private_facts(
    tmp_path: Path, server: ServerKind, client: httpx.AsyncClient, authority: AuthorizationServer
) -> None:
    authority.answers["other"] = answer({**ACTIVE, "sub": "user-2"})
    tokens = f"{AGENTS},acme:{'a' * 32}"
    changed = settings_for(authority, agent_tokens=tokens, mcp_oauth_tenant="acme")
    async with serving(tmp_path, mcp_server=server, **changed) as daemon:
        assert any("agent 'acme'" in line for line in daemon.ready.warnings)
        for token, value in ((BOB, "of bob"), ("a" * 32, "of acme")):
            fact = FACT | {"entity": f"plan {value}", "value": value}
            assert "result" in await tool(client, daemon.mcp, "store_fact", bearer(token), **fact, private=True)
        for token in ("good", "other"):
            found = (
                await client.post(daemon.mcp, json=call_of("query_facts", query="plan"), headers=bearer(token))
            ).text
            assert ("of acme" in found, "of bob" in found) == (True, False)


async def test_a_stream_belongs_to_the_tenant(
    guarded: Serving, client: httpx.AsyncClient, authority: AuthorizationServer
) -> None:
    authority.answers["other"] = answer({**ACTIVE, "sub": "user-2"})
    headers = {"Accept": "text/event-stream", "Mcp-Session-Id": "shared"}
    async with client.stream("GET", guarded.mcp, headers={**headers, **bearer("good")}) as stream:
        assert stream.status_code == 200
        taken = await client.get(guarded.mcp, headers={**headers, **bearer(BOB)})
        assert (taken.status_code, taken.json()["error"]) == (403, "sse_session_owner_mismatch")
        async with client.stream("GET", guarded.mcp, headers={**headers, **bearer("other")}) as newer:
            assert newer.status_code == 200
            with trio.fail_after(20):
                assert b"".join([part async for part in stream.aiter_raw()]) == b"", "the newer stream took over"
