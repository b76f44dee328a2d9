"""OAuth on the MCP port over real sockets: an authorization server that is asked, and what its answers open."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio

from crux.actors import introspection
from crux.actors.sessions import LIST_CHANGED
from crux.config import ServerKind, Settings
from crux.daemon import serve
from crux.errors import SettingError
from tests.serving import Serving, serving
from tests.wires import dial, get

RESOURCE = "https://crux.example/mcp"
AGENT_TOKEN = "bob-token-" + "0" * 32
LIST = {"jsonrpc": "2.0", "id": "a", "method": "tools/list"}
METADATA = "/.well-known/oauth-protected-resource"
CARD = "/.well-known/agent-card"
ORIGIN = {"Origin": "http://localhost:5173"}

OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
ACTIVE = {"active": True, "scope": "openid mcp:read", "sub": "user-1", "aud": RESOURCE}


def answer(document: object, head: bytes = OK) -> bytes:
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    return head + b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


class AuthorizationServer:
    """Answers each token with the bytes it has for it; over one it has none for it hangs until `patience_ends`."""

    def __init__(self) -> None:
        self.port = 0
        self.answers: dict[str, bytes] = {"good": answer(ACTIVE), "bad": answer({"active": False})}
        self.patience_ends = trio.Event()
        self.asked: Counter[str] = Counter()
        self.questions: list[tuple[bytes, dict[str, str]]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        self.port = listeners[0].socket.getsockname()[1]
        task_status.started()
        await trio.serve_listeners(self._converse, listeners)

    async def _converse(self, stream: trio.SocketStream) -> None:
        received = b""
        async with stream:
            try:
                async for part in stream:
                    received += part
                    head, blank, body = received.partition(b"\r\n\r\n")
                    if not blank or len(body) < _length(head):
                        continue
                    received = b""
                    question = json.loads(body)
                    self.questions.append((head, question))
                    self.asked[question["token"]] += 1
                    reply = self.answers.get(question["token"])
                    if reply is None:
                        await self.patience_ends.wait()
                        reply = answer({"active": False})
                    await stream.send_all(reply)
                    if not reply.startswith(b"HTTP/"):
                        return
            except trio.BrokenResourceError:
                return


def _length(head: bytes) -> int:
    (line,) = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    return int(line.partition(b":")[2])


@pytest.fixture
async def authority(nursery: trio.Nursery) -> AuthorizationServer:
    server = AuthorizationServer()
    await nursery.start(server.run)
    return server


def settings_for(authority: AuthorizationServer, **changes: object) -> dict[str, Any]:
    return {
        "mcp_resource_url": RESOURCE,
        "mcp_auth_server": authority.url,
        "mcp_introspect_client_id": "crux",
        "mcp_introspect_client_secret": "s3cret",
        **changes,
    }


@pytest.fixture
async def open_daemon(tmp_path: Path, server: ServerKind, authority: AuthorizationServer) -> AsyncIterator[Serving]:
    """OAuth, no agents."""
    async with serving(tmp_path, mcp_server=server, **settings_for(authority)) as serves:
        yield serves


@pytest.fixture
async def guarded(tmp_path: Path, server: ServerKind, authority: AuthorizationServer) -> AsyncIterator[Serving]:
    """OAuth and an agent."""
    changed = settings_for(authority, agent_tokens=f"bob:{AGENT_TOKEN}")
    async with serving(tmp_path, mcp_server=server, **changed) as serves:
        yield serves


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(trust_env=False, timeout=20) as opened:
        yield opened


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def root(daemon: Serving) -> str:
    return daemon.mcp.removesuffix("/mcp")


def call(name: object, **arguments: object) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": name, "arguments": arguments}}


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
    assert await status(client, guarded, AGENT_TOKEN) == 200
    assert not authority.questions


@pytest.mark.parametrize("token", ["bad", "=", "two words", None])
async def test_where_agents_have_tokens_anything_else_is_a_401_that_says_where_to_get_one(
    guarded: Serving, client: httpx.AsyncClient, token: str | None
) -> None:
    headers = {**ORIGIN, **({} if token is None else bearer(token))}
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
    stored = await client.post(open_daemon.mcp, json=call("store_fact", entity="a", key="k", value="v"))
    assert "result" in stored.json(), "the anonymous caller is no reader"


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
    changed = settings_for(authority, mcp_introspect_client_secret=None, agent_tokens=f"bob:{AGENT_TOKEN}")
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
        assert await status(client, guarded, AGENT_TOKEN) == 200
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
        assert await status(client, guarded, AGENT_TOKEN) == 200
        authority.patience_ends.set()


# --- what a reader may do


async def test_a_reader_shakes_hands_lists_and_reads_and_does_nothing_else(
    guarded: Serving, client: httpx.AsyncClient
) -> None:
    async def ask(body: object) -> httpx.Response:
        return await client.post(guarded.mcp, json=body, headers={**bearer("good"), "Mcp-Session-Id": "mine"})

    for method in ("initialize", "notifications/initialized", "tools/list"):
        response = await ask({**LIST, "method": method})
        assert "result" in response.json()
        assert response.headers["mcp-session-id"] == "mine"
    assert "result" in (await ask(call("query_facts", query="x"))).json()
    refused = [
        (call("store_fact", entity="a", key="k", value="v"), "store_fact"),
        (call("delete_fact", fact_id="x"), "delete_fact"),
        (call("no_such_tool"), "no_such_tool"),
        (call(7), "tools/call"),
        ({**LIST, "id": 7, "method": "ping"}, "ping"),
        ({**LIST, "id": 7, "method": "resources/list"}, "resources/list"),
    ]
    for body, named in refused:
        response = await ask(body)
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
    notified = await ask({**call("store_fact"), "id": None})
    assert (notified.status_code, notified.headers["mcp-session-id"]) == (202, "mine")
    listed = await client.post(guarded.mcp, json=call("list_entities"), headers=bearer(AGENT_TOKEN))
    assert '\\"entities\\":[]' in listed.text, "nothing was stored"


SPELLINGS = (
    *("Store_Fact", "STORE_FACT", "store_fact ", " store_fact", "store_fact\n", "store_fact\u200b", "store\uff3ffact"),
    *("\u017ftore_fact", "st\u043ere_fact", "store-fact", "store.fact", "crux-mcp.store_fact", "tools/store_fact"),
    *("query_facts,store_fact", "query_facts/store_fact", "query_facts ", "Query_Facts", "", " ", "cuecrux_session"),
)
STORE = {"name": "store_fact", "arguments": {"entity": "a", "key": "k", "value": "v"}}


def disguises() -> Iterator[bytes]:
    """Requests that would store a fact, or open a session, if anything but a permitted name counted."""
    for name in SPELLINGS:
        yield json.dumps({**LIST, "method": "tools/call", "params": {**STORE, "name": name}}).encode()
    for method in (
        "tools/call ",
        "Tools/Call",
        "tools/call\u200b",
        "store_fact",
        "notifications/initialized ",
        "ping",
        "",
    ):
        yield json.dumps({**LIST, "method": method, "params": STORE}).encode()
    for params in (
        [STORE],
        [STORE["name"]],
        {"params": STORE},
        {"name": [STORE["name"]]},
        {"name": STORE},
        "store_fact",
    ):
        yield json.dumps({**LIST, "method": "tools/call", "params": params}).encode()
    call_of = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"arguments":%s,%s}}'
    for name in ('"name":"query_facts","name":"store_fact"', '"name":"store\\u005ffact"', '"n\\u0061me":"store_fact"'):
        yield (call_of % (json.dumps(STORE["arguments"]), name)).encode()
    yield json.dumps({**LIST, "params": STORE}).replace("tools/list", 'tools/list","method":"tools\\/call').encode()


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
    smuggled = {**LIST, "method": "tools/call", "params": {"name": "query_facts", "arguments": within}}
    assert "result" in await ask(json.dumps(smuggled).encode()), "arguments are the tool's own"
    last_counts = json.dumps({**LIST, "method": "tools/call", "params": STORE})
    last_counts = last_counts.replace('"name": "store_fact"', '"name": "store_fact", "name": "query_facts"')
    assert "result" in await ask(last_counts.encode())
    listed = await client.post(guarded.mcp, json=call("list_entities"), headers=bearer(AGENT_TOKEN))
    assert '\\"entities\\":[]' in listed.text, "nothing was stored"


async def test_a_reader_puts_nothing_on_another_s_stream(guarded: Serving, client: httpx.AsyncClient) -> None:
    session = {"Mcp-Session-Id": "of.bob"}
    declare = call("cuecrux_session", intent="audit_review")
    bob = await dial(guarded.port("mcp"))
    fields = ("Accept: text/event-stream", "Mcp-Session-Id: of.bob", f"Authorization: Bearer {AGENT_TOKEN}")
    async with bob.stream:
        await bob.send(get("/mcp", *fields))
        await bob.until(b"\r\n\r\n")
        for _ in range(3):
            refused = await client.post(guarded.mcp, json=declare, headers={**session, **bearer("good")})
            assert refused.json()["error"]["code"] == -32601
        assert guarded.parts.mailboxes["sessions"].figures.handled == 1, "the stream's own opening"
        await client.post(guarded.mcp, json=declare, headers={**session, **bearer(AGENT_TOKEN)})
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
    tokens = f"bob:{AGENT_TOKEN},acme:{'a' * 32}"
    changed = settings_for(authority, agent_tokens=tokens, mcp_oauth_tenant="acme")
    async with serving(tmp_path, mcp_server=server, **changed) as daemon:
        assert any("agent 'acme'" in line for line in daemon.ready.warnings)
        for token, value in ((AGENT_TOKEN, "of bob"), ("a" * 32, "of acme")):
            fact = call("store_fact", entity=f"plan {value}", key="k", value=value, private=True)
            assert "result" in (await client.post(daemon.mcp, json=fact, headers=bearer(token))).json()
        for token in ("good", "other"):
            found = (await client.post(daemon.mcp, json=call("query_facts", query="plan"), headers=bearer(token))).text
            assert ("of acme" in found, "of bob" in found) == (True, False)


async def test_a_stream_belongs_to_the_tenant(
    guarded: Serving, client: httpx.AsyncClient, authority: AuthorizationServer
) -> None:
    authority.answers["other"] = answer({**ACTIVE, "sub": "user-2"})
    headers = {"Accept": "text/event-stream", "Mcp-Session-Id": "shared"}
    async with client.stream("GET", guarded.mcp, headers={**headers, **bearer("good")}) as stream:
        assert stream.status_code == 200
        taken = await client.get(guarded.mcp, headers={**headers, **bearer(AGENT_TOKEN)})
        assert (taken.status_code, taken.json()["error"]) == (403, "sse_session_owner_mismatch")
        async with client.stream("GET", guarded.mcp, headers={**headers, **bearer("other")}) as newer:
            assert newer.status_code == 200
            with trio.fail_after(20):
                assert b"".join([part async for part in stream.aiter_raw()]) == b"", "the newer stream took over"


# --- what is published


async def test_the_metadata_is_there_for_anyone(
    guarded: Serving, client: httpx.AsyncClient, authority: AuthorizationServer
) -> None:
    response = await client.get(root(guarded) + METADATA, headers=ORIGIN)
    assert (response.status_code, response.headers["content-type"]) == (200, "application/json")
    assert response.headers["access-control-allow-origin"] == ORIGIN["Origin"]
    assert response.text == (
        f'{{"resource":"{RESOURCE}","authorization_servers":["{authority.url}"],'
        '"scopes_supported":["mcp:read"],"bearer_methods_supported":["header"]}'
    )


async def test_the_card_lists_the_floor_and_says_who_may_come_in(guarded: Serving, client: httpx.AsyncClient) -> None:
    card = (await client.get(root(guarded) + CARD)).json()
    assert card["name"].startswith("crux-daemon:")
    assert card["access"]["baseUrl"] == guarded.http
    assert card["authentication"] == {
        "required": True,
        "scheme": "oauth2+bearer",
        "modes": ["bearer-token", "oauth2"],
    }
    names = [skill["name"] for skill in card["skills"]]
    listed = (await client.post(guarded.mcp, json=LIST, headers=bearer("good"))).json()["result"]["tools"]
    order = [tool["name"] for tool in listed]
    assert "query_facts" in names
    assert "list_entities" not in names, "it is not of the floor"
    assert names == sorted(names, key=order.index)
    assert all(set(skill) == {"name", "description"} for skill in card["skills"])


@pytest.mark.parametrize("required", [False, True])
async def test_the_card_says_what_the_daemon_does(
    tmp_path: Path, client: httpx.AsyncClient, authority: AuthorizationServer, required: bool
) -> None:
    async with serving(tmp_path, **settings_for(authority, mcp_require_auth=required)) as daemon:
        card = (await client.get(root(daemon) + CARD)).json()
        assert card["authentication"] == {"required": required, "scheme": "oauth2", "modes": ["oauth2"]}
        assert (await status(client, daemon, None) == 401) == required


@pytest.mark.parametrize("path", [METADATA, CARD])
async def test_a_document_may_be_read_and_nothing_else(guarded: Serving, client: httpx.AsyncClient, path: str) -> None:
    got = await client.get(root(guarded) + path)
    head = await client.head(root(guarded) + path)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == str(len(got.content))
    for method in ("POST", "PUT", "DELETE"):
        response = await client.request(method, root(guarded) + path)
        assert (response.status_code, response.content) == (405, b"")
        assert response.headers["allow"] == "GET, HEAD, OPTIONS"
    preflight = await client.options(root(guarded) + path, headers=ORIGIN)
    assert (preflight.status_code, preflight.headers["access-control-allow-origin"]) == (204, ORIGIN["Origin"])
    assert (await client.get(root(guarded) + path + "/")).status_code == 404


async def test_what_is_not_configured_is_not_published(
    tmp_path: Path, server: ServerKind, client: httpx.AsyncClient
) -> None:
    async with serving(tmp_path, mcp_server=server, agent_card=False) as daemon:
        for path in (METADATA, CARD):
            for method in ("GET", "POST"):
                response = await client.request(method, root(daemon) + path)
                assert (response.status_code, response.content) == (404, b"")


async def test_a_resource_alone_is_published_and_named_in_a_401(
    tmp_path: Path, server: ServerKind, client: httpx.AsyncClient
) -> None:
    settings: dict[str, Any] = {"mcp_resource_url": RESOURCE, "agent_tokens": f"bob:{AGENT_TOKEN}"}
    async with serving(tmp_path, mcp_server=server, **settings) as daemon:
        assert (await client.get(root(daemon) + METADATA)).json()["resource"] == RESOURCE
        response = await client.post(daemon.mcp, json=LIST, headers=bearer("good"))
        assert (response.status_code, "www-authenticate" in response.headers) == (401, True)


# --- whether it starts at all


async def test_a_token_that_is_required_and_cannot_exist_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="CRUX_MCP_REQUIRE_AUTH=1"):
        await serve(
            Settings(data_dir=tmp_path, http_port=0, mcp_port=0, mcp_require_auth=True),
            stop=trio.Event(),
            announce=lambda _: pytest.fail("it started"),
        )
