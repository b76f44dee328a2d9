"""The listener: it accepts, sweeps for connections that are late, and drains."""

from __future__ import annotations

import errno
import socket
import ssl
import time
from collections import Counter
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from wsgiref.handlers import format_date_time

import trio
from attrs import define, field

from crux.errors import StartRefused
from crux.logs import get_logger
from crux.transport.asgi import App, Message
from crux.transport.wire.byways import Byway, SocketByway, StreamByway
from crux.transport.wire.connection import Connection
from crux.transport.wire.limits import WireCounts, WireLimits
from crux.transport.wire.states import Place

log = get_logger("crux.wire")

TURNED_AWAY = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
SWEEP_S = 1.0
ACCEPT_BACKOFF_S = 0.1
ACCEPTS_AT_ONCE = 64
CUT_GRACE_S = 0.5

# accept(2) tells of a connection that was lost before it was taken; there is another one behind it.
_LOST_BEFORE = {
    errno.ECONNABORTED,
    errno.EPROTO,
    errno.EPERM,
    errno.ENETDOWN,
    errno.ENETUNREACH,
    errno.EHOSTDOWN,
    errno.EHOSTUNREACH,
}


@define(eq=False)
class WireServer:
    """Serves one ASGI application on listening sockets, which are its own from then on, from `run` until `drain`."""

    app: App
    sockets: Sequence[socket.socket]
    limits: WireLimits = field(factory=WireLimits)
    tls: ssl.SSLContext | None = None
    counts: WireCounts = field(factory=WireCounts)
    _connections: set[Connection] = field(factory=set, init=False)
    _addresses: Counter[str] = field(factory=Counter, init=False)
    _accepting: trio.CancelScope = field(factory=trio.CancelScope, init=False)
    _over: trio.Event = field(factory=trio.Event, init=False)
    _place: Place | None = field(default=None, init=False)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until `drain` is called and every connection has ended.

        Raises `StartRefused` (in an exception group) when the application's own startup fails.
        """
        try:
            async with lifespan(self.app) as state, trio.open_nursery() as nursery:
                async with trio.open_nursery() as connections:
                    place = self._place = Place(
                        app=self.app,
                        limits=self.limits,
                        nursery=connections,
                        scheme="https" if self.tls else "http",
                        server=_address(self.sockets[0]),
                        counts=self.counts,
                        state=state,
                        stamp=_stamp(),
                    )
                    nursery.start_soon(sweep, place, self._connections)
                    await self._accept_all(place, task_status)
                nursery.cancel_scope.cancel()
        finally:
            self._close_sockets()
            self._over.set()

    async def drain(self, deadline: float) -> None:
        """Stop accepting, end feeds, finish what is in flight until `deadline` (trio's clock), then cut the rest."""
        if self._place is not None:
            self._place.draining = True
        self._accepting.cancel()
        for connection in self._connections:
            connection.drain()
        with trio.move_on_at(deadline):
            await self._over.wait()
        for connection in list(self._connections):
            await connection.cut()
        with trio.move_on_after(CUT_GRACE_S):
            await self._over.wait()

    async def _accept_all(self, place: Place, task_status: trio.TaskStatus[None]) -> None:
        with self._accepting:
            async with trio.open_nursery() as nursery:
                for listening in self.sockets:
                    listening.setblocking(False)
                    nursery.start_soon(self._accept, listening, place)
                task_status.started()
        self._close_sockets()

    async def _accept(self, listening: socket.socket, place: Place) -> None:
        """Take connections as they come. Out of files it waits and goes on: it never spins and never dies."""
        short = False
        while True:
            await trio.lowlevel.wait_readable(listening)
            try:
                for _ in range(ACCEPTS_AT_ONCE):
                    self._admit(*listening.accept(), place)
                    short = False
            except BlockingIOError:
                continue
            except OSError as error:
                if error.errno in _LOST_BEFORE:
                    continue
                # The process or the machine is out of something. It passes; connections wait in the backlog.
                self.counts.accept_failures += 1
                if not short:
                    log.warning("cannot accept connections; going on when it passes", reason=error.strerror)
                    short = True
                await trio.sleep(ACCEPT_BACKOFF_S)

    def _admit(self, peer: socket.socket, address: object, place: Place) -> None:
        peer.setblocking(False)
        client = (str(address[0]), int(address[1])) if isinstance(address, tuple) else None
        counts, limits = self.counts, self.limits
        if 0 < limits.connections <= counts.connections:
            counts.refused_connections += 1
            self._turn_away(peer)
            return
        if client is not None and 0 < limits.connections_per_address <= self._addresses[client[0]]:
            counts.refused_addresses += 1
            self._turn_away(peer)
            return
        connection = Connection(self._byway(peer), client, place)
        if client is not None:
            with suppress(OSError):  # a peer that is gone already is noticed soon enough
                peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._addresses[client[0]] += 1
        counts.accepted += 1
        counts.connections += 1
        self._connections.add(connection)
        place.nursery.start_soon(self._run, connection)

    async def _run(self, connection: Connection) -> None:
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
        stream: trio.abc.HalfCloseableStream = trio.SocketStream(trio.socket.from_stdlib_socket(peer))
        return StreamByway(trio.SSLStream(stream, self.tls, server_side=True, https_compatible=True))

    def _turn_away(self, peer: socket.socket) -> None:
        """Close; say why, in one send, where the peer takes it and would understand it."""
        if self.tls is None:
            with suppress(OSError):
                peer.send(TURNED_AWAY)
        peer.close()

    def _close_sockets(self) -> None:
        for listening in self.sockets:
            listening.close()


async def sweep(place: Place, connections: Collection[Connection]) -> None:
    """Once a second, end what is late, and renew the date that responses carry; until it is cancelled."""
    while True:
        await trio.sleep(SWEEP_S)
        place.stamp = _stamp()
        now = trio.current_time()
        for late in [each for each in connections if each.deadline <= now or each.write_deadline <= now]:
            await late.expire()


@asynccontextmanager
async def lifespan(app: App) -> AsyncIterator[dict[str, object]]:
    """Run the application's lifespan around a block (ASGI lifespan 2.0); gives the state that its requests start with.

    An application that does not know the protocol is served without it. Raises `StartRefused` when its startup fails.
    """
    state: dict[str, object] = {}
    to_app, from_server = trio.open_memory_channel[Message](1)
    to_server, from_app = trio.open_memory_channel[Message](1)
    scope = {"type": "lifespan", "asgi": {"version": "3.0", "spec_version": "2.0"}, "state": state}
    started = False

    async def run() -> None:
        async with from_server, to_server:
            try:
                await app(scope, from_server.receive, to_server.send)
            except Exception as error:
                if started:
                    log.exception("the application's lifespan failed")
                else:  # that is also how an application says that it knows no lifespan
                    log.info("the application is served without a lifespan", reason=repr(error))

    async def tell(what: str) -> str | None:
        with suppress(trio.EndOfChannel, trio.BrokenResourceError):  # it knows no lifespan, or has left it
            to_app.send_nowait({"type": f"lifespan.{what}"})
            answer = await from_app.receive()
            if answer["type"] == f"lifespan.{what}.failed":
                return str(answer.get("message", ""))
        return None

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        if (reason := await tell("startup")) is not None:
            raise StartRefused(f"the application's startup failed: {reason}")
        started = True
        yield state
        if (reason := await tell("shutdown")) is not None:
            log.error("the application's shutdown failed", reason=reason)
        nursery.cancel_scope.cancel()


def _stamp() -> bytes:
    return f"date: {format_date_time(time.time())}\r\nserver: crux\r\n".encode()


def _address(listening: socket.socket) -> tuple[str, int | None]:
    """As ASGI says it: host and port, or the path of a Unix socket."""
    name = listening.getsockname()
    return (str(name[0]), int(name[1])) if isinstance(name, tuple) else (str(name), None)
