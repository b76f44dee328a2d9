"""External tools on both servers: what an agent is told and sees, what goes out for a call, and what 204 looks like."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import trio

from crux.actors.sessions import LIST_CHANGED
from crux.transport.http_client import HttpTransport
from tests.endpoints import PATIENT_S, answer
from tests.manifests import manifest_json
from tests.serving import ALICE, BOB, LIST, Serving, bearer, tool
from tests.upstream import answered_by
from tests.wires import get

OPERATOR = {"X-Corecrux-Scopes": "admin:read facts:write"}
ID, TOOL = "ext.quote", "ext.quote.daily"
CALLS = 200


class Endpoint:
    """Answers each request with its arguments; where it `holds`, once that many requests are there."""

    def __init__(self) -> None:
        self.url = ""
        self.requests: list[dict[str, Any]] = []
        self.holds = 1
        self._enough = trio.Event()

    async def converse(self, stream: trio.SocketStream) -> None:
        async with stream:
            received = b""
            while not received.endswith(b"}"):
                part = await stream.receive_some()
                if not part:
                    return
                received += part
            request = json.loads(received.partition(b"\r\n\r\n")[2])
            self.requests.append(request)
            if len(self.requests) >= self.holds:
                self._enough.set()
            await self._enough.wait()
            write = {"entity": "quotes::1", "key": "k", "value": str(len(self.requests))}
            body = json.dumps({"result": request["args"], "fact_writes": [write]}).encode()
            await stream.send_all(answer(body))


@pytest.fixture
async def endpoint(nursery: trio.Nursery) -> AsyncIterator[Endpoint]:
    served = Endpoint()
    served.url = await nursery.start(answered_by, served.converse)
    yield served
    nursery.cancel_scope.cancel()


@pytest.fixture
async def installed(
    guarded: Serving, client: httpx.AsyncClient, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> Serving:
    """A daemon in which the extension is installed, for `endpoint`."""
    for name in ("ALLOW_PLAIN_HTTP", "ALLOW_UNSIGNED"):
        monkeypatch.setenv(f"CORECRUXD_EXTENSIONS_{name}", "1")
    manifest = manifest_json(external_tool_endpoint=endpoint.url)
    answered = await client.post(
        f"{guarded.http}/v1/extensions/register", json={"manifest": manifest}, headers=OPERATOR
    )
    assert answered.status_code == 201, answered.text
    return guarded


async def grant(daemon: Serving, client: httpx.AsyncClient, passport: str, **terms: object) -> None:
    body = {"passport_fpr": passport, "allowed_prefixes_write": ["quotes::"], **terms}
    answered = await client.post(f"{daemon.http}/v1/extensions/{ID}/grants", json=body, headers=OPERATOR)
    assert answered.status_code == 201, answered.text


async def seen(daemon: Serving, client: httpx.AsyncClient, token: str) -> list[str]:
    """The names of the tools of extensions in an agent's list."""
    tools = (await client.post(daemon.mcp, json=LIST, headers=bearer(token))).json()["result"]["tools"]
    return [entry["name"] for entry in tools if entry["name"].startswith("ext")]


async def test_an_agent_hears_of_its_grants_and_sees_them(installed: Serving, client: httpx.AsyncClient) -> None:
    peer = await installed.dial()
    await peer.send(get("/mcp", "Accept: text/event-stream", f"Authorization: Bearer {ALICE}"))
    with trio.fail_after(PATIENT_S):
        await peer.until(b"\r\n\r\n")
        assert await seen(installed, client, ALICE) == []
        await grant(installed, client, "alice")
        await peer.until(LIST_CHANGED)
        assert await seen(installed, client, ALICE) == [TOOL]
        assert await seen(installed, client, BOB) == []
        url = f"{installed.http}/v1/extensions/{ID}/grants/alice"
        revoked = await client.delete(url, headers=OPERATOR)
        await peer.until(LIST_CHANGED)
        assert await seen(installed, client, ALICE) == []
    assert (revoked.status_code, revoked.content) == (204, b"")
    assert "content-type" not in revoked.headers
    again = await client.delete(url, headers=OPERATOR)
    assert again.status_code == 404, "a 204 leaves the connection as it should be"
    await peer.stream.aclose()


async def test_one_limit_counts_the_calls_of_both_edges(
    installed: Serving, client: httpx.AsyncClient, endpoint: Endpoint
) -> None:
    await grant(installed, client, "alice", rate_limit_per_min=2)
    url = f"{installed.http}/v1/extensions/{ID}/tools/{TOOL}/invoke"
    over_mcp = await tool(client, installed.mcp, TOOL, bearer(ALICE), topic="x")
    assert json.loads(over_mcp["result"]["content"][0]["text"])["result"] == {"topic": "x"}
    over_http = await client.post(url, json={"args": [1, None]}, headers=bearer(ALICE))
    assert over_http.json()["result"] == [1, None]
    assert [(request["tool"], request["args"], request["calling_passport_id"]) for request in endpoint.requests] == [
        (TOOL, {"topic": "x"}, "alice"),
        (TOOL, [1, None], "alice"),
    ]
    limited = await client.post(url, json={"args": {}}, headers=bearer(ALICE))
    assert (limited.status_code, limited.json()["detail"]) == (429, "rate limited (cap 2/min)")
    assert 1 <= int(limited.headers["retry-after"]) <= 60
    error = (await tool(client, installed.mcp, TOOL, bearer(ALICE)))["error"]
    assert (error["code"], "429: rate limited (cap 2/min)" in error["message"]) == (-32603, True)
    assert len(endpoint.requests) == 2
    facts = (await client.get(f"{installed.http}/v1/facts/entity/quotes::1", headers=bearer(ALICE))).json()
    assert [fact["value"] for fact in facts["facts"]] == ["1", "2"]


async def test_calls_wait_side_by_side_and_hold_up_no_others(
    installed: Serving, client: httpx.AsyncClient, endpoint: Endpoint
) -> None:
    """The endpoint answers nobody before all are there."""
    endpoint.holds = CALLS
    await grant(installed, client, "alice", rate_limit_per_min=CALLS)
    url = f"{installed.http}/v1/extensions/{ID}/tools/{TOOL}/invoke"
    statuses: list[int] = []

    async def call(number: int) -> None:
        statuses.append((await wide.post(url, json={"args": number}, headers=bearer(ALICE))).status_code)

    transport = HttpTransport(trust_env=False, limits=httpx.Limits(max_connections=CALLS))
    async with (
        httpx.AsyncClient(timeout=PATIENT_S, trust_env=False, transport=transport) as wide,
        trio.open_nursery() as callers,
    ):
        for number in range(CALLS - 1):
            callers.start_soon(call, number)
        while len(endpoint.requests) < CALLS - 1:
            assert "result" in await tool(client, installed.mcp, "get_agent_identity", bearer(BOB))
        assert not statuses
        await call(CALLS)
    assert statuses == [200] * CALLS
    assert len({request["request_id"] for request in endpoint.requests}) == CALLS
