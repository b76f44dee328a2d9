"""A daemon inside the test's own event loop, on real sockets: for tests that need to reach into it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx
import msgspec
import trio
from attrs import define

from crux import daemon
from crux.actors.mailbox import Mailbox
from crux.actors.sessions import CountStreams
from crux.actors.supervisor import RestartPolicy
from crux.composition import Composition, Resources, compose
from crux.config import Settings
from crux.daemon import Ready, serve
from crux.domain.streams import StreamLimits
from crux.domain.surface import SurfaceMode
from crux.tools.catalogue import CATALOGUE
from crux.tools.listing import Listing
from crux.tools.registry import Catalogue, Services
from crux.transport.gates import GuardPolicy
from crux.transport.mcp import McpApp
from crux.transport.mcp_auth import McpAuthenticator
from crux.transport.sse import EventStreams
from crux.transport.well_known import WellKnown
from crux.transport.wire import WireServer
from tests.wires import Client, dial

ALICE, BOB, EVE = (f"{name}-token-" + "0" * 32 for name in ("alice", "bob", "eve"))
AGENTS = f"alice:{ALICE},bob:{BOB},eve:{EVE}"
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
FACT = {"entity": "a", "key": "k", "value": "v"}


@define
class Serving:
    """A daemon that serves; `stop` begins its drain. `parts` are what it is made of."""

    ready: Ready
    stop: trio.Event
    done: trio.Event
    parts: Composition

    @property
    def http(self) -> str:
        return self.ready.http

    @property
    def mcp(self) -> str:
        assert self.ready.mcp is not None
        return self.ready.mcp

    def port(self, which: str) -> int:
        url = httpx.URL(self.http if which == "http" else self.mcp)
        assert url.port is not None
        return url.port

    async def dial(self, which: str = "mcp") -> Client:
        return await dial(self.port(which))

    @property
    def listener(self) -> WireServer:
        """The server of the MCP port, where it is our own."""
        server = self.parts.servers[1]
        assert isinstance(server, WireServer)
        return server

    async def streams(self) -> int:
        """How many push streams the daemon counts."""
        return await self.parts.mailboxes["sessions"].ask(CountStreams())


@asynccontextmanager
async def serving(
    data_dir: Path,
    *,
    policy: RestartPolicy | None = None,
    catalogue: Catalogue = CATALOGUE,
    **settings: object,
) -> AsyncIterator[Serving]:
    """Serve on free ports with `settings` over the defaults; drained when the block ends."""
    chosen = Settings(data_dir=data_dir, http_port=0, mcp_port=0, **settings)  # type: ignore[arg-type]
    stop, done, announced = trio.Event(), trio.Event(), trio.Event()
    readies: list[Ready] = []
    composed: list[Composition] = []

    def composing(given: Resources) -> Composition:
        composed.append(compose(given))
        return composed[-1]

    def announce(ready: Ready) -> None:
        readies.append(ready)
        announced.set()

    async def run() -> None:
        try:
            await serve(chosen, stop=stop, announce=announce, policy=policy, catalogue=catalogue)
        finally:
            done.set()

    async with trio.open_nursery() as nursery:
        with patch.object(daemon, "compose", composing), trio.fail_after(20):
            nursery.start_soon(run)
            await announced.wait()
        try:
            yield Serving(readies[0], stop, done, composed[0])
        finally:
            stop.set()
            with trio.CancelScope(shield=True, deadline=trio.current_time() + 20):
                await done.wait()
            nursery.cancel_scope.cancel()


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def call_of(name: object, /, **arguments: object) -> dict[str, Any]:
    """The body of a tool call."""
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}}


def encoded(body: object) -> bytes:
    return json.dumps(body, separators=(",", ":")).encode()


async def tool(
    client: httpx.AsyncClient, url: str, name: str, headers: dict[str, str] | None = None, /, **arguments: object
) -> dict[str, Any]:
    """Call a tool; the whole JSON-RPC response."""
    response = await client.post(url, json=call_of(name, **arguments), headers=headers)
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


def text_of(response: dict[str, Any]) -> dict[str, Any]:
    """The document inside a tool's answer, which is compact and all there is."""
    (item,) = response["result"]["content"]
    assert item["type"] == "text"
    assert item["text"] == msgspec.json.format(item["text"], indent=-1)
    found: dict[str, Any] = json.loads(item["text"])
    return found


def mcp_app(services: Services, auth: McpAuthenticator, *, body_timeout_s: float | None) -> McpApp:
    """The MCP port's application, without a SessionRegistry behind it."""
    return McpApp(
        services,
        auth,
        GuardPolicy(),
        0,
        record=lambda *_: None,
        listing=Listing(services.catalogue, services.router, SurfaceMode.FULL),
        streams=EventStreams(Mailbox("sessions"), StreamLimits(), watch_peers=True),
        well_known=WellKnown({}, GuardPolicy()),
        body_timeout_s=body_timeout_s,
    )
