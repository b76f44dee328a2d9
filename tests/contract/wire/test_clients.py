"""Real sockets: what an HTTP client library and raw bytes get, over IPv4, IPv6, Unix sockets and TLS."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
import trio
from attrs import frozen
from trio.testing import MockClock

from crux.transport.asgi import Receive, Scope, Send
from crux.transport.wire import WireLimits, WireServer
from tests.certificates import Certificate, certificate
from tests.wires import (
    FEED,
    Client,
    Streams,
    body_of,
    dial,
    echo,
    endless_feed,
    get,
    listening,
    part,
    post,
    requests_only,
    server_of,
    start,
    unix_socket,
    until,
)

LARGE = 3_000_000


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    """Echoes; under /stream part by part, as the parts come; under /feed events for ever."""
    match scope["path"]:
        case "/stream":
            await send(start())
            while (message := await receive())["more_body"]:
                await send(part(message["body"], more=True))
            await send(part(message["body"]))
        case "/feed":
            await Streams((FEED["headers"][0],), each=b"data: x\n\n")(scope, receive, send)
        case "/known":
            await send(start((b"content-length", b"%d" % LARGE)))
            await send(part(b"x" * LARGE))
        case _:
            await echo(scope, receive, send)


@frozen
class Way:
    """A way to the server, as httpx takes it."""

    base_url: str
    transport: Callable[[], httpx.AsyncHTTPTransport]


@pytest.fixture(scope="module")
def cert() -> Certificate:
    return certificate("localhost")


@asynccontextmanager
async def way_of(kind: str, directory: Path, cert: Certificate) -> AsyncIterator[tuple[WireServer, Way]]:
    if kind == "unix":
        path = directory / "crux"
        server = WireServer(requests_only(application), [unix_socket(path)])
        way = Way("http://localhost", lambda: httpx.AsyncHTTPTransport(uds=str(path)))
    else:
        host = "::1" if kind == "ipv6" else "127.0.0.1"
        server = await server_of(application, host=host)
        port = server.sockets[0].getsockname()[1]
        if kind == "tls":
            server.tls = cert.server
            way = Way(f"https://localhost:{port}", lambda: httpx.AsyncHTTPTransport(verify=cert.client))
        else:
            way = Way(f"http://{f'[{host}]' if kind == 'ipv6' else host}:{port}", httpx.AsyncHTTPTransport)
    async with trio.open_nursery() as nursery:
        await nursery.start(server.run)
        yield server, way
        with trio.fail_after(5):
            await server.drain(trio.current_time() + 5)


@pytest.fixture(params=["ipv4", "ipv6", "unix", "tls"])
async def served(
    request: pytest.FixtureRequest, tmp_path: Path, cert: Certificate
) -> AsyncIterator[tuple[WireServer, httpx.AsyncClient]]:
    async with (
        way_of(request.param, tmp_path, cert) as (server, way),
        httpx.AsyncClient(transport=way.transport(), base_url=way.base_url, trust_env=False) as client,
    ):
        yield server, client


Served = tuple[WireServer, httpx.AsyncClient]


class TestHttpx:
    async def test_calls_share_a_connection(self, served: Served) -> None:
        server, client = served
        for body in (b"", b"body", b"x" * LARGE):
            answer = await client.post("/path", content=body)
            assert answer.content == b"POST /path " + body
        assert (await client.get("/path")).headers["server"] == "crux"
        assert (await client.head("/path")).content == b""
        assert server.counts.accepted == 1

    async def test_many_calls_at_once(self, served: Served) -> None:
        _, client = served

        async def call(number: int) -> None:
            assert (await client.post(f"/{number}", content=b"x")).content == f"POST /{number} x".encode()

        async with trio.open_nursery() as nursery:
            for number in range(100):
                nursery.start_soon(call, number)

    async def test_a_body_is_streamed_both_ways(self, served: Served) -> None:
        async def body() -> AsyncIterator[bytes]:
            for number in range(100):
                yield b"%d," % number * 100

        _, client = served
        async with client.stream("POST", "/stream", content=body()) as answer:
            assert answer.headers["transfer-encoding"] == "chunked"
            received = b"".join([chunk async for chunk in answer.aiter_raw()])
        assert received == b"".join([chunk async for chunk in body()])

    async def test_a_large_answer_arrives_whole(self, served: Served) -> None:
        _, client = served
        assert len((await client.get("/known")).content) == LARGE

    async def test_a_feed_ends_when_its_reader_goes(self, served: Served) -> None:
        async def read() -> None:
            async with client.stream("GET", "/feed") as answer:
                async for event in answer.aiter_raw():
                    assert event == b"data: x\n\n"
                    read_one.set()

        server, client = served
        read_one = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            await read_one.wait()
            assert server.counts.streams == 1
            nursery.cancel_scope.cancel()
        await until(lambda: server.counts.streams == 0)

    async def test_a_feed_ends_properly_when_the_server_stops(self, served: Served) -> None:
        server, client = served
        async with client.stream("GET", "/feed") as answer, trio.open_nursery() as nursery:
            events = answer.aiter_raw()
            await anext(events)
            nursery.start_soon(server.drain, trio.current_time() + 5)
            with trio.fail_after(2):
                assert [event async for event in events] == []
        await client.aclose()

    async def test_a_refusal_is_seen_by_a_client_that_sends_on(self, served: Served) -> None:
        async def body() -> AsyncIterator[bytes]:
            for _ in range(100):
                yield b"x" * 100_000

        server, client = served
        server.limits = WireLimits(body_bytes=1_000_000)
        assert server._place is not None
        server._place.limits = server.limits
        assert (await client.post("/", content=body())).status_code == 413
        assert (await client.post("/", content=b"x" * 5_000_000)).status_code == 413
        assert server.counts.large_bodies == 2


class TestTls:
    @pytest.fixture
    async def port(self, cert: Certificate) -> AsyncIterator[int]:
        server = await server_of(application, WireLimits(connections=20))
        server.tls = cert.server
        async with listening(server) as port:
            yield port

    async def test_applications_see_the_scheme(self, cert: Certificate) -> None:
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await send(start())
            await send(part(scope["scheme"].encode()))

        server = await server_of(app)
        server.tls = cert.server
        async with listening(server) as port:
            client = await dial_tls(port, cert)
            assert (await client.ask(get())).body == b"https"
            await client.stream.aclose()

    async def test_an_answer_that_ends_with_the_connection_ends_at_once(self, port: int, cert: Certificate) -> None:
        client = await dial_tls(port, cert)
        with trio.fail_after(1):
            assert (await client.ask(post(b"body", path="/stream").replace(b"1.1", b"1.0"))).body == b"body"
            assert await client.rest() == b""
        await client.stream.aclose()

    async def test_what_is_no_tls_harms_nobody(self, port: int, cert: Certificate) -> None:
        plain = await dial(port)
        await plain.send(get())
        await plain.rest()
        await plain.stream.aclose()
        client = await dial_tls(port, cert)
        assert (await client.ask(get())).status == 200
        await client.stream.aclose()

    async def test_peers_above_a_limit_are_only_hung_up_on(self, port: int, cert: Certificate) -> None:
        idle = [await dial(port) for _ in range(20)]
        refused = await dial(port)
        assert await refused.rest() == b""
        for client in (*idle, refused):
            await client.stream.aclose()

    async def test_a_handshake_that_does_not_come_is_late(self, cert: Certificate, autojump_clock: MockClock) -> None:
        server = await server_of(application)
        server.tls = cert.server
        async with listening(server) as port:
            silent = await dial(port)
            assert await silent.rest() == b""
            assert server.counts.idle_closed == 1
            await silent.stream.aclose()

    async def test_a_head_that_does_not_come_is_told_so(self, cert: Certificate, autojump_clock: MockClock) -> None:
        server = await server_of(application)
        server.tls = cert.server
        async with listening(server) as port:
            client = await dial_tls(port, cert)
            await client.send(get()[:-1])
            assert (await client.answer()).status == 408
            await client.stream.aclose()

    async def test_a_peer_that_does_not_read_is_cut(self, cert: Certificate, autojump_clock: MockClock) -> None:
        app = Streams(each=b"x" * LARGE)
        server = await server_of(app)
        server.tls = cert.server
        async with listening(server) as port:
            client = await dial_tls(port, cert)
            await client.send(get())
            await app.cancelled.wait()
            assert server.counts.stuck_writes == 1
            await client.stream.aclose()


async def dial_tls(port: int, cert: Certificate) -> Client:
    stream = await trio.open_tcp_stream("127.0.0.1", port)
    return Client(trio.SSLStream(stream, cert.client, server_hostname="localhost", https_compatible=True))


class TestRawBytes:
    async def test_a_peer_that_resets_harms_nobody(self) -> None:
        server = await server_of(endless_feed)
        async with listening(server) as port:
            for request in (b"", get()[:-2], get(), post(b"x")[:-1]):
                client = await dial(port)
                await client.send(request)
                if request == get():
                    await client.until(b":\n\n")
                client.reset()
            await until(lambda: server.counts.accepted == 4 and server.counts.connections == 0)
            assert server.counts.streams == server.counts.inflight == server.counts.app_failures == 0

    async def test_an_answer_to_a_peer_that_reset_is_dropped(self) -> None:
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await body_of(receive)
            asked.set()
            await answer.wait()
            await send(start())
            with pytest.raises(OSError, match="left"):
                await send(part(b"x"))
            finished.set()

        asked, answer, finished = trio.Event(), trio.Event(), trio.Event()
        server = await server_of(app)
        async with listening(server) as port:
            client = await dial(port)
            await client.send(get())
            await asked.wait()
            client.reset()
            answer.set()
            await finished.wait()
            await until(lambda: server.counts.connections == 0)
            assert server.counts.app_failures == 0

    async def test_a_peer_that_does_not_read_is_cut(self, autojump_clock: MockClock) -> None:
        app = Streams(each=b"x" * LARGE)
        server = await server_of(app)
        async with listening(server) as port:
            client = await dial(port)
            await client.send(get())
            await app.cancelled.wait()
            assert server.counts.stuck_writes == 1
            await client.stream.aclose()
