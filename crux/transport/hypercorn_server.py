"""Serving an ASGI application with Hypercorn's trio worker, and a drain that ends when it should.

Hypercorn shields its sends without a deadline, so a peer that never reads would hold a cancelled connection for ever.
So the accept loop is ours: it keeps the streams, and at the deadline it closes them under the stuck sends.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence

import trio
from attrs import define, field
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.config import Config
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import WorkerContext

from crux.errors import StartRefused
from crux.transport.asgi import App

BACKLOG = 1024
KEEP_ALIVE_S = 75
READ_TIMEOUT_S = 120
CUT_GRACE_S = 0.5


async def bind(host: str, port: int, setting: str) -> list[trio.SocketListener]:
    """Listen on `host` and `port` (0: any free one). Raises `StartRefused` naming `setting` where that is not
    possible."""
    try:
        return await trio.open_tcp_listeners(port, host=host, backlog=BACKLOG)
    except OSError as error:
        reason = error.strerror or str(error)
        raise StartRefused(f"cannot listen on {host}:{port} ({reason}); free it, or set {setting}") from error


def address(listeners: Sequence[trio.SocketListener]) -> str:
    """Where `listeners` can be reached, as host:port."""
    host, port = listeners[0].socket.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


@define
class HypercornServer:
    """One listener's server: `run` serves until `drain`."""

    app: App
    listeners: Sequence[trio.SocketListener]
    _streams: set[trio.SocketStream] = field(factory=set, init=False)
    _accepting: trio.CancelScope = field(factory=trio.CancelScope, init=False)
    _context: WorkerContext = field(factory=lambda: WorkerContext(None), init=False)
    _idle: trio.Event = field(factory=trio.Event, init=False)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until `drain` is called and every connection has ended."""
        config = Config()
        config.keep_alive_timeout = KEEP_ALIVE_S
        config.read_timeout = READ_TIMEOUT_S
        config.keep_alive_max_requests = sys.maxsize
        config.include_server_header = False
        config.errorlog = logging.getLogger("hypercorn.error")
        app = ASGIWrapper(self.app)  # type: ignore[arg-type]  # our events are plain mappings

        async def connection(stream: trio.SocketStream) -> None:
            self._streams.add(stream)
            try:
                await TCPServer(app, config, self._context, {}, stream)  # type: ignore[arg-type]
            finally:
                self._streams.discard(stream)

        async with trio.open_nursery() as connections:
            with self._accepting:
                task_status.started()
                await trio.serve_listeners(connection, list(self.listeners), handler_nursery=connections)
        self._idle.set()

    async def drain(self, deadline: float) -> None:
        """Stop accepting, let what is in flight finish until `deadline` (on trio's clock), then cut what is left."""
        self._accepting.cancel()
        await self._context.terminated.set()
        with trio.move_on_at(deadline):
            await self._idle.wait()
        if self._streams:
            for stream in list(self._streams):
                await trio.aclose_forcefully(stream)
            with trio.move_on_after(CUT_GRACE_S):
                await self._idle.wait()
