"""Which server serves a port: the lean one, or Hypercorn."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Protocol

import trio

from crux.config import ServerKind, Settings
from crux.transport.asgi import App
from crux.transport.hypercorn_server import HypercornServer
from crux.transport.wire import HeadLimits, WireCounts, WireLimits, WireServer


class Server(Protocol):
    """Serves one ASGI application on some sockets, from `run` until `drain`."""

    async def run(self, *, task_status: trio.TaskStatus[None] = ...) -> None:
        """Serve; `started` once connections are accepted. Returns when `drain` has ended the last one."""
        ...

    async def drain(self, deadline: float) -> None:
        """Stop accepting, finish what is in flight until `deadline` (trio's clock), then cut the rest."""
        ...


def server_of(
    kind: ServerKind, app: App, sockets: Sequence[socket.socket], settings: Settings, counts: WireCounts
) -> Server:
    """The server of the kind that the settings name."""
    if kind is ServerKind.HYPERCORN:
        return HypercornServer(app, sockets)
    return WireServer(app, sockets, limits=_limits(settings), counts=counts)


def _limits(settings: Settings) -> WireLimits:
    """The bounds of the listener; those on bodies and on requests in flight are `Front`'s, in the words of its port."""
    return WireLimits(
        head=HeadLimits(settings.wire_head_bytes, settings.wire_head_fields),
        body_bytes=0,
        head_s=settings.wire_head_s,
        body_grace_s=settings.wire_body_grace_s,
        body_rate=settings.wire_body_rate,
        idle_s=settings.wire_idle_s,
        write_s=settings.wire_write_s,
        connections=settings.wire_connections,
        connections_per_address=settings.wire_connections_per_address,
        inflight=0,
    )
