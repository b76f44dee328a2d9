"""Many event streams at once: opening them, and leaving in the two ways that clients do."""

import re
import socket
import struct
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import trio
from attrs import frozen

from bench import load
from bench.failure import BenchFailed

OPENERS = 32
DEADLINE_S = 60.0

_SESSION = re.compile(rb"\r\nmcp-session-id: *([\x21-\x7e]+)", re.IGNORECASE)
# Closing a socket that lingers for no time at all resets the connection.
_RESETS = struct.pack("ii", 1, 0)


@frozen
class Opened:
    """A stream whose head has come, and the session it belongs to, where it has one."""

    stream: trio.SocketStream
    session: str | None


@asynccontextmanager
async def crowd(port: int, request: bytes, count: int) -> AsyncIterator[list[Opened]]:
    """`count` streams, each opened by `request`; those still open after the block are closed.

    Raises `BenchFailed` when one is refused, or not all are open within `DEADLINE_S` seconds.
    """
    opened: list[Opened] = []

    async def open_some(share: int) -> None:
        for _ in range(share):
            each = await _open(port, request)
            opened.append(each)

    try:
        with trio.move_on_after(DEADLINE_S) as limit:
            async with trio.open_nursery() as nursery:
                for share in shares(count, OPENERS):
                    nursery.start_soon(open_some, share)
        if limit.cancelled_caught:
            raise BenchFailed(f"{len(opened):,} of {count:,} streams opened within {DEADLINE_S:g} s")
        yield opened
    finally:
        for each in opened:
            await trio.aclose_forcefully(each.stream)


async def leave(opened: Sequence[Opened]) -> None:
    """Close every other stream cleanly, and reset the rest."""
    for number, each in enumerate(opened):
        await (_reset(each.stream) if number % 2 else each.stream.aclose())


async def abandon(port: int, request: bytes, count: int) -> None:
    """Ask for `count` streams, `OPENERS` at a time, and reset each: every other one before its answer was read."""

    async def abandon_some(share: int) -> None:
        for number in range(share):
            if number % 2:
                await _reset((await _open(port, request)).stream)
            else:
                await _reset(await _ask(port, request))

    async with trio.open_nursery() as nursery:
        for share in shares(count, OPENERS):
            nursery.start_soon(abandon_some, share)


async def hear(stream: trio.SocketStream, wanted: bytes) -> bytes:
    """What a stream says up to `wanted` and perhaps beyond; raises `BenchFailed` when it ends before that."""
    heard = b""
    while wanted not in heard:
        try:
            part = await stream.receive_some()
        except trio.BrokenResourceError as error:
            raise BenchFailed(f"a stream was reset before {wanted!r} came") from error
        if not part:
            raise BenchFailed(f"a stream ended before {wanted!r} came: {heard[-300:]!r}")
        heard += part
    return heard


def shares(count: int, among: int) -> list[int]:
    """`count` cut into as many whole numbers as even as can be."""
    return [count // among + (number < count % among) for number in range(among)]


def session_of(head: bytes) -> str | None:
    """The session id in an answer's head; raises `BenchFailed` for an answer that is not 200."""
    if not head.startswith(b"HTTP/1.1 200"):
        raise BenchFailed(f"a stream was refused: {head[:300]!r}")
    found = _SESSION.search(head)
    return None if found is None else found[1].decode()


async def _ask(port: int, request: bytes) -> trio.SocketStream:
    try:
        stream = await trio.open_tcp_stream(load.HOST, port)
        await stream.send_all(request)
    except (OSError, trio.BrokenResourceError) as error:
        raise BenchFailed(f"a stream could not be asked for: {error}") from error
    return stream


async def _open(port: int, request: bytes) -> Opened:
    stream = await _ask(port, request)
    return Opened(stream, session_of(await hear(stream, b"\r\n\r\n")))


async def _reset(stream: trio.SocketStream) -> None:
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESETS)
    await stream.aclose()
