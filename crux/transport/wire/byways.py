"""How bytes get to and from a peer: a plain socket, or any stream of trio (TLS, memory)."""

from __future__ import annotations

import socket
from typing import Protocol

import trio

MOST_AT_ONCE = 64 * 1024


class Byway(Protocol):
    """A two-way channel of bytes. All raise `OSError` or `trio.BrokenResourceError` when the peer is gone."""

    async def read(self) -> bytes:
        """What the peer sent next, at most `MOST_AT_ONCE` bytes; empty when it has ended its side."""
        ...

    def try_write(self, data: bytes) -> int:
        """How many bytes of `data` could be handed over at once, without waiting."""
        ...

    async def write(self, data: memoryview) -> int:
        """Wait until the peer reads, and hand over some of `data`; how many bytes."""
        ...

    def write_eof(self) -> None:
        """Tell the peer that nothing more comes, where the channel can say so."""
        ...

    def close(self) -> None:
        """Close at once, also under a read or write that waits."""
        ...


class SocketByway:
    """A plain non-blocking socket. It costs one trip through the scheduler a request, and a send that fits costs
    none."""

    __slots__ = ("_socket",)

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected

    async def read(self) -> bytes:
        while True:
            await trio.lowlevel.wait_readable(self._socket)
            try:
                return self._socket.recv(MOST_AT_ONCE)
            except BlockingIOError:
                continue

    def try_write(self, data: bytes) -> int:
        try:
            return self._socket.send(data)
        except BlockingIOError:
            return 0

    async def write(self, data: memoryview) -> int:
        while True:
            await trio.lowlevel.wait_writable(self._socket)
            try:
                return self._socket.send(data)
            except BlockingIOError:
                continue

    def write_eof(self) -> None:
        self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        if self._socket.fileno() >= 0:
            trio.lowlevel.notify_closing(self._socket)
            self._socket.close()


class StreamByway:
    """Any stream of trio."""

    __slots__ = ("_closed", "_stream")

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self._closed = False

    async def read(self) -> bytes:
        return bytes(await self._stream.receive_some(MOST_AT_ONCE))

    def try_write(self, data: bytes) -> int:
        return 0

    async def write(self, data: memoryview) -> int:
        part = data[:MOST_AT_ONCE]
        await self._stream.send_all(part)
        return len(part)

    def write_eof(self) -> None:
        """Not every stream can; closing says it soon enough."""

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            trio.lowlevel.spawn_system_task(trio.aclose_forcefully, self._stream)
