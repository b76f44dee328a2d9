"""The way out over HTTP: requests that are given up, and ones that are sent again."""

from __future__ import annotations

import gc

import httpx
import pytest
import trio
import trio.testing

from crux.transport.http_client import HttpTransport
from tests.upstream import answered_by

# More than the buffers of a loopback connection take while nobody reads.
STUCK_BYTES = 64 * 1024 * 1024


@pytest.mark.parametrize("body", [b"", b"some bytes"])
async def test_a_body_arrives_whole_each_time_that_it_is_sent(body: bytes) -> None:
    arrived: list[bytes] = []

    async def serve(stream: trio.SocketStream) -> None:
        async with stream:
            request = b""
            while not (request.endswith(body) and b"\r\n\r\n" in request):
                request += await stream.receive_some()
            arrived.append(request)
            await stream.send_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")

    async with trio.open_nursery() as nursery, HttpTransport() as transport:
        url: str = await nursery.start(answered_by, serve)
        request = httpx.Request("POST", url, content=body)
        for _ in range(2):
            response = await transport.handle_async_request(request)
            await response.aclose()
        nursery.cancel_scope.cancel()
    heads, bodies = zip(*(request.split(b"\r\n\r\n", 1) for request in arrived), strict=True)
    assert bodies == (body, body)
    assert all(b"content-length: %d" % len(body) in head.lower() for head in heads)


async def test_a_request_that_is_given_up_while_it_is_sent_leaves_nothing_to_the_garbage_collector() -> None:
    """What it would leave is reported as a warning, which fails a test here."""
    accepted = trio.Event()

    async def serve(stream: trio.SocketStream) -> None:
        async with stream:
            await stream.receive_some(1)
            accepted.set()
            await trio.sleep_forever()

    async with trio.open_nursery() as nursery, HttpTransport() as transport:
        url: str = await nursery.start(answered_by, serve)

        async def send(scope: trio.CancelScope) -> None:
            with scope:
                await transport.handle_async_request(httpx.Request("POST", url, content=bytes(STUCK_BYTES)))

        scope = trio.CancelScope()
        nursery.start_soon(send, scope)
        await accepted.wait()
        await trio.testing.wait_all_tasks_blocked()
        scope.cancel()
        await trio.testing.wait_all_tasks_blocked()
        assert scope.cancelled_caught
        gc.collect()
        nursery.cancel_scope.cancel()
