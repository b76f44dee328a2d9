"""Push streams over a real socket, on both servers: opening, limits, ownership, replacement, keep-alive, the end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
import trio

from crux.actors import sessions
from crux.actors.sessions import LIST_CHANGED
from crux.config import ServerKind
from tests.serving import BOB, EVE, FACT, Serving, bearer, call_of, serving
from tests.wires import get

PATIENCE_S = 20
ASK_FOR_STREAM = get("/mcp", "Accept: text/event-stream")


@asynccontextmanager
async def stream(
    client: httpx.AsyncClient, daemon: Serving, accept: str = "text/event-stream", **headers: str
) -> AsyncIterator[httpx.Response]:
    sent = {"Accept": accept, **{name.replace("_", "-"): value for name, value in headers.items()}}
    async with client.stream("GET", daemon.mcp, headers=sent) as response:
        yield response


async def refused(client: httpx.AsyncClient, daemon: Serving, **headers: str) -> httpx.Response:
    async with stream(client, daemon, **headers) as response:
        await response.aread()
        return response


@pytest.mark.parametrize("accept", ["text/event-stream", "application/json, text/event-stream"])
async def test_a_stream_opens_with_an_id_of_its_own(daemon: Serving, client: httpx.AsyncClient, accept: str) -> None:
    async with stream(client, daemon, accept) as response:
        assert response.status_code == 200
        assert response.headers["content-type"] == "text/event-stream"
        assert response.headers["cache-control"] == "no-cache"
        assert len(response.headers["mcp-session-id"]) == 32


async def test_a_stream_is_kept_alive_by_comments(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, server: ServerKind
) -> None:
    monkeypatch.setattr(sessions, "KEEP_ALIVE_S", 0.01)
    async with serving(tmp_path, mcp_server=server) as daemon:
        peer = await daemon.dial()
        await peer.send(ASK_FOR_STREAM)
        with trio.fail_after(PATIENCE_S):
            for _ in range(3):
                await peer.until(b":\n\n")
        await peer.stream.aclose()


async def test_the_same_owner_takes_its_session_over(daemon: Serving, client: httpx.AsyncClient) -> None:
    async with stream(client, daemon, Mcp_Session_Id="s") as first:
        async with stream(client, daemon, Mcp_Session_Id="s") as second:
            with trio.fail_after(PATIENCE_S):
                assert await first.aread() == b"", "the older stream ends properly and at once"
            assert second.status_code == 200
            assert second.headers["mcp-session-id"] == "s"


async def test_a_session_of_another_owner_is_refused(guarded: Serving, client: httpx.AsyncClient) -> None:
    async with stream(client, guarded, Mcp_Session_Id="s", **bearer(BOB)):
        response = await refused(client, guarded, Mcp_Session_Id="s", **bearer(EVE))
        assert response.status_code == 403
        assert response.json()["error"] == "sse_session_owner_mismatch"
        assert list(response.json()) == ["error", "detail"]
    assert (await refused(client, guarded)).status_code == 401


async def test_there_are_as_many_streams_as_the_limits_allow(
    tmp_path: Path, server: ServerKind, client: httpx.AsyncClient
) -> None:
    async with serving(tmp_path, mcp_server=server, sse_max_sessions=2, sse_max_sessions_per_owner=0) as daemon:
        async with stream(client, daemon), stream(client, daemon):
            response = await refused(client, daemon)
            assert response.status_code == 429
            assert response.json() == {"error": "sse_session_limit", "scope": "global", "limit": 2}
    async with serving(tmp_path, mcp_server=server, sse_max_sessions=0, sse_max_sessions_per_owner=1) as daemon:
        async with stream(client, daemon):
            response = await refused(client, daemon)
            assert response.json() == {"error": "sse_session_limit", "scope": "owner", "limit": 1}


async def test_a_place_is_free_again_when_a_peer_has_gone(
    tmp_path: Path, server: ServerKind, client: httpx.AsyncClient
) -> None:
    async with serving(tmp_path, mcp_server=server, sse_max_sessions=1) as daemon:
        peer = await daemon.dial()
        await peer.send(ASK_FOR_STREAM)
        assert (await peer.until(b"\r\n")).startswith(b"HTTP/1.1 200")
        assert (await refused(client, daemon)).status_code == 429
        await peer.stream.aclose()
        with trio.fail_after(PATIENCE_S):
            while True:
                async with stream(client, daemon) as response:
                    if response.status_code == 200:
                        break


async def test_streams_hold_no_place_among_the_requests_under_way(
    tmp_path: Path, server: ServerKind, client: httpx.AsyncClient
) -> None:
    async with serving(tmp_path, mcp_server=server, max_inflight=1) as daemon:
        async with stream(client, daemon), stream(client, daemon):
            assert (await client.get(daemon.mcp)).status_code == 200


async def test_all_streams_end_properly_when_the_daemon_stops(
    tmp_path: Path, server: ServerKind, client: httpx.AsyncClient
) -> None:
    async with serving(tmp_path, mcp_server=server) as daemon:
        async with stream(client, daemon) as first, stream(client, daemon) as second:
            daemon.stop.set()
            with trio.fail_after(PATIENCE_S):
                assert await first.aread() == await second.aread() == b""


@pytest.mark.parametrize(("session_id", "status"), [("a" * 128, 200), ("a" * 129, 400), ("not valid", 400)])
async def test_a_session_id_is_checked_here_too(
    daemon: Serving, client: httpx.AsyncClient, session_id: str, status: int
) -> None:
    async with stream(client, daemon, Mcp_Session_Id=session_id) as response:
        assert response.status_code == status


async def test_a_head_request_opens_no_stream(daemon: Serving, client: httpx.AsyncClient) -> None:
    response = await client.head(daemon.mcp, headers={"Accept": "text/event-stream"})
    assert (response.status_code, response.headers["content-type"]) == (200, "application/json")


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("cuecrux_session", {"intent": " \t"}),
        ("cuecrux_session", {"intent": 7}),
        ("cuecrux_session", {}),
        ("cuecrux_session", None),
        ("store_fact", {"intent": "audit_review", **FACT}),
    ],
)
async def test_a_stream_is_told_of_a_declared_intent_before_the_call_is_answered_and_of_nothing_else(
    daemon: Serving, client: httpx.AsyncClient, name: str, arguments: object
) -> None:
    async def call(name: str, arguments: object) -> None:
        body = {**call_of(name), "params": {"name": name, "arguments": arguments}}
        assert (await client.post(daemon.mcp, json=body, headers={"Mcp-Session-Id": "s"})).status_code == 200

    peer = await daemon.dial()
    async with peer.stream:
        await peer.send(get("/mcp", "Accept: text/event-stream", "Mcp-Session-Id: s"))
        with trio.fail_after(PATIENCE_S):
            await peer.until(b"\r\n\r\n")
            await call(name, arguments)
            await call("cuecrux_session", {"intent": "audit_review"})
            await peer.until(LIST_CHANGED)
            await call("cuecrux_session", {"intent": "audit_review", "hints": 7})
            await peer.until(LIST_CHANGED)  # also where the tool refused
            daemon.stop.set()
            assert b"data:" not in await peer.rest()


async def test_without_a_stream_an_intent_is_declared_all_the_same(daemon: Serving, client: httpx.AsyncClient) -> None:
    body = call_of("cuecrux_session", intent="audit_review")
    for headers in ({}, {"Mcp-Session-Id": "nobody"}):
        response = await client.post(daemon.mcp, json=body, headers=headers)
        assert response.headers.get("mcp-session-id") == headers.get("Mcp-Session-Id")
