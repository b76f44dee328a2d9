"""What stands before a call on the MCP port, over a real socket: every gate in its order, and what may come at all."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import trio

from crux import __version__
from crux.config import ServerKind
from tests.serving import BOB, LIST, Serving, bearer, serving


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": f"bearer {BOB}"},
        {"Authorization": BOB},
        bearer("x" * 40),
        bearer(BOB[:-1]),
    ],
)
async def test_where_there_are_tokens_only_they_open(
    guarded: Serving, client: httpx.AsyncClient, headers: dict[str, str]
) -> None:
    response = await client.post(guarded.mcp, json=LIST, headers=headers)
    assert response.status_code == 401
    assert list(response.json()) == ["error", "hint"]
    assert response.json()["error"] == "unauthorized"
    assert "www-authenticate" not in response.headers


async def test_gates_come_in_the_documented_order(guarded: Serving, client: httpx.AsyncClient) -> None:
    bad_session, bad_body = {"Mcp-Session-Id": "!"}, b"{"
    first = await client.post(guarded.mcp, content=bad_body, headers=bad_session)
    assert first.json()["error"] == "unauthorized"
    second = await client.post(guarded.mcp, content=bad_body, headers={**bad_session, **bearer(BOB)})
    assert (second.status_code, second.json()["error"]) == (400, "invalid_mcp_session_id")
    third = await client.post(guarded.mcp, content=bad_body, headers={"Mcp-Session-Id": "ok", **bearer(BOB)})
    assert (third.status_code, third.json()["error"]["code"]) == (200, -32700)
    assert "mcp-session-id" not in third.headers


@pytest.mark.parametrize(("length", "status"), [(128, 200), (129, 400)])
async def test_a_session_id_has_at_most_128_characters(
    daemon: Serving, client: httpx.AsyncClient, length: int, status: int
) -> None:
    response = await client.post(daemon.mcp, json=LIST, headers={"Mcp-Session-Id": "a" * length})
    assert response.status_code == status


async def test_discovery_needs_no_token_and_no_stream(guarded: Serving, client: httpx.AsyncClient) -> None:
    for headers in ({}, {"Accept": "*/*"}, {"Accept": "application/json"}):
        response = await client.get(guarded.mcp, headers=headers)
        assert response.json() == {
            "protocolVersion": "2024-11-05",
            "serverInfo": {"name": "crux", "version": __version__},
        }
        assert "mcp-session-id" not in response.headers
    assert (await client.head(guarded.mcp)).content == b""


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("DELETE", "/mcp", 405),
        ("PUT", "/mcp", 405),
        ("GET", "/", 404),
        ("POST", "/mcp/", 404),
        ("POST", "/v1/facts", 404),
    ],
)
async def test_other_methods_and_paths_are_refused_without_a_body(
    daemon: Serving, client: httpx.AsyncClient, method: str, path: str, status: int
) -> None:
    response = await client.request(method, daemon.mcp.removesuffix("/mcp") + path)
    assert (response.status_code, response.content) == (status, b"")
    if status == 405:
        assert response.headers["allow"] == "GET, HEAD, POST, OPTIONS"


@pytest.mark.parametrize(
    ("headers", "status", "error"),
    [
        ({"Host": "evil.example"}, 421, "host-not-allowed"),
        ({"Host": "evil.example:14801"}, 421, "host-not-allowed"),
        ({"Host": "127.0.0.1.evil.example"}, 421, "host-not-allowed"),
        ({"Origin": "https://evil.example"}, 403, "origin-not-allowed"),
        ({"Origin": "null"}, 403, "origin-not-allowed"),
        ({"Host": "localhost", "Origin": "http://localhost:5173"}, 200, None),
        ({"Host": "[::1]:1"}, 200, None),
        ({"X-Corecrux-Passport-Id": "not valid"}, 400, "invalid-passport-header"),
    ],
)
async def test_a_page_from_elsewhere_is_kept_out(
    daemon: Serving, client: httpx.AsyncClient, headers: dict[str, str], status: int, error: str | None
) -> None:
    response = await client.post(daemon.mcp, json=LIST, headers=headers)
    assert response.status_code == status
    assert response.json().get("error") == error


async def test_a_preflight_is_answered_before_authentication(guarded: Serving, client: httpx.AsyncClient) -> None:
    response = await client.options(guarded.mcp, headers={"Origin": "http://127.0.0.1:5173"})
    assert response.status_code == 204
    assert response.headers["access-control-allow-origin"] == "http://127.0.0.1:5173"
    assert "mcp-session-id" in response.headers["access-control-allow-headers"].lower()
    called = await client.post(guarded.mcp, json=LIST, headers={"Origin": "http://127.0.0.1:5173", **bearer(BOB)})
    assert called.headers["access-control-allow-origin"] == "http://127.0.0.1:5173"
    assert "Mcp-Session-Id" in called.headers["access-control-expose-headers"]


BAD_BODIES = [
    b"",
    b"{",
    b"[]",
    b"\xff\xfe",
    b"[" * 10_000 + b"]" * 10_000,
    b'{"jsonrpc":"2.0","id":1,"method":"m","params":' + b'{"a":' * 10_000 + b"1" + b"}" * 10_001,
    b'{"jsonrpc":2,"id":1,"method":"m"}',
    b'{"jsonrpc":"2.0","id":1,"method":7}',
]


@pytest.mark.parametrize("body", BAD_BODIES, ids=lambda body: repr(body[:20]))
async def test_a_body_that_is_no_request_is_a_parse_error_and_the_next_one_is_served(
    daemon: Serving, client: httpx.AsyncClient, body: bytes
) -> None:
    response = await client.post(daemon.mcp, content=body)
    assert response.status_code == 200
    assert response.json()["id"] is None
    assert response.json()["error"]["code"] == -32700
    assert (await client.post(daemon.mcp, json=LIST)).json()["result"]["tools"]


@pytest.mark.parametrize("text", ["a\\u0000b", "\\ud800", "\\udc00\\ud800"])
async def test_nul_and_lone_surrogates_are_refused(daemon: Serving, client: httpx.AsyncClient, text: str) -> None:
    body = (
        '{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"store_fact",'
        f'"arguments":{{"entity":"a","key":"k","value":"{text}"}}}}}}'
    )
    response = (await client.post(daemon.mcp, content=body)).json()
    assert (response["id"], response["error"]["code"]) == (9, -32602)


async def test_a_body_is_taken_up_to_the_limit_and_refused_above_it(
    tmp_path: Path, server: ServerKind, client: httpx.AsyncClient
) -> None:
    async def chunks(size: int) -> AsyncIterator[bytes]:
        for _ in range(size // 10_000):
            yield b" " * 10_000

    async with serving(tmp_path, mcp_server=server, max_body_bytes=100_000) as daemon:
        padded = json.dumps(LIST).encode().ljust(100_000)
        assert (await client.post(daemon.mcp, content=padded)).status_code == 200
        for content in (padded + b" ", chunks(110_000)):
            response = await client.post(daemon.mcp, content=content)
            assert response.status_code == 413
            assert "100000 bytes" in response.json()["hint"]
        assert (await client.post(daemon.mcp, json=LIST)).status_code == 200


async def test_twenty_megabytes_get_their_answer_before_the_connection_closes(
    daemon: Serving, client: httpx.AsyncClient
) -> None:
    assert (await client.post(daemon.mcp, content=b"x" * 20_000_000)).status_code == 413
    assert (await client.post(daemon.mcp, json=LIST)).status_code == 200


async def test_too_many_requests_at_once_are_shed(
    tmp_path: Path, server: ServerKind, client: httpx.AsyncClient
) -> None:
    async with serving(tmp_path, mcp_server=server, max_inflight=2) as daemon, trio.open_nursery() as nursery:
        streams = [await trio.open_tcp_stream("127.0.0.1", daemon.port("mcp")) for _ in range(2)]
        for stream in streams:
            await stream.send_all(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n")
        with trio.fail_after(20):
            while (response := await client.get(daemon.mcp)).status_code == 200:
                await trio.lowlevel.checkpoint()
        assert (response.status_code, response.headers["retry-after"]) == (503, "1")
        assert response.json()["error"] == "service-unavailable"
        for stream in streams:
            await stream.aclose()
        with trio.fail_after(20):
            while (await client.get(daemon.mcp)).status_code != 200:
                await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: abc\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
        b"nonsense\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}",
    ],
)
async def test_a_malformed_request_is_a_400_and_the_daemon_goes_on(
    daemon: Serving, client: httpx.AsyncClient, request_bytes: bytes
) -> None:
    peer = await daemon.dial()
    async with peer.stream:
        await peer.send(request_bytes)
        with trio.fail_after(20):
            assert (await peer.rest()).startswith(b"HTTP/1.1 400")
    assert (await client.post(daemon.mcp, json=LIST)).status_code == 200


async def test_a_peer_that_leaves_in_the_middle_of_its_body_harms_nobody(
    daemon: Serving, client: httpx.AsyncClient
) -> None:
    stream = await trio.open_tcp_stream("127.0.0.1", daemon.port("mcp"))
    await stream.send_all(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{")
    await stream.aclose()
    assert (await client.post(daemon.mcp, json=LIST)).status_code == 200
