"""Endpoints of extensions as a test wants them, on real sockets, and calls to them."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

import pytest
import trio
import trio.testing

from crux.domain.endpoints import read_endpoint
from crux.domain.outbound import Answer, response_in
from crux.domain.outbound_config import OutboundConfig
from crux.domain.outbound_refusals import (
    DispatchRefused,
)
from crux.transport.connections import Connections
from crux.transport.outbound import HttpPost, Resolve, Resolver, trusted
from tests.upstream import answered_by

Converse = Callable[[trio.abc.Stream], Awaitable[object]]

BODY = b'{"tool":"t"}'
PARTY = ("ext.quote", "alice")
GOOD = b'{"result":1}'
CAP = 1000
# Long enough for any answer that comes at all.
PATIENT_S = 20.0
# For endpoints that never come to an end.
BRIEF_S = 0.2
CONFIG = OutboundConfig(private_hosts=frozenset({"*"}))
STRICT = OutboundConfig()


def answer(body: bytes, head: bytes = b"200 OK", length: int | None = None) -> bytes:
    length = len(body) if length is None else length
    return b"HTTP/1.1 %b\r\nContent-Length: %d\r\n\r\n%b" % (head, length, body)


async def request_on(stream: trio.abc.Stream) -> bytes:
    received = b""
    while not received.endswith(BODY):
        part = await stream.receive_some()
        assert part
        received += part
    return received


def saying(*parts: bytes) -> Converse:
    """Reads the request, sends the parts, and closes."""

    async def converse(stream: trio.abc.Stream) -> None:
        async with stream:
            await request_on(stream)
            for part in parts:
                await stream.send_all(part)

    return converse


async def posted(
    converse: Converse,
    *,
    timeout_s: float = PATIENT_S,
    cap: int = CAP,
    config: OutboundConfig = CONFIG,
) -> Answer:
    """What comes of a call to a server on this machine; the server's end is awaited where it has one."""
    async with trio.open_nursery() as nursery:
        url: str = await nursery.start(answered_by, tolerant(converse))
        outcome: Answer | DispatchRefused
        try:
            outcome = await post_in(nursery)(
                read_endpoint(f"{url}/x"), BODY, party=PARTY, timeout_s=timeout_s, max_response_bytes=cap, config=config
            )
        except DispatchRefused as error:
            outcome = error
        nursery.cancel_scope.cancel()
    if isinstance(outcome, DispatchRefused):
        raise outcome
    return outcome


def post_in(
    nursery: trio.Nursery, resolve: Resolve | None = None, tls: Callable[[], ssl.SSLContext] = trusted
) -> HttpPost:
    """The way out of the daemon; the connections that it keeps are closed when the nursery is left."""
    return HttpPost(Connections(nursery, tls), resolve or Resolver())


def tolerant(converse: Converse) -> Converse:
    async def until_left(stream: trio.abc.Stream) -> None:
        # It ends when the daemon has enough of it.
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            await converse(stream)

    return until_left


async def refusal(converse: Converse, **given: object) -> DispatchRefused:
    """What a call is refused with, once its answer is read as the pipeline does."""
    try:
        with pytest.raises(DispatchRefused) as refused:
            response_in(await posted(converse, **given))  # type: ignore[arg-type]
    except BaseExceptionGroup as group:
        raise AssertionError("the server failed") from group
    return refused.value


async def call(url: str, post: HttpPost, config: OutboundConfig, timeout_s: float = PATIENT_S) -> Answer:
    return await post(read_endpoint(url), BODY, party=PARTY, timeout_s=timeout_s, max_response_bytes=CAP, config=config)


class Answers:
    """Says what a test wants, and counts who asks."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, int]] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append((host, port))
        await trio.lowlevel.checkpoint()
        return self.answers[min(len(self.asked), len(self.answers)) - 1]
