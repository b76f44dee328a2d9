"""Quart-trio on the wire: an application with two tasks a request, streams both ways, and the HTTP API itself."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import cast

import httpx
import pytest
import trio
from attrs import define, field
from quart import Response, request
from quart.typing import ResponseReturnValue
from quart_trio import QuartTrio

from crux.transport.asgi import App
from crux.transport.listening import bind
from crux.transport.rest import correlated, create_app
from crux.transport.wire import WireServer
from tests.conftest import Stack
from tests.contract.rest.conftest import EVERY_SCOPE, api_on
from tests.wires import dial, get, listening, post, server_of, until


@define
class Quart:
    """An application of Quart's, and what it has noted."""

    app: QuartTrio = field(factory=lambda: QuartTrio(__name__))
    served: list[str] = field(factory=list)
    ended: trio.Event = field(factory=trio.Event)


@pytest.fixture
def quart() -> Quart:
    made = Quart()
    app = made.app

    @app.before_serving
    async def begin() -> None:
        made.served.append("begun")

    @app.after_serving
    async def end() -> None:
        made.served.append("over")

    @app.post("/echo")
    async def echo() -> ResponseReturnValue:
        return await request.get_data()

    @app.post("/stream")
    async def stream() -> Response:
        async def parts() -> AsyncIterator[bytes]:
            async for part in body:
                yield bytes(part)

        body = request.body
        return Response(parts())

    @app.get("/feed")
    async def feed() -> Response:
        async def events() -> AsyncIterator[bytes]:
            try:
                while True:
                    yield b"data: x\n\n"
                    await trio.sleep(0.01)
            finally:
                made.ended.set()

        return Response(events(), mimetype="text/event-stream")

    @app.get("/fail")
    async def fail() -> ResponseReturnValue:
        raise ValueError("a bug")

    return made


@pytest.fixture
async def server(quart: Quart) -> AsyncIterator[WireServer]:
    server = WireServer(cast("App", quart.app), await bind("127.0.0.1", 0, "PORT"))
    async with trio.open_nursery() as nursery:
        await nursery.start(server.run)
        assert quart.served == ["begun"]
        yield server
        with trio.fail_after(5):
            await server.drain(trio.current_time() + 5)
    assert quart.served == ["begun", "over"]


@pytest.fixture
async def http(server: WireServer) -> AsyncIterator[httpx.AsyncClient]:
    port = server.sockets[0].getsockname()[1]
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:
        yield client


async def test_calls_share_a_connection_whatever_their_size(http: httpx.AsyncClient, server: WireServer) -> None:
    for size in (0, 1, 100, 1_000_000):
        answer = await http.post("/echo", content=b"x" * size)
        assert answer.content == b"x" * size
    assert (await http.get("/none")).status_code == 404
    assert (await http.get("/fail")).status_code == 500
    assert (server.counts.accepted, server.counts.app_failures) == (1, 0)


async def test_an_answer_is_one_with_its_request_also_when_they_are_pipelined(server: WireServer) -> None:
    client = await dial(server.sockets[0].getsockname()[1])
    await client.send(b"".join(post(b"%d" % number, path="/echo") for number in range(20)))
    assert [(await client.answer()).body for _ in range(20)] == [b"%d" % number for number in range(20)]
    await client.stream.aclose()


async def test_a_body_is_streamed_both_ways_at_once(server: WireServer) -> None:
    client = await dial(server.sockets[0].getsockname()[1])
    await client.send(post(b"one two")[:-7].replace(b" / ", b" /stream "))
    await client.send(b"one ")
    await client.until(b"one ")
    await client.send(b"two" + post(b"next", path="/echo"))
    assert (await client.until(b"0\r\n\r\n")).endswith(b"two\r\n0\r\n\r\n")
    assert (await client.answer()).body == b"next"
    await client.stream.aclose()


async def test_a_feed_ends_when_its_reader_goes(quart: Quart, server: WireServer) -> None:
    client = await dial(server.sockets[0].getsockname()[1])
    await client.send(get("/feed"))
    await client.until(b"data: x\n\n")
    await client.stream.aclose()
    await quart.ended.wait()
    await until(lambda: server.counts.streams == server.counts.connections == 0)
    assert server.counts.app_failures == 0


async def test_a_feed_ends_properly_when_the_server_stops(quart: Quart, server: WireServer) -> None:
    client = await dial(server.sockets[0].getsockname()[1])
    await client.send(get("/feed"))
    await client.until(b"data: x\n\n")
    await server.drain(trio.current_time() + 5)
    assert (await client.rest()).endswith(b"\r\n0\r\n\r\n")
    await client.stream.aclose()


async def test_the_http_api_is_served(stack: Stack) -> None:
    app = correlated(create_app(api_on(stack.services, stack.mailboxes)))
    server = await server_of(app)
    async with (
        listening(server) as port,
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False) as http,
    ):
        headers = {"X-Corecrux-Scopes": EVERY_SCOPE}
        for number in range(10):
            fact = {"entity": "alpha", "key": str(number), "value": "x" * 1000}
            assert (await http.put("/v1/facts", headers=headers, json=fact)).status_code == 201
        listed = await http.get("/v1/facts", headers=headers, params={"entity": "alpha"})
        assert len(listed.json()["facts"]) == 10
        assert (await http.get("/healthz")).status_code == 200
        assert server.counts.accepted == 1
        assert server.counts.app_failures == 0
