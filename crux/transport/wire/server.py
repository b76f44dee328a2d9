"""The listener: it accepts, sweeps for connections that are late, and drains."""

from __future__ import annotations

import errno
import socket
import ssl
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from wsgiref.handlers import format_date_time

import structlog
import trio
from attrs import define, field

from crux.transport.asgi import App, Message
from crux.transport.wire.byways import Byway, SocketByway, StreamByway
from crux.transport.wire.connection import Connection
from crux.transport.wire.limits import WireCounts, WireLimits
from crux.transport.wire.states import Doing, Ended, Place

log = structlog.get_logger("crux.wire")

TURNED_AWAY = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
SWEEP_S = 1.0
ACCEPT_BACKOFF_S = 0.1
ACCEPTS_AT_ONCE = 64
CUT_GRACE_S = 0.5

# accept(2): the process or the machine is out of something; it passes, and the connection waits in the backlog.
_OUT_OF_RESOURCES = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}


@define(eq=False)
class WireServer:
    """Serves one ASGI application on some listening sockets, from `run` until `drain`."""

    app: App
    sockets: Sequence[socket.socket]
    limits: WireLimits = field(factory=WireLimits)
    tls: ssl.SSLContext | None = None
    counts: WireCounts = field(factory=WireCounts)
    _connections: set[Connection] = field(factory=set, init=False)
    _addresses: Counter[str] = field(factory=Counter, init=False)
    _accepting: trio.CancelScope = field(factory=trio.CancelScope, init=False)
    _idle: trio.Event = field(factory=trio.Event, init=False)
    _place: Place | None = field(default=None, init=False)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until `drain` is called and every connection has ended."""
        async with lifespan(self.app) as state, trio.open_nursery() as nursery:
            self._place = Place(
                app=self.app,
                limits=self.limits,
                nursery=nursery,
                scheme="https" if self.tls else "http",
                server=_address(self.sockets[0]),
                counts=self.counts,
                state=state,
                stamp=_stamp(),
            )
            nursery.start_soon(self._sweep, self._place)
            async with trio.open_nursery() as connections:
                with self._accepting:
                    async with trio.open_nursery() as accepting:
                        for listening in self.sockets:
                            accepting.start_soon(self._accept, listening, connections, self._place)
                        task_status.started()
                for listening in self.sockets:
                    listening.close()
            nursery.cancel_scope.cancel()
        self._idle.set()

    async def drain(self, deadline: float) -> None:
        """Stop accepting, end streams, finish what is in flight until `deadline` (trio's clock), then cut the rest."""
        if self._place is not None:
            self._place.draining = True
        self._accepting.cancel()
        for connection in list(self._connections):
            if connection.doing in (Doing.IDLE, Doing.STREAMING):
                connection.end(Ended.DRAINED)
        with trio.move_on_at(deadline):
            await self._idle.wait()
        for connection in list(self._connections):
            connection.cut()
        with trio.move_on_after(CUT_GRACE_S):
            await self._idle.wait()

    async def _accept(self, listening: socket.socket, nursery: trio.Nursery, place: Place) -> None:
        """Take connections as they come. Out of files it waits and goes on: it never spins and never dies."""
        while True:
            await trio.lowlevel.wait_readable(listening)
            for _ in range(ACCEPTS_AT_ONCE):
                try:
                    peer, address = listening.accept()
                except BlockingIOError:
                    break
                except OSError as error:
                    if error.errno in _OUT_OF_RESOURCES:
                        self.counts.accept_failures += 1
                        log.warning("cannot accept", reason=error.strerror)
                        await trio.sleep(ACCEPT_BACKOFF_S)
                        break
                    continue  # that connection was lost before it was taken
                self._admit(peer, address, nursery, place)

    def _admit(self, peer: socket.socket, address: object, nursery: trio.Nursery, place: Place) -> None:
        peer.setblocking(False)
        client = (str(address[0]), int(address[1])) if isinstance(address, tuple) else None
        counts, limits = self.counts, self.limits
        if 0 < limits.connections <= counts.connections:
            counts.refused_connections += 1
            _turn_away(peer)
            return
        if client is not None and 0 < limits.connections_per_address <= self._addresses[client[0]]:
            counts.refused_addresses += 1
            _turn_away(peer)
            return
        if client is not None:
            with suppress(OSError):
                peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._addresses[client[0]] += 1
        counts.accepted += 1
        counts.connections += 1
        nursery.start_soon(self._run, Connection(self._byway(peer), client, place))

    async def _run(self, connection: Connection) -> None:
        self._connections.add(connection)
        try:
            await connection.run()
        finally:
            self._connections.discard(connection)
            self.counts.connections -= 1
            if connection.client is not None:
                host = connection.client[0]
                self._addresses[host] -= 1
                if not self._addresses[host]:
                    del self._addresses[host]

    def _byway(self, peer: socket.socket) -> Byway:
        if self.tls is None:
            return SocketByway(peer)
        stream = trio.SocketStream(trio.socket.from_stdlib_socket(peer))
        return StreamByway(trio.SSLStream(stream, self.tls, server_side=True, https_compatible=True))

    async def _sweep(self, place: Place) -> None:
        """Once a second: end what is late, and renew the date that responses carry."""
        while True:
            await trio.sleep(SWEEP_S)
            place.stamp = _stamp()
            now = trio.current_time()
            for connection in [late for late in self._connections if late.deadline <= now]:
                connection.expire()


@asynccontextmanager
async def lifespan(app: App) -> AsyncIterator[dict[str, object]]:
    """Run the application's lifespan around a block (ASGI lifespan 2.0); gives the state that its requests share.

    An application that does not know the protocol is served without it.
    """
    state: dict[str, object] = {}
    to_app, from_server = trio.open_memory_channel[Message](1)
    to_server, from_app = trio.open_memory_channel[Message](1)

    async def run() -> None:
        async with to_server:
            scope = {"type": "lifespan", "asgi": {"version": "3.0", "spec_version": "2.0"}, "state": state}
            with suppress(Exception):  # that is how an application says that it knows no lifespan
                await app(scope, from_server.receive, to_server.send)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        await _tell(to_app, from_app, "startup")
        try:
            yield state
        finally:
            with trio.CancelScope(shield=True, deadline=trio.current_time() + CUT_GRACE_S):
                await _tell(to_app, from_app, "shutdown")
            nursery.cancel_scope.cancel()


_ToApp = trio.MemorySendChannel[Message]
_FromApp = trio.MemoryReceiveChannel[Message]


async def _tell(to_app: _ToApp, from_app: _FromApp, what: str) -> None:
    with suppress(trio.EndOfChannel, trio.BrokenResourceError):
        to_app.send_nowait({"type": f"lifespan.{what}"})
        answer = await from_app.receive()
        if answer["type"] == f"lifespan.{what}.failed":
            raise RuntimeError(f"the application's {what} failed: {answer.get('message', '')}")


def _turn_away(peer: socket.socket) -> None:
    """Say why in one send, if the peer takes it, and close."""
    with suppress(OSError):
        peer.send(TURNED_AWAY)
    peer.close()


def _stamp() -> bytes:
    return f"date: {format_date_time(time.time())}\r\nserver: crux\r\n".encode()


def _address(listening: socket.socket) -> tuple[str, int] | None:
    name = listening.getsockname()
    return (str(name[0]), int(name[1])) if isinstance(name, tuple) else None
