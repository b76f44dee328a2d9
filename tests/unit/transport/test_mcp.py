"""What of the MCP port no socket is needed for: how long a body may take, and whose call it is."""

from collections.abc import AsyncIterator

import httpx
import pytest
import trio
from trio.testing import MockClock

from crux.domain.agents import AgentRegistry
from crux.tools.registry import Services
from crux.transport.asgi import Message, Scope
from crux.transport.mcp import McpApp
from crux.transport.mcp_auth import McpAuthenticator
from tests.serving import mcp_app

BOB, EVE = "b" * 32, "e" * 32
TIMEOUT_S = 7


def mcp(services: Services, agents: str | None = None) -> McpApp:
    auth = McpAuthenticator(AgentRegistry.parse(None, agents))
    return mcp_app(services, auth, body_timeout_s=TIMEOUT_S)


def client_of(app: McpApp) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:14801")


async def test_a_body_that_does_not_come_in_time_is_given_up(
    deaf_services: Services, autojump_clock: MockClock
) -> None:
    async def stalled() -> AsyncIterator[bytes]:
        yield b"{"
        await trio.sleep_forever()

    async with client_of(mcp(deaf_services)) as client:
        answer = await client.post("/mcp", content=stalled(), headers={"Origin": "http://localhost:5173"})
    assert (answer.status_code, answer.json()["error"]) == (408, "request-timeout")
    assert "within 7 s" in answer.json()["hint"]
    assert answer.headers["access-control-allow-origin"] == "http://localhost:5173"
    assert autojump_clock.current_time() == TIMEOUT_S


@pytest.mark.parametrize(("version", "announced"), [("1.0", True), ("1.1", True), ("2", False)])
async def test_the_end_of_the_connection_is_announced_where_the_protocol_can(
    deaf_services: Services, autojump_clock: MockClock, version: str, announced: bool
) -> None:
    sent: list[Message] = []
    scope: Scope = {"type": "http", "http_version": version, "method": "POST", "path": "/mcp", "headers": []}

    async def send(message: Message) -> None:
        sent.append(message)

    await mcp(deaf_services)(scope, trio.sleep_forever, send)
    assert ((b"connection", b"close") in sent[0]["headers"]) == announced


@pytest.mark.parametrize(("token", "name"), [(BOB, "bob"), (EVE, "eve")])
async def test_a_call_is_made_as_whoever_holds_its_token(deaf_services: Services, token: str, name: str) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "get_agent_identity"}}
    async with client_of(mcp(deaf_services, f"bob:{BOB},eve:{EVE}")) as client:
        answer = await client.post("/mcp", json=body, headers={"Authorization": f"Bearer {token}"})
    assert f'"agent_name":"{name}"' in answer.json()["result"]["content"][0]["text"]
