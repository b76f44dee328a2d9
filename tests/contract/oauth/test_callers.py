"""Who comes in on the MCP port by OAuth, over real sockets, whatever the authorization server answers."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest
import trio

from crux.actors import introspection
from crux.config import ServerKind, Settings
from crux.daemon import serve
from crux.errors import SettingError
from tests.authorization import ACTIVE, METADATA, OK, RESOURCE, AuthorizationServer, answer, settings_for
from tests.serving import AGENTS, BOB, FACT, LIST, Serving, bearer, serving, tool


async def status(client: httpx.AsyncClient, daemon: Serving, token: str | None) -> int:
    response = await client.post(daemon.mcp, json=LIST, headers=bearer(token) if token is not None else {})
    return response.status_code


# --- who comes in


async def test_a_token_that_the_server_vouches_for_opens_and_is_asked_about_once(
    guarded: Serving, client: httpx.AsyncClient, authority: AuthorizationServer
) -> None:
    for _ in range(3):
        response = await client.post(guarded.mcp, json=LIST, headers=bearer("good"))
        assert response.status_code == 200
        assert response.json()["result"]["tools"]
    assert authority.asked == {"good": 1}
    ((head, question),) = authority.questions
    assert head.startswith(b"POST /v1/auth/introspect HTTP/1.1\r\n")
    assert question == {"token": "good", "client_id": "crux", "client_secret": "s3cret"}


async def test_requests_at_the_same_time_share_one_question(
    guarded: Serving, client: httpx.AsyncClient, authority: AuthorizationServer
) -> None:
    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(status, client, guarded, "good")
    assert authority.asked == {"good": 1}


async def test_agents_are_served_without_the_server_being_asked(
    guarded: Serving, client: httpx.AsyncClient, authority: AuthorizationServer
) -> None:
    assert await status(client, guarded, BOB) == 200
    assert not authority.questions


@pytest.mark.parametrize("token", ["bad", "=", "two words", None])
async def test_where_agents_have_tokens_anything_else_is_a_401_that_says_where_to_get_one(
    guarded: Serving, client: httpx.AsyncClient, token: str | None
) -> None:
    headers = {"Origin": "http://localhost:5173", **({} if token is None else bearer(token))}
    response = await client.post(guarded.mcp, json=LIST, headers=headers)
    assert response.status_code == 401
    assert response.headers["www-authenticate"] == f'Bearer resource_metadata="https://crux.example{METADATA}"'
    assert list(response.json()) == ["error", "hint"]
    assert response.json()["error"] == "unauthorized"
    assert "WWW-Authenticate" in response.headers["access-control-expose-headers"]


async def test_without_agents_a_caller_without_a_token_is_anonymous_and_one_with_a_bad_token_is_not(
    open_daemon: Serving, client: httpx.AsyncClient
) -> None:
    assert [await status(client, open_daemon, token) for token in (None, "good", "bad")] == [200, 200, 401]
    assert "result" in await tool(client, open_daemon.mcp, "store_fact", **FACT), "the anonymous caller is no reader"


async def test_where_authentication_is_required_nobody_is_anonymous(
    tmp_path: Path, server: ServerKind, client: httpx.AsyncClient, authority: AuthorizationServer
) -> None:
    changed = settings_for(authority, mcp_require_auth=True)
    async with serving(tmp_path, mcp_server=server, **changed) as daemon:
        assert [await status(client, daemon, token) for token in (None, "good", "bad")] == [401, 200, 401]
        stream = await client.get(daemon.mcp, headers={"Accept": "text/event-stream"})
        assert (stream.status_code, "www-authenticate" in stream.headers) == (401, True)


async def test_where_oauth_is_not_whole_no_token_is_asked_about(
    tmp_path: Path, server: ServerKind, client: httpx.AsyncClient, authority: AuthorizationServer
) -> None:
    changed = settings_for(authority, mcp_introspect_client_secret=None, agent_tokens=AGENTS)
    async with serving(tmp_path, mcp_server=server, **changed) as daemon:
        assert any("CRUX_MCP_INTROSPECT_CLIENT_SECRET" in line for line in daemon.ready.warnings)
        assert await status(client, daemon, "good") == 401
    assert not authority.questions


@pytest.mark.parametrize(
    ("audience", "opens"),
    [(RESOURCE, True), (["https://else.example", RESOURCE], True), ("https://else.example", False)],
)
async def test_a_token_for_another_resource_is_refused_where_the_audience_is_checked(
    tmp_path: Path, client: httpx.AsyncClient, authority: AuthorizationServer, audience: object, opens: bool
) -> None:
    authority.answers["good"] = answer({**ACTIVE, "aud": audience})
    async with serving(tmp_path, **settings_for(authority, mcp_require_resource_aud=True)) as daemon:
        assert await status(client, daemon, "good") == (200 if opens else 401)


# --- servers as they should not be

LIES = {
    "an error": answer(ACTIVE, b"HTTP/1.1 500 Oh\r\n"),
    "a page": answer(b"<html>active: true</html>"),
    "a text for a switch": answer({**ACTIVE, "active": "yes"}),
    "a list": answer([ACTIVE]),
    "a token without the scope": answer({**ACTIVE, "scope": "openid"}),
    "a redirect to itself": answer(ACTIVE, b"HTTP/1.1 307 There\r\nLocation: /v1/auth/introspect\r\n"),
    "a body above the limit": answer(json.dumps(ACTIVE).encode().ljust(64 * 1024 + 1)),
    "a body without end": OK + b"Transfer-Encoding: chunked\r\n\r\n" + (b"1000\r\n" + b" " * 4096 + b"\r\n") * 17,
    "a compressed body": answer(b"\x1f\x8b" + b"0" * 50, OK + b"Content-Encoding: gzip\r\n"),
    "nested lists": answer(b'{"active":true,"scope":"mcp:read","x":' + b"[" * 30_000 + b"]" * 30_000 + b"}"),
    "no http": b"220 mail.example ESMTP\r\n",
    "nothing at all": b"HTTP/1.1 204 Nothing\r\n\r\n",
}


@pytest.mark.parametrize("lie", LIES)
async def test_a_server_that_answers_anything_else_lets_nobody_in_and_the_daemon_goes_on(
    guarded: Serving, client: httpx.AsyncClient, authority: AuthorizationServer, lie: str
) -> None:
    authority.answers["liar"] = LIES[lie]
    assert await status(client, guarded, "liar") == 401
    assert authority.asked["liar"] == 1
    assert await status(client, guarded, "good") == 200


async def test_a_server_that_hangs_costs_its_callers_the_deadline_and_nobody_else_anything(
    guarded: Serving, client: httpx.AsyncClient, authority: AuthorizationServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(introspection, "INTROSPECTION_S", 0.5)
    async with trio.open_nursery() as nursery:
        outcomes: list[int] = []

        async def wait() -> None:
            outcomes.append(await status(client, guarded, "hangs"))

        nursery.start_soon(wait)
        with trio.fail_after(20):
            while not authority.asked["hangs"]:
                await trio.lowlevel.checkpoint()
        assert await status(client, guarded, BOB) == 200
        assert await status(client, guarded, "good") == 200
    assert outcomes == [401]


async def test_a_server_that_is_down_lets_nobody_in(
    tmp_path: Path, server: ServerKind, client: httpx.AsyncClient, authority: AuthorizationServer
) -> None:
    nowhere = await trio.open_tcp_listeners(0, host="127.0.0.1")
    down = f"http://127.0.0.1:{nowhere[0].socket.getsockname()[1]}/"
    await nowhere[0].aclose()
    async with serving(tmp_path, mcp_server=server, **settings_for(authority, mcp_introspect_url=down)) as daemon:
        assert [await status(client, daemon, token) for token in ("good", None)] == [401, 200]


async def test_more_tokens_than_may_be_looked_up_are_told_to_come_back(
    guarded: Serving, client: httpx.AsyncClient, authority: AuthorizationServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(introspection, "UNDER_WAY", 1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(status, client, guarded, "hangs")
        with trio.fail_after(20):
            while not authority.asked["hangs"]:
                await trio.lowlevel.checkpoint()
        response = await client.post(guarded.mcp, json=LIST, headers=bearer("good"))
        assert (response.status_code, response.headers["retry-after"]) == (503, "1")
        assert response.json()["error"] == "service-unavailable"
        assert await status(client, guarded, BOB) == 200
        authority.patience_ends.set()


# --- whether it starts at all


async def test_a_token_that_is_required_and_cannot_exist_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="CRUX_MCP_REQUIRE_AUTH=1"):
        await serve(
            Settings(data_dir=tmp_path, http_port=0, mcp_port=0, mcp_require_auth=True),
            stop=trio.Event(),
            announce=lambda _: pytest.fail("it started"),
        )
