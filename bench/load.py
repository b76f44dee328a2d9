"""The load generator: keep-alive HTTP/1.1 over raw sockets, as cheap as Python on trio allows.

It sends prepared bytes and reads nothing of an answer but its status, length and a proof that the answer is the right
one. What it can do at most is measured beside the servers (the row "ceiling"), so that a server near it is recognised.
"""

import re
import socket
from collections.abc import Iterator
from time import perf_counter

import trio

from bench.failure import BenchFailed

HOST = "127.0.0.1"
ANSWER_DEADLINE_S = 15.0

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_CLOSE = re.compile(rb"\r\nconnection: *close", re.IGNORECASE)
_HEAD_LIMIT = 16_384


def post(port: int, body: bytes, session: str | None = None) -> bytes:
    """The bytes of one `POST /mcp`, with the headers an MCP client sends, in a session or in none."""
    head = (
        f"POST /mcp HTTP/1.1\r\nHost: {HOST}:{port}\r\nContent-Type: application/json\r\n"
        "Accept: application/json, text/event-stream\r\nMcp-Protocol-Version: 2025-06-18\r\n"
        f"{_of(session)}Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def get(port: int, path: str) -> bytes:
    """The bytes of one GET."""
    return f"GET {path} HTTP/1.1\r\nHost: {HOST}:{port}\r\n\r\n".encode()


def get_stream(port: int, path: str, session: str | None = None) -> bytes:
    """The bytes of one GET of an event stream, as an MCP client sends it."""
    return (
        f"GET {path} HTTP/1.1\r\nHost: {HOST}:{port}\r\nAccept: text/event-stream\r\n"
        f"Mcp-Protocol-Version: 2025-06-18\r\n{_of(session)}\r\n"
    ).encode()


class Connection:
    """One keep-alive connection with one request under way at a time.

    After an answer that ends the connection (RFC 9112 9.6) the next exchange opens another one. Close it after use.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._socket: socket.socket | None = None

    async def exchange(self, request: bytes) -> bytes:
        """Send one request and return the body of its answer.

        Raises `BenchFailed` for a status other than 200, an answer without `Content-Length` or one cut short, and where
        nobody listens. A cancelled exchange leaves the connection unusable.
        """
        try:
            return await self._exchange(request)
        except OSError as error:
            raise BenchFailed(f"port {self._port}: {error}") from error

    async def ask(self, request: bytes) -> bytes:
        """`exchange`, which also raises `BenchFailed` when the answer takes longer than `ANSWER_DEADLINE_S` seconds."""
        try:
            with trio.fail_after(ANSWER_DEADLINE_S):
                return await self.exchange(request)
        except trio.TooSlowError as late:
            raise BenchFailed(f"port {self._port}: no answer within {ANSWER_DEADLINE_S:g} s") from late

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    async def _exchange(self, request: bytes) -> bytes:
        if self._socket is None:
            self._socket = await _connect(self._port)
        peer = self._socket
        await _send(peer, request)
        data = await _receive(peer)
        while (head_end := data.find(b"\r\n\r\n")) < 0:
            if len(data) > _HEAD_LIMIT:
                raise BenchFailed(f"port {self._port}: no end of the head in {len(data)} bytes")
            data += await _receive(peer)
        head = data[:head_end]
        length = _LENGTH.search(head)
        if length is None or not head.startswith(b"HTTP/1.1 200"):
            raise BenchFailed(f"port {self._port}: expected 200 and a Content-Length, got {data[:600]!r}")
        answer_end = head_end + 4 + int(length[1])
        while len(data) < answer_end:
            data += await _receive(peer)
        if len(data) > answer_end:
            raise BenchFailed(f"port {self._port}: bytes after the answer: {data[answer_end:][:80]!r}")
        if _CLOSE.search(head):
            self.close()
        return data[head_end + 4 :]


async def drive(
    port: int, requests: Iterator[bytes], proof: bytes, *, concurrency: int, seconds: float, warmup_s: float
) -> list[float]:
    """Keep `concurrency` requests under way; the latencies (s) of what completes in `seconds` after a warm-up.

    Raises `BenchFailed` for an answer without the bytes `proof`, and when there is nothing to count.
    """
    latencies: list[float] = []
    begin = perf_counter() + warmup_s
    end = begin + seconds

    async def client() -> None:
        connection = Connection(port)
        try:
            sent = perf_counter()
            while sent < end:
                body = await connection.exchange(next(requests))
                done = perf_counter()
                _require(proof, body)
                if begin <= done < end:
                    latencies.append(done - sent)
                sent = done
        finally:
            connection.close()

    with trio.move_on_after(warmup_s + seconds + ANSWER_DEADLINE_S) as limit:
        async with trio.open_nursery() as nursery:
            for _ in range(concurrency):
                nursery.start_soon(client)
    if limit.cancelled_caught:
        raise BenchFailed(f"port {port}: an answer did not come within {ANSWER_DEADLINE_S:g} s")
    if not latencies:
        raise BenchFailed(f"port {port}: no answer within {seconds:g} s")
    return latencies


async def ask_once(port: int, request: bytes) -> bytes:
    """One exchange on a connection of its own."""
    connection = Connection(port)
    try:
        return await connection.ask(request)
    finally:
        connection.close()


async def ask_each(port: int, requests: Iterator[bytes], proof: bytes, *, concurrency: int) -> None:
    """Send every request once, `concurrency` at a time; raises `BenchFailed` for an answer without `proof`."""

    async def client() -> None:
        connection = Connection(port)
        try:
            for request in requests:
                _require(proof, await connection.ask(request))
        finally:
            connection.close()

    async with trio.open_nursery() as nursery:
        for _ in range(concurrency):
            nursery.start_soon(client)


def _of(session: str | None) -> str:
    return "" if session is None else f"Mcp-Session-Id: {session}\r\n"


def _require(proof: bytes, body: bytes) -> None:
    if proof not in body:
        raise BenchFailed(f"{proof!r} is not in the answer {body[:300]!r}")


async def _connect(port: int) -> socket.socket:
    stream = trio.socket.socket()
    try:
        await stream.connect((HOST, port))
        plain = socket.socket(fileno=stream.detach())
    except BaseException:
        stream.close()
        raise
    plain.setblocking(False)
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return plain


async def _send(peer: socket.socket, data: bytes) -> None:
    # trio's own sockets pass through the scheduler even when the kernel takes all at once; a small request always fits.
    try:
        sent = peer.send(data)
    except BlockingIOError:
        sent = 0
    while sent < len(data):
        await trio.lowlevel.wait_writable(peer)
        sent += peer.send(data[sent:])


async def _receive(peer: socket.socket) -> bytes:
    await trio.lowlevel.wait_readable(peer)
    data = peer.recv(65_536)
    if not data:
        raise BenchFailed("the server closed the connection before its answer was complete")
    return data
