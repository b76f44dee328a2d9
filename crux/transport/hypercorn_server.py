"""Serving an ASGI application with Hypercorn's trio worker, and a drain that ends when it should.

Hypercorn shields its sends without a deadline, so a peer that never reads would hold its connection, the work for it
and a cancelled shutdown for ever. So the accept loop is ours: it keeps the peers, and cuts who is late under the send.
"""

from __future__ import annotations

import logging
import socket
import struct
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

import trio
from attrs import define, field
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.config import Config
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import WorkerContext

from crux.logs import get_logger
from crux.transport.asgi import App, Message, Receive, Scope, Send

log = get_logger("crux.hypercorn")

KEEP_ALIVE_S = 75
READ_TIMEOUT_S = 120
CUT_GRACE_S = 0.5
# Each may hold a whole answer that its peer does not read.
H2_STREAMS = 16
# How long a peer may take to read what it is sent. Some 16 MiB, a large answer, take ten seconds on a poor network; a
# peer that needs thirty reads nothing, or holds for one slow answer a slot that many quick ones wait for.
SEND_S = 30.0

# With it a close is a reset: the kernel does not keep, and try to deliver, what the peer would not read.
_NO_LINGER = struct.pack("ii", 1, 0)


@define(eq=False)
class Peer:
    """One connection: the part of a stream that Hypercorn works with, whose sends have a deadline of `send_s` seconds.

    Whatever serves the connection runs within `scope`, so that a cut ends all of it.
    """

    stream: trio.SocketStream
    send_s: float
    scope: trio.CancelScope = field(factory=trio.CancelScope, init=False)

    @property
    def socket(self) -> trio.socket.SocketType:
        """What Hypercorn asks for the addresses of both ends."""
        return self.stream.socket

    async def answer(self, send: Send, message: Message) -> None:
        """Hand Hypercorn a part of an answer; cuts a peer that keeps it waiting, as HTTP/2 lets it without a send.

        Shielded, within that deadline: with the last part Hypercorn first tells the application that the peer has left,
        and an application that cancels itself on such news (Quart-trio) would cancel Hypercorn's own end of the
        exchange.
        """
        with trio.CancelScope(deadline=trio.current_time() + self.send_s, shield=True):
            await send(message)
            return
        self.cut()
        await trio.lowlevel.checkpoint_if_cancelled()

    async def send_all(self, data: bytes) -> None:
        """Send `data`; cuts a peer that does not take all of it, and raises `BrokenResourceError`."""
        with trio.move_on_after(self.send_s):
            await self.stream.send_all(data)
            return
        self.cut()
        raise trio.BrokenResourceError(f"the peer did not read within {self.send_s:g} s")

    async def receive_some(self, max_bytes: int) -> bytes | bytearray:
        return await self.stream.receive_some(max_bytes)

    async def send_eof(self) -> None:
        await self.stream.send_eof()

    async def aclose(self) -> None:
        await self.stream.aclose()

    def cut(self) -> None:
        """Close at once, under whatever waits for the peer, and end that."""
        with suppress(OSError):  # closed already
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        self.socket.close()
        self.scope.cancel()


@define(eq=False)
class HypercornServer:
    """One listener's server: `run` serves until `drain`. A peer that needs longer than `send_s` to read is cut."""

    app: App
    sockets: Sequence[socket.socket]
    send_s: float = SEND_S
    _peers: set[Peer] = field(factory=set, init=False)
    _accepting: trio.CancelScope = field(factory=trio.CancelScope, init=False)
    _context: WorkerContext = field(factory=lambda: WorkerContext(None), init=False)
    _idle: trio.Event = field(factory=trio.Event, init=False)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until `drain` is called and every connection has ended."""
        config = Config()
        config.keep_alive_timeout = KEEP_ALIVE_S
        config.read_timeout = READ_TIMEOUT_S
        config.keep_alive_max_requests = sys.maxsize
        config.h2_max_concurrent_streams = H2_STREAMS
        config.include_server_header = False
        config.errorlog = logging.getLogger("hypercorn.error")

        async def connection(stream: trio.SocketStream) -> None:
            peer = Peer(stream, self.send_s)

            async def app(scope: Scope, receive: Receive, send: Send) -> None:
                await self.app(scope, receive, partial(peer.answer, send))

            self._peers.add(peer)
            try:
                with peer.scope:
                    wrapped = ASGIWrapper(app)  # type: ignore[arg-type]  # our events are plain mappings
                    await TCPServer(wrapped, config, self._context, {}, peer)  # type: ignore[arg-type]
            except* Exception:  # a connection that fails must not end the daemon
                log.exception("a connection failed")
            finally:
                self._peers.discard(peer)

        async with trio.open_nursery() as connections:
            with self._accepting:
                task_status.started()
                listeners = [trio.SocketListener(trio.socket.from_stdlib_socket(each)) for each in self.sockets]
                await trio.serve_listeners(connection, listeners, handler_nursery=connections)
        self._idle.set()

    async def drain(self, deadline: float) -> None:
        """Stop accepting, let what is in flight finish until `deadline` (on trio's clock), then cut what is left."""
        self._accepting.cancel()
        await self._context.terminated.set()
        with trio.move_on_at(deadline):
            await self._idle.wait()
        for peer in self._peers:
            peer.cut()
        with trio.move_on_after(CUT_GRACE_S):
            await self._idle.wait()
