"""Sockets that listen, for whichever server takes them."""

from __future__ import annotations

import socket
from collections.abc import Sequence

import trio

from crux.errors import StartRefused

BACKLOG = 1024


async def bind(host: str, port: int, setting: str) -> list[socket.socket]:
    """Listen on every address of `host`, at `port` (0: any free one, the same for all).

    Raises `StartRefused`, naming `setting`, where that is not possible; nothing is left open then.
    """
    opened: list[socket.socket] = []
    try:
        found = await trio.socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE | socket.AI_ADDRCONFIG
        )
        for family, _, _, _, address in dict.fromkeys(found):
            free = (address[0], port or _port(opened[0]) if opened else port, *address[2:])
            opened.append(_listen(family, free))
    except OSError as error:
        for listening in opened:
            listening.close()
        reason = error.strerror or str(error)
        raise StartRefused(f"cannot listen on {host}:{port} ({reason}); free it, or set {setting}") from error
    return opened


def address(listeners: Sequence[socket.socket]) -> str:
    """Where `listeners` can be reached, as host:port."""
    host, port = listeners[0].getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _listen(family: int, address: tuple[object, ...]) -> socket.socket:
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listening.setblocking(False)
        listening.bind(address)
        listening.listen(BACKLOG)
    except OSError:
        listening.close()
        raise
    return listening


def _port(listening: socket.socket) -> int:
    port: int = listening.getsockname()[1]
    return port
