"""Whom the daemon connects to for a call to an extension, and how long a connection is kept."""

from __future__ import annotations

import gc
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import count
from typing import Any
from urllib.parse import urlsplit

import pytest
import trio
import trio.testing
from attrs import frozen

from crux.domain.endpoints import read_endpoint
from crux.domain.outbound import Answer
from crux.domain.outbound_config import OutboundConfig
from crux.domain.outbound_refusals import (
    EndpointNotAllowed,
    ResponseTooLarge,
    Transport,
)
from crux.transport.connections import KEPT_S, MOST_KEPT
from crux.transport.outbound import LOOKUPS_EACH, HttpPost, http_post_of
from tests.certificates import Certificate, certificate
from tests.endpoints import (
    BODY,
    BRIEF_S,
    CAP,
    CONFIG,
    GOOD,
    PATIENT_S,
    STRICT,
    Answers,
    Converse,
    answer,
    call,
    post_in,
    request_on,
    saying,
    tolerant,
)
from tests.upstream import answered_by


@pytest.fixture(autouse=True)
def _nothing_is_left() -> object:
    """What a call leaves to the garbage collector is reported as a warning, which fails the test."""
    yield
    gc.collect()


@pytest.fixture
async def served(nursery: trio.Nursery) -> AsyncIterator[tuple[int, list[bytes]]]:
    """A port that answers well, and the requests that it got."""
    requests: list[bytes] = []

    async def converse(stream: trio.abc.Stream) -> None:
        async with stream:
            requests.append(await request_on(stream))
            await stream.send_all(answer(GOOD))

    url: str = await nursery.start(answered_by, tolerant(converse))
    yield urlsplit(url).port or 0, requests
    nursery.cancel_scope.cancel()


async def test_a_name_that_changes_after_it_was_judged_changes_nothing(
    served: tuple[int, list[bytes]], nursery: trio.Nursery
) -> None:
    """The second answer would lead to a metadata service; nobody asks for it."""
    port, requests = served
    resolver = Answers(["127.0.0.1"], ["169.254.169.254"])
    config = OutboundConfig(private_hosts=frozenset({"tools.example"}))
    assert await call(f"http://tools.example:{port}/x?y=1", post_in(nursery, resolver), config) == Answer(200, GOOD)
    assert resolver.asked == [("tools.example", port)]
    (request,) = requests
    head = request.split(b"\r\n\r\n")[0].decode().split("\r\n")
    assert head == [
        "POST /x?y=1 HTTP/1.1",
        f"Host: tools.example:{port}",
        "Content-Type: application/json",
        "Accept: application/json",
        "Accept-Encoding: identity",
        f"Content-Length: {len(BODY)}",
    ]


@pytest.mark.parametrize(
    ("addresses", "config"),
    [
        (["127.0.0.1"], STRICT),
        (["1.1.1.1", "127.0.0.1"], STRICT),
        (["127.0.0.1"], OutboundConfig(private_hosts=frozenset({"other.example"}))),
        (["127.0.0.1", "169.254.169.254"], CONFIG),
        (["0.0.0.0"], CONFIG),
        (["::ffff:169.254.169.254"], CONFIG),
    ],
)
async def test_a_name_that_leads_astray_is_not_connected_to(
    served: tuple[int, list[bytes]], addresses: list[str], config: OutboundConfig, nursery: trio.Nursery
) -> None:
    port, requests = served
    with pytest.raises(EndpointNotAllowed):
        await call(f"http://tools.example:{port}/", post_in(nursery, Answers(addresses)), config)
    assert not requests


@pytest.mark.parametrize("host", ["169.254.169.254", "0.0.0.0", "[fd00:ec2::254]", "[::ffff:a9fe:a9fe]"])
async def test_an_address_that_is_never_called_is_not_even_when_it_is_listed(host: str, nursery: trio.Nursery) -> None:
    resolver = Answers(["1.1.1.1"])
    config = OutboundConfig(private_hosts=frozenset({"*", host}))
    with pytest.raises(EndpointNotAllowed):
        await call(f"http://{host}/", post_in(nursery, resolver), config)
    assert not resolver.asked


async def test_the_operators_change_of_mind_holds_for_the_next_call(
    served: tuple[int, list[bytes]], nursery: trio.Nursery
) -> None:
    port, requests = served
    post = post_in(nursery, Answers(["127.0.0.1"]))
    await call(f"http://tools.example:{port}/", post, CONFIG)
    with pytest.raises(EndpointNotAllowed):
        await call(f"http://tools.example:{port}/", post, STRICT)
    assert len(requests) == 1


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_this_machine_may_be_called_by_its_own_name(
    served: tuple[int, list[bytes]], host: str, nursery: trio.Nursery
) -> None:
    port, _ = served
    assert await call(f"http://{host}:{port}/", post_in(nursery), STRICT) == Answer(200, GOOD)


async def test_an_address_that_refuses_leaves_time_for_the_next(
    served: tuple[int, list[bytes]], nursery: trio.Nursery
) -> None:
    port, _ = served
    post = post_in(nursery, Answers(["127.0.0.2", "::1", "127.0.0.1"]))
    assert await call(f"http://tools.example:{port}/", post, CONFIG) == Answer(200, GOOD)


@pytest.mark.parametrize("found", [[], OSError("nowhere"), UnicodeError("label too long")])
async def test_a_name_without_an_address_is_told_of(found: object, nursery: trio.Nursery) -> None:
    async def resolve(host: str, port: int) -> Sequence[str]:
        await trio.lowlevel.checkpoint()
        if isinstance(found, Exception):
            raise found
        return []

    with pytest.raises(Transport, match=r"the call to 'tools\.example' failed: "):
        await call("http://tools.example/", post_in(nursery, resolve), STRICT)


async def test_a_name_that_is_never_resolved_is_left_at_the_deadline(
    autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    async def resolve(host: str, port: int) -> Sequence[str]:
        await trio.sleep_forever()
        return []

    with pytest.raises(Transport, match=r"^no answer from 'tools\.example' within 5 s$"):
        await call("https://tools.example/", post_in(nursery, resolve), STRICT, timeout_s=5)
    assert trio.current_time() == pytest.approx(5, abs=0.1)


async def test_a_name_that_hangs_holds_up_no_other(
    served: tuple[int, list[bytes]], nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its threads cannot be ended, and are none that others wait for."""
    port, _ = served
    release, ask, hanging = threading.Event(), socket.getaddrinfo, []

    def hang(host: str, *args: Any, **given: Any) -> Any:
        if host == "hanging.example":
            hanging.append(host)
            release.wait(PATIENT_S)
        return ask("127.0.0.1", *args, **given)

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    post = post_in(nursery)
    calls = 60

    async def hung() -> None:
        with pytest.raises(Transport, match=r"^no answer from 'hanging\.example' within 0\.2 s$"):
            await call("http://hanging.example/", post, CONFIG, timeout_s=BRIEF_S)

    try:
        async with trio.open_nursery() as callers:
            for _ in range(calls):
                callers.start_soon(hung)
        assert len(hanging) == LOOKUPS_EACH
        assert await call(f"http://tools.example:{port}/", post, CONFIG) == Answer(200, GOOD)
        assert await trio.to_thread.run_sync(lambda: "free") == "free"
    finally:
        release.set()


async def test_no_time_at_all_sends_nothing(served: tuple[int, list[bytes]], nursery: trio.Nursery) -> None:
    port, requests = served
    resolver = Answers(["127.0.0.1"])
    with pytest.raises(Transport, match="within 0 s"):
        await call(f"http://tools.example:{port}/", post_in(nursery, resolver), CONFIG, timeout_s=0)
    assert not resolver.asked
    assert not requests


async def test_a_call_that_is_given_up_closes_its_connection() -> None:
    begun, closed = trio.Event(), trio.Event()

    async def converse(stream: trio.abc.Stream) -> None:
        async with stream:
            await request_on(stream)
            begun.set()
            try:
                assert not await stream.receive_some()
            finally:
                closed.set()

    async with trio.open_nursery() as nursery:
        url: str = await nursery.start(answered_by, tolerant(converse))

        async def give_up(scope: trio.CancelScope) -> None:
            with scope:
                await call(url, post_in(nursery), STRICT)

        scope = trio.CancelScope()
        nursery.start_soon(give_up, scope)
        await begun.wait()
        scope.cancel()
        with trio.fail_after(PATIENT_S):
            await closed.wait()
        nursery.cancel_scope.cancel()


@pytest.fixture(scope="module")
def known() -> Certificate:
    return certificate("tools.example")


async def over_tls(nursery: trio.Nursery, server: ssl.SSLContext, converse: Converse) -> int:
    async def secured(stream: trio.SocketStream) -> None:
        # It ends early where the daemon does not trust it.
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            await converse(trio.SSLStream(stream, server, server_side=True, https_compatible=True))

    url: str = await nursery.start(answered_by, secured)
    return urlsplit(url).port or 0


@pytest.mark.parametrize("host", ["tools.example", "TOOLS.example", "tools.example."])
async def test_a_certificate_is_held_against_the_name(known: Certificate, host: str, nursery: trio.Nursery) -> None:
    port = await over_tls(nursery, known.server, saying(answer(GOOD)))
    post = post_in(nursery, Answers(["127.0.0.1"]), lambda: known.client)
    assert await call(f"https://{host}:{port}/", post, CONFIG) == Answer(200, GOOD)
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("url", ["https://other.example:{}/", "https://127.0.0.1:{}/"])
async def test_a_certificate_of_another_name_is_refused(known: Certificate, url: str, nursery: trio.Nursery) -> None:
    heard = []

    async def converse(stream: trio.abc.Stream) -> None:
        heard.append(await request_on(stream))

    port = await over_tls(nursery, known.server, converse)
    post = post_in(nursery, Answers(["127.0.0.1"]), lambda: known.client)
    with pytest.raises(Transport, match="certificate is not valid for"):
        await call(url.format(port), post, CONFIG)
    assert not heard
    nursery.cancel_scope.cancel()


async def test_a_certificate_that_nobody_vouches_for_is_refused(known: Certificate, nursery: trio.Nursery) -> None:
    port = await over_tls(nursery, known.server, saying(answer(GOOD)))
    with pytest.raises(Transport, match="self-signed certificate"):
        await call(f"https://tools.example:{port}/", post_in(nursery, Answers(["127.0.0.1"])), CONFIG)
    nursery.cancel_scope.cancel()


async def test_https_to_a_port_of_plain_http_is_no_answer(served: tuple[int, list[bytes]]) -> None:
    async def converse(stream: trio.abc.Stream) -> None:
        async with stream:
            await stream.receive_some()
            await stream.send_all(answer(b"", b"400 Bad Request"))

    async with trio.open_nursery() as nursery:
        url: str = await nursery.start(answered_by, tolerant(converse))
        with pytest.raises(Transport, match="failed: "):
            await call(url.replace("http:", "https:"), post_in(nursery), STRICT)
        nursery.cancel_scope.cancel()


async def test_a_handshake_that_is_given_up_leaves_nothing_open() -> None:
    async def hang(stream: trio.abc.Stream) -> None:
        async with stream:
            await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        url: str = await nursery.start(answered_by, hang)
        with pytest.raises(Transport, match=r"within 0\.2 s"):
            await call(url.replace("http:", "https:"), post_in(nursery), STRICT, timeout_s=BRIEF_S)
        nursery.cancel_scope.cancel()


@frozen
class Peers:
    """The port of an endpoint, the number of each request's connection, and the connections that are over."""

    port: int
    requests: list[int]
    over: list[int]

    async def call(self, post: HttpPost, **given: object) -> Answer:
        return await call(f"http://tools.example:{self.port}/", post, CONFIG, **given)  # type: ignore[arg-type]


Says = Callable[[int], bytes]


def good(number: int) -> bytes:
    return answer(GOOD)


@asynccontextmanager
async def peers(says: Says = good, *, one_each: bool = False) -> AsyncIterator[tuple[Peers, HttpPost]]:
    """An endpoint that says what `says` has for the number of a request, and the way to it; with `one_each` it closes
    after each answer."""
    requests: list[int] = []
    over: list[int] = []
    numbers = count(1)

    async def converse(stream: trio.abc.Stream) -> None:
        number = next(numbers)
        try:
            async with stream:
                while True:
                    await request_on(stream)
                    requests.append(number)
                    await stream.send_all(says(len(requests)))
                    if one_each:
                        return
        except AssertionError:
            pass  # the daemon closed
        finally:
            over.append(number)

    async with trio.open_nursery() as nursery:
        url: str = await nursery.start(answered_by, tolerant(converse))
        yield Peers(urlsplit(url).port or 0, requests, over), post_in(nursery, Answers(["127.0.0.1"]))
        nursery.cancel_scope.cancel()


async def test_a_connection_serves_the_next_call() -> None:
    async with peers() as (endpoint, post):
        for _ in range(3):
            assert await endpoint.call(post) == Answer(200, GOOD)
        assert endpoint.requests == [1, 1, 1]


async def test_two_calls_at_once_have_two_connections() -> None:
    async with peers() as (endpoint, post):
        async with trio.open_nursery() as callers:
            callers.start_soon(endpoint.call, post)
            callers.start_soon(endpoint.call, post)
        assert sorted(endpoint.requests) == [1, 2]


@pytest.mark.parametrize(
    "says",
    [
        lambda n: answer(b'{"result":%d}' % n) + answer(b'{"result":"of somebody else"}'),
        lambda n: b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\nConnection: close\r\n\r\n" + b'{"result":%d}' % n,
        lambda n: b"HTTP/1.0 200 OK\r\nContent-Length: 12\r\n\r\n" + b'{"result":%d}' % n,
    ],
    ids=["more than it announced", "that asks for its end", "of HTTP/1.0"],
)
async def test_a_connection_that_may_not_be_used_again_is_closed(says: Says) -> None:
    """What an endpoint says beyond its answer never becomes the answer of another call."""
    async with peers(says) as (endpoint, post):
        for number in (1, 2):
            assert (await endpoint.call(post)).body == b'{"result":%d}' % number
        assert endpoint.requests == [1, 2]


async def test_a_connection_that_brought_no_whole_answer_is_closed() -> None:
    async with peers(lambda n: answer(b"x" * (CAP + 1)) if n == 1 else answer(GOOD)) as (endpoint, post):
        with pytest.raises(ResponseTooLarge):
            await endpoint.call(post)
        await endpoint.call(post)
        assert endpoint.requests == [1, 2]


async def test_a_connection_that_the_endpoint_closed_is_not_used() -> None:
    async with peers(one_each=True) as (endpoint, post):
        await endpoint.call(post)
        await trio.testing.wait_all_tasks_blocked()
        await endpoint.call(post)
        assert endpoint.requests == [1, 2]


async def test_what_an_endpoint_says_unasked_ends_the_connection() -> None:
    """It comes after the answer was read, so that it would be the next one's."""
    said = trio.Event()
    async with trio.open_nursery() as nursery:

        async def converse(stream: trio.abc.Stream) -> None:
            async with stream:
                await request_on(stream)
                await stream.send_all(answer(GOOD))
                await said.wait()
                await stream.send_all(answer(b'{"result":"of somebody else"}'))
                await stream.receive_some()

        url: str = await nursery.start(answered_by, tolerant(converse))
        post = post_in(nursery)
        await call(url, post, STRICT)
        said.set()
        await trio.testing.wait_all_tasks_blocked()
        assert await call(url, post, STRICT) == Answer(200, GOOD)
        nursery.cancel_scope.cancel()


async def test_a_connection_leads_where_the_name_leads_now(served: tuple[int, list[bytes]]) -> None:
    """The name moved to an address where nobody listens: the connection to the old one is not used for it."""
    port, requests = served
    async with trio.open_nursery() as nursery:
        post = post_in(nursery, Answers(["127.0.0.1"], ["127.0.0.2"]))
        await call(f"http://tools.example:{port}/", post, CONFIG)
        with pytest.raises(Transport, match="Connection refused"):
            await call(f"http://tools.example:{port}/", post, CONFIG)
        nursery.cancel_scope.cancel()
    assert len(requests) == 1


async def test_a_connection_is_of_one_name_only() -> None:
    """Two names of one address may be two services, of which the certificate vouched for one."""
    async with peers() as (endpoint, post):
        for name in ("tools.example", "other.example"):
            await call(f"http://{name}:{endpoint.port}/", post, CONFIG)
        assert endpoint.requests == [1, 2]


async def test_a_connection_is_of_one_extension_and_one_passport() -> None:
    """An endpoint that says more than it was asked mixes up the answers to one of them only."""
    async with peers() as (endpoint, post):
        for party in (("ext.a", "alice"), ("ext.b", "alice"), ("ext.a", "bob"), ("ext.a", "alice")):
            url = read_endpoint(f"http://tools.example:{endpoint.port}/")
            await post(url, BODY, party=party, timeout_s=PATIENT_S, max_response_bytes=CAP, config=CONFIG)
        assert endpoint.requests == [1, 2, 3, 1]


@pytest.mark.parametrize(("wait_s", "connections"), [(KEPT_S - 0.1, [1, 1]), (KEPT_S + 0.1, [1, 2])])
async def test_a_connection_is_kept_for_a_while(
    wait_s: float, connections: list[int], mock_clock: trio.testing.MockClock
) -> None:
    async with peers() as (endpoint, post):
        await endpoint.call(post)
        await trio.testing.wait_all_tasks_blocked()
        mock_clock.jump(wait_s)
        await trio.testing.wait_all_tasks_blocked()
        await endpoint.call(post)
        assert endpoint.requests == connections


@pytest.mark.parametrize(("calls", "closed"), [(MOST_KEPT, 0), (MOST_KEPT + 1, 1)])
async def test_so_many_connections_are_kept_and_no_more(calls: int, closed: int) -> None:
    async with peers() as (endpoint, post):
        async with trio.open_nursery() as callers:
            for _ in range(calls):
                callers.start_soon(endpoint.call, post)
        await trio.testing.wait_all_tasks_blocked()
        assert len(endpoint.over) == closed


async def test_a_connection_over_tls_serves_the_next_call(known: Certificate, nursery: trio.Nursery) -> None:
    requests = []

    async def converse(stream: trio.abc.Stream) -> None:
        for number in (1, 2):
            requests.append(await request_on(stream))
            await stream.send_all(answer(b"%d" % number))

    port = await over_tls(nursery, known.server, converse)
    post = post_in(nursery, Answers(["127.0.0.1"]), lambda: known.client)
    answers = [await call(f"https://tools.example:{port}/", post, CONFIG) for _ in range(2)]
    assert answers == [Answer(200, b"1"), Answer(200, b"2")]
    nursery.cancel_scope.cancel()


async def test_the_way_out_closes_what_it_kept_when_it_ends() -> None:
    async with peers() as (endpoint, _):
        async with http_post_of(Answers(["127.0.0.1"])) as post:
            await endpoint.call(post)
        with trio.fail_after(PATIENT_S):
            while not endpoint.over:
                await trio.testing.wait_all_tasks_blocked()
        assert endpoint.over == [1]
