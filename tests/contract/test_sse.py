"""Push streams over a real socket, on both servers: opening, limits, ownership, replacement, keep-alive, the end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
import trio

from crux.actors import sessions
from crux.config import ServerKind
from tests.serving import Serving, serving

BOB, EVE = "bob-token-" + "0" * 32, "eve-token-" + "0" * 32
PATIENCE_S = 20


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE_S) as opened:
        yield opened


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
        peer = await trio.open_tcp_stream("127.0.0.1", daemon.port("mcp"))
        await peer.send_all(b"GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n")
        heard = b""
        with trio.fail_after(PATIENCE_S):
            while heard.count(b":\n\n") < 3:
                heard += await peer.receive_some()
        await peer.aclose()


async def test_the_same_owner_takes_its_session_over(daemon: Serving, client: httpx.AsyncClient) -> None:
    async with stream(client, daemon, Mcp_Session_Id="s") as first:
        async with stream(client, daemon, Mcp_Session_Id="s") as second:
            with trio.fail_after(PATIENCE_S):
                assert await first.aread() == b"", "the older stream ends properly and at once"
            assert second.status_code == 200
            assert second.headers["mcp-session-id"] == "s"


async def test_a_session_of_another_owner_is_refused(
    tmp_path: Path, server: ServerKind, client: httpx.AsyncClient
) -> None:
    async with serving(tmp_path, mcp_server=server, agent_tokens=f"bob:{BOB},eve:{EVE}") as daemon:
        async with stream(client, daemon, Mcp_Session_Id="s", Authorization=f"Bearer {BOB}"):
            response = await refused(client, daemon, Mcp_Session_Id="s", Authorization=f"Bearer {EVE}")
            assert response.status_code == 403
            assert response.json()["error"] == "sse_session_owner_mismatch"
            assert list(response.json()) == ["error", "detail"]
        assert (await refused(client, daemon)).status_code == 401


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
        peer = await trio.open_tcp_stream("127.0.0.1", daemon.port("mcp"))
        await peer.send_all(b"GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n")
        assert (await peer.receive_some()).startswith(b"HTTP/1.1 200")
        assert (await refused(client, daemon)).status_code == 429
        await peer.aclose()
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
