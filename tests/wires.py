"""Peers for the tests of the wire: what they send is raw bytes, and h11 reads what comes back."""

from __future__ import annotations

import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import h11
import trio
from attrs import define, field, frozen
from trio.testing import lockstep_stream_pair, memory_stream_pair

from crux.transport.asgi import App, Message, Receive, Scope, Send
from crux.transport.listening import bind
from crux.transport.wire import WireCounts, WireLimits, WireServer
from crux.transport.wire.byways import StreamByway
from crux.transport.wire.connection import Connection
from crux.transport.wire.server import SWEEP_S, sweep
from crux.transport.wire.states import Place

LONGER_THAN_ANY_TEST_S = 2000.0
STAMP = b"date: Tue, 30 Nov 2027 00:00:00 GMT\r\nserver: crux\r\n"


@frozen
class Answer:
    """One response, read to its end."""

    status: int
    headers: dict[str, str]
    body: bytes


@define
class Client:
    """A peer's end of a connection."""

    stream: trio.abc.Stream
    _ahead: bytes = field(default=b"", init=False)

    async def send(self, data: bytes) -> None:
        await self.stream.send_all(data)

    async def answer(self, method: str = "GET") -> Answer:
        """The next response. Raises `h11.RemoteProtocolError` for one that ends before it should."""
        reading = h11.Connection(h11.CLIENT)
        reading.send(h11.Request(method=method, target="/", headers=[("host", "localhost")]))
        head: h11.Response | None = None
        body = b""
        if self._ahead:
            reading.receive_data(self._ahead)
        while True:
            match reading.next_event():
                case h11.NEED_DATA:
                    reading.receive_data(bytes(await self.stream.receive_some()))
                case h11.Response() as response:
                    head = response
                case h11.Data(data=part):
                    body += part
                case h11.EndOfMessage():
                    break
                case unexpected:
                    raise AssertionError(unexpected)
        self._ahead, _ = reading.trailing_data
        assert head is not None
        return Answer(head.status_code, {name.decode(): value.decode() for name, value in head.headers}, body)

    async def ask(self, data: bytes, method: str = "GET") -> Answer:
        await self.send(data)
        return await self.answer(method)

    async def until(self, wanted: bytes) -> bytes:
        """What comes, up to and with `wanted`."""
        while wanted not in self._ahead:
            part = await self.stream.receive_some()
            assert part, f"it ended after {self._ahead!r}"
            self._ahead += part
        end = self._ahead.index(wanted) + len(wanted)
        taken, self._ahead = self._ahead[:end], self._ahead[end:]
        return taken

    async def rest(self) -> bytes:
        """All that comes until the connection ends."""
        taken, self._ahead = self._ahead, b""
        while part := await self.stream.receive_some():
            taken += part
        return taken

    def reset(self) -> None:
        assert isinstance(self.stream, trio.SocketStream)
        reset(self.stream.socket)


def reset(end: socket.socket | trio.socket.SocketType) -> None:
    """Close with a RST."""
    end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # linger, but for no time
    end.close()


@define
class Wired:
    """One connection of the server, without a socket."""

    client: Client
    connection: Connection
    place: Place
    done: trio.Event = field(factory=trio.Event)

    @property
    def counts(self) -> WireCounts:
        return self.place.counts


async def ended_after(wire: Wired, seconds: float) -> bool:
    """Whether the connection ends after so many seconds, give or take the sweep."""
    began = trio.current_time()
    await wire.done.wait()
    return seconds <= trio.current_time() - began <= seconds + SWEEP_S


@asynccontextmanager
async def wired(
    app: App, limits: WireLimits | None = None, *, lockstep: bool = False, byway: type[StreamByway] = StreamByway
) -> AsyncIterator[Wired]:
    """A connection over memory that is served and swept. On `lockstep` a send waits until all of it is read."""
    ours, theirs = lockstep_stream_pair() if lockstep else memory_stream_pair()
    with trio.fail_after(LONGER_THAN_ANY_TEST_S):
        async with trio.open_nursery() as nursery:
            place = Place(
                app=app, limits=limits or WireLimits(), nursery=nursery, stamp=STAMP, server=("127.0.0.1", 14801)
            )
            connection = Connection(byway(theirs), ("127.0.0.1", 40000), place)
            found = Wired(Client(ours), connection, place)

            async def run() -> None:
                await connection.run()
                found.done.set()

            nursery.start_soon(run)
            nursery.start_soon(sweep, place, {connection})
            yield found
            nursery.cancel_scope.cancel()


@asynccontextmanager
async def listening(server: WireServer) -> AsyncIterator[int]:
    """Run a server until the block ends; its port."""
    port = server.sockets[0].getsockname()[1]
    async with trio.open_nursery() as nursery:
        await nursery.start(server.run)
        yield port
        nursery.cancel_scope.cancel()


def requests_only(app: App) -> App:
    """An application for requests as one that may be asked about its lifespan."""

    async def both(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await app(scope, receive, send)

    return both


async def server_of(app: App, limits: WireLimits | None = None, *, host: str = "127.0.0.1") -> WireServer:
    """A server on a free port, for an application that knows only requests."""
    return WireServer(requests_only(app), await bind(host, 0, "PORT"), limits or WireLimits())


def unix_socket(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()
    return listener


async def dial(port: int, host: str = "127.0.0.1") -> Client:
    return Client(await trio.open_tcp_stream(host, port))


def get(path: str = "/", *fields: str, version: str = "1.1") -> bytes:
    """The bytes of a GET."""
    return "\r\n".join([f"GET {path} HTTP/{version}", "Host: localhost", *fields, "", ""]).encode()


def post(body: bytes, *fields: str, path: str = "/") -> bytes:
    """The bytes of a POST whose length is declared."""
    head = [f"POST {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}", *fields, "", ""]
    return "\r\n".join(head).encode() + body


def chunked(*parts: bytes) -> bytes:
    """The bytes of a POST in chunks."""
    head = b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head + b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (*parts, b""))


def start(*headers: tuple[bytes, bytes], status: int = 200) -> Message:
    return {"type": "http.response.start", "status": status, "headers": list(headers)}


def part(body: bytes = b"", *, more: bool = False) -> Message:
    return {"type": "http.response.body", "body": body, "more_body": more}


FEED = start((b"content-type", b"text/event-stream"))


async def body_of(receive: Receive) -> bytes | None:
    """The whole body, or nothing where the peer left before its end."""
    taken = b""
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        taken += bytes(message["body"])
        if not message["more_body"]:
            return taken


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers with the method, the path and the body."""
    body = await body_of(receive)
    if body is not None:
        await send(start())
        await send(part(f"{scope['method']} {scope['path']} ".encode() + body))


async def endless_feed(scope: Scope, receive: Receive, send: Send) -> None:
    """Sends one comment, and then nothing, for ever."""
    await send(FEED)
    await send(part(b":\n\n", more=True))
    await trio.sleep_forever()


@define
class Slow:
    """An application that takes its time for an answer."""

    seconds: float = 5
    answer: bytes = b"done"
    finished: bool = False
    told: bool = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await body_of(receive)
        await trio.sleep(self.seconds)
        try:
            await send(start())
            await send(part(self.answer))
        except OSError:
            self.told = True
        self.finished = True


@define
class Streams:
    """An application that streams for ever, once a second."""

    headers: tuple[tuple[bytes, bytes], ...] = ()
    each: bytes = b"x"
    cancelled: trio.Event = field(factory=trio.Event)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await send(start(*self.headers))
            while True:
                await send(part(self.each, more=True))
                await trio.sleep(1)
        except trio.Cancelled:
            self.cancelled.set()
            raise


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition that another task brings about."""
    with trio.fail_after(10):
        while not condition():
            await trio.lowlevel.checkpoint()
