"""How bytes get to and from a peer: a plain socket, or a stream of trio (TLS, memory)."""

from __future__ import annotations

import socket
from typing import Protocol

import trio

MOST_AT_ONCE = 64 * 1024


class Byway(Protocol):
    """A two-way channel of bytes. All but `close` raise one of `states.LEFT` when the peer is gone."""

    async def read(self) -> bytes:
        """What the peer sent next, at most `MOST_AT_ONCE` bytes; empty when it has ended its side."""
        ...

    def try_write(self, data: bytes) -> int:
        """How many bytes of `data` could be handed over at once, without waiting."""
        ...

    async def write(self, data: memoryview) -> int:
        """Wait until the peer reads, and hand over some of `data`; how many bytes. Cancelled, it may have sent some."""
        ...

    async def write_eof(self) -> None:
        """Tell the peer that nothing more comes."""
        ...

    async def close(self) -> None:
        """Close at once, also under a read or write that waits, which raises then. Closing again does nothing."""
        ...


class SocketByway:
    """A plain non-blocking socket. It costs one trip through the scheduler a request, and a send that fits costs
    none."""

    __slots__ = ("_closed", "_socket")

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self._closed = False

    async def read(self) -> bytes:
        while True:
            if self._closed:
                raise trio.ClosedResourceError("the connection was closed here")
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
            if self._closed:
                raise trio.ClosedResourceError("the connection was closed here")
            await trio.lowlevel.wait_writable(self._socket)
            try:
                return self._socket.send(data)
            except BlockingIOError:
                continue

    async def write_eof(self) -> None:
        self._socket.shutdown(socket.SHUT_WR)

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            trio.lowlevel.notify_closing(self._socket)
            self._socket.close()


class StreamByway:
    """A stream of trio that can be ended on one side, or TLS over one."""

    __slots__ = ("_stream",)

    def __init__(self, stream: trio.abc.HalfCloseableStream | trio.SSLStream[trio.abc.HalfCloseableStream]) -> None:
        self._stream = stream

    async def read(self) -> bytes:
        return bytes(await self._stream.receive_some(MOST_AT_ONCE))

    def try_write(self, data: bytes) -> int:
        return 0

    async def write(self, data: memoryview) -> int:
        part = data[:MOST_AT_ONCE]
        await self._stream.send_all(part)
        return len(part)

    async def write_eof(self) -> None:
        """Under TLS it is the transport that ends: what is whole, HTTP's own framing says (RFC 9112 section 9.8)."""
        stream = self._stream.transport_stream if isinstance(self._stream, trio.SSLStream) else self._stream
        await stream.send_eof()

    async def close(self) -> None:
        await trio.aclose_forcefully(self._stream)
