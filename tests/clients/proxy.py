"""A TCP proxy before the MCP port, which breaks push streams as a network does."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from queue import Queue
from urllib.parse import urlsplit

import trio
from anyio.from_thread import BlockingPortal, start_blocking_portal
from attrs import define, field

from tests.clients.client import TIMEOUT_S

LOOPBACK = "127.0.0.1"
RESET = struct.pack("ii", 1, 0)  # SO_LINGER: on, for no time


@define(eq=False)
class Connection:
    """One connection of a client, and the one to the daemon that it is carried over."""

    _client: trio.SocketStream
    _daemon: trio.SocketStream
    _streams: Queue[Connection]
    _portal: BlockingPortal
    _asked: bool = field(default=False, init=False)
    _noticed: bool = field(default=True, init=False)

    def reset(self, *, noticed: bool) -> None:
        """Break it off for the client. The daemon sees its end too if `noticed`, and else goes on believing in it."""
        self._noticed = noticed
        self._portal.call(self._reset)

    async def carry(self) -> None:
        """Carry both ways, until either side ends."""
        async with self._client, self._daemon, trio.open_nursery() as nursery:
            nursery.start_soon(self._carry_requests)
            await self._carry_answers()

    async def _reset(self) -> None:
        self._client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        await self._client.aclose()

    async def _carry_requests(self) -> None:
        try:
            async for chunk in self._client:
                self._asked = chunk.startswith(b"GET ")
                await self._daemon.send_all(chunk)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        if self._noticed:
            await self._daemon.aclose()

    async def _carry_answers(self) -> None:
        try:
            async for chunk in self._daemon:
                if not self._noticed:
                    continue
                await self._client.send_all(chunk)
                if self._asked and b"text/event-stream" in chunk:
                    self._asked = False
                    self._streams.put(self)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        await self._client.aclose()


@define
class Proxy:
    url: str
    """Where the MCP endpoint is behind the proxy."""
    _streams: Queue[Connection]

    def stream(self) -> Connection:
        """The next push stream, once the daemon has opened it."""
        return self._streams.get(timeout=TIMEOUT_S)


@contextmanager
def proxy_of(url: str) -> Iterator[Proxy]:
    """A proxy of the MCP endpoint at `url`."""
    address = urlsplit(url)
    streams: Queue[Connection] = Queue()

    with start_blocking_portal("trio") as portal:

        async def carry(client: trio.SocketStream) -> None:
            assert address.port is not None
            daemon = await trio.open_tcp_stream(LOOPBACK, address.port)
            await Connection(client, daemon, streams, portal).carry()

        served, (listener,) = portal.start_task(partial(trio.serve_tcp, carry, 0, host=LOOPBACK))
        port = listener.socket.getsockname()[1]
        yield Proxy(address._replace(netloc=f"{LOOPBACK}:{port}").geturl(), streams)
        served.cancel()
