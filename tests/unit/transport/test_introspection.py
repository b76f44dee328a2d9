"""Asking an authorization server over HTTP: what is sent, and what of the answer is believed to be one."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable

import httpx
import pytest
import structlog.testing
import trio

from crux.actors.introspection import INTROSPECTION_S, UNDER_WAY
from crux.config import Settings
from crux.transport.introspection import MOST_ANSWERED_BYTES, HttpIntrospection, introspector_of
from tests.conftest import HandClock
from tests.upstream import answered_by

ENDPOINT = "https://as.example/v1/auth/introspect"
ANSWER = b'{"active":true}'

Reply = Callable[[httpx.Request], httpx.Response]


def asking(reply: Reply) -> HttpIntrospection:
    return HttpIntrospection(httpx.MockTransport(reply), ENDPOINT, "crux", "s3cret")


async def test_the_question_is_a_json_document_with_the_daemons_own_credentials() -> None:
    seen: list[httpx.Request] = []

    def reply(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, content=ANSWER)

    assert await asking(reply)("a-token") == ANSWER
    (request,) = seen
    assert (request.method, str(request.url)) == ("POST", ENDPOINT)
    assert json.loads(request.content) == {"token": "a-token", "client_id": "crux", "client_secret": "s3cret"}
    assert request.headers["content-type"] == request.headers["accept"] == "application/json"
    assert not {"cookie", "authorization"} & set(request.headers)
    assert "s3cret" not in repr(asking(reply))


@pytest.mark.parametrize("status", [101, 301, 302, 307, 308, 400, 401, 404, 429, 500, 503])
async def test_any_status_but_2xx_is_no_answer_and_is_logged(status: int) -> None:
    asked = 0

    def reply(request: httpx.Request) -> httpx.Response:
        nonlocal asked
        asked += 1
        return httpx.Response(status, content=ANSWER, headers={"Location": "https://as.example/elsewhere"})

    with structlog.testing.capture_logs() as logs:
        assert await asking(reply)("a-token") is None
    assert asked == 1, "redirects are not followed"
    assert [entry["status"] for entry in logs] == [status]


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize(("size", "taken"), [(MOST_ANSWERED_BYTES, True), (MOST_ANSWERED_BYTES + 1, False)])
async def test_an_answer_is_read_up_to_its_limit_and_no_further(size: int, taken: bool, chunked: bool) -> None:
    async def parts() -> AsyncIterator[bytes]:
        for _ in range(size // 1000):
            yield b"x" * 1000
        yield b"x" * (size % 1000)

    def reply(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, content=parts() if chunked else b"x" * size)

    body = await asking(reply)("a-token")
    assert (body is not None and len(body) == size) == taken


async def test_an_answer_without_end_is_left() -> None:
    sent = 0

    async def parts() -> AsyncIterator[bytes]:
        nonlocal sent
        while True:
            sent += 1
            yield b"x" * 1000
            await trio.lowlevel.checkpoint()

    assert await asking(lambda _: httpx.Response(200, content=parts()))("a-token") is None
    assert sent == MOST_ANSWERED_BYTES // 1000 + 1


@pytest.mark.parametrize("error", [httpx.ConnectError, httpx.RemoteProtocolError, httpx.ReadError])
async def test_a_failing_connection_is_no_answer_and_is_logged(error: type[httpx.TransportError]) -> None:
    def reply(request: httpx.Request) -> httpx.Response:
        raise error("it broke")

    with structlog.testing.capture_logs() as logs:
        assert await asking(reply)("a-token") is None
    assert [(entry["log_level"], entry["kind"]) for entry in logs] == [("warning", error.__name__)]


async def test_cookies_of_the_server_are_not_sent_back() -> None:
    seen: list[httpx.Request] = []

    def reply(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, content=ANSWER, headers={"Set-Cookie": "a=b; Path=/"})

    ask = asking(reply)
    await ask("one")
    await ask("two")
    assert all("cookie" not in request.headers for request in seen)


async def test_questions_that_are_given_up_leave_room_for_others() -> None:
    """Each is cancelled at its deadline while the server hangs; the pool of connections is not used up by that."""
    hanging = True

    async def serve(stream: trio.SocketStream) -> None:
        async with stream:
            await stream.receive_some()
            if hanging:
                await trio.sleep_forever()
            await stream.send_all(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(ANSWER), ANSWER))

    async with trio.open_nursery() as nursery:
        url: str = await nursery.start(answered_by, serve)
        settings = Settings(
            mcp_resource_url="https://crux.example/mcp",
            mcp_auth_server=url,
            mcp_introspect_client_id="crux",
            mcp_introspect_client_secret="s",
        )
        async with introspector_of(settings, HandClock()) as build:
            ask = build()._introspect

            async def give_up() -> None:
                with trio.move_on_after(0.05):
                    await ask("a-token")

            async with trio.open_nursery() as askers:
                for _ in range(2 * UNDER_WAY):
                    askers.start_soon(give_up)
            hanging = False
            with trio.fail_after(INTROSPECTION_S):
                assert await ask("a-token") == ANSWER
        nursery.cancel_scope.cancel()
