"""One connection, over memory: requests in order, refusals, and applications that fail."""

from __future__ import annotations

import h11
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from crux.transport.asgi import Receive, Scope, Send
from crux.transport.wire import HeadLimits, WireLimits
from crux.transport.wire.connection import LINGER_S
from crux.transport.wire.server import SWEEP_S
from tests.wires import FEED, chunked, echo, endless_feed, get, part, post, start, wired


class TestRequests:
    async def test_requests_are_answered_one_after_the_other_on_one_connection(self) -> None:
        async with wired(echo) as wire:
            for number in range(3):
                answer = await wire.client.ask(post(b"x" * number, path=f"/{number}"))
                assert answer.body == f"POST /{number} ".encode() + b"x" * number
                assert answer.headers["server"] == "crux"
                assert "connection" not in answer.headers

    async def test_pipelined_requests_are_answered_in_order_and_never_two_at_once(self) -> None:
        most = 0

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            nonlocal most
            most = max(most, wire.counts.inflight)
            await trio.lowlevel.checkpoint()
            await echo(scope, receive, send)

        async with wired(app) as wire:
            await wire.client.send(get("/a") + post(b"one") + chunked(b"two", b"three") + get("/b"))
            answers = [(await wire.client.answer()).body for _ in range(4)]
        assert answers == [b"GET /a ", b"POST / one", b"POST / twothree", b"GET /b "]
        assert most == 1

    @pytest.mark.parametrize(
        "request_",
        [get("/", "Connection: close"), get(version="1.0"), post(b"body", "Connection: close")],
    )
    async def test_the_connection_ends_when_the_peer_asks_for_that(self, request_: bytes) -> None:
        async with wired(echo) as wire:
            answer = await wire.client.ask(request_)
            assert answer.headers["connection"] == "close"
            assert await wire.client.rest() == b""

    async def test_an_old_peer_may_ask_for_the_connection_to_last(self) -> None:
        async with wired(echo) as wire:
            for _ in range(2):
                answer = await wire.client.ask(get("/", "Connection: keep-alive", version="1.0"))
                assert answer.headers["connection"] == "keep-alive"

    async def test_head_is_answered_without_a_body(self) -> None:
        async with wired(echo) as wire:
            await wire.client.send(get().replace(b"GET", b"HEAD") + get("/after"))
            head = await wire.client.answer("HEAD")
            assert (head.body, head.headers["content-length"]) == (b"", str(len("HEAD / ")))
            assert (await wire.client.answer()).body == b"GET /after "

    async def test_what_came_of_a_body_that_nobody_read_is_skipped(self) -> None:
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await send(start())
            await send(part(scope["path"].encode()))

        async with wired(app) as wire:
            await wire.client.send(post(b"x" * 1000, path="/a") + chunked(b"y" * 1000) + get("/c"))
            assert [(await wire.client.answer()).body for _ in range(3)] == [b"/a", b"/", b"/c"]

    @pytest.mark.parametrize(
        ("unfinished", "bad"), [(post(b"x" * 100)[:-1], 0), (chunked(b"x")[:-5], 0), (chunked(b"x")[:-5] + b"z\r\n", 1)]
    )
    async def test_an_answer_before_the_body_is_whole_ends_the_connection(self, unfinished: bytes, bad: int) -> None:
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await send(start(status=401))
            await send(part(b"who are you"))

        async with wired(app) as wire:
            assert (await wire.client.ask(unfinished)).status == 401
            assert await wire.client.rest() == b""
            assert wire.counts.bad_requests == bad


class TestRefusals:
    @pytest.mark.parametrize(
        ("request_", "status", "count"),
        [
            (b"GET / HTTP/1.1\r\n\r\n", 400, "bad_requests"),
            (b"\x16\x03\x01\x02\x00\x01\x00", 400, "bad_requests"),
            (get("/", "Expect: tea"), 417, "bad_requests"),
            (get("/", "X: " + "x" * 1024), 431, "large_heads"),
            (get("/", *["X: x"] * 10), 431, "large_heads"),
            (post(b"x" * 101), 413, "large_bodies"),
            (chunked(b"x" * 100, b"x"), 413, "large_bodies"),
        ],
    )
    async def test_a_request_that_breaks_a_rule_is_refused_and_counted(
        self, request_: bytes, status: int, count: str
    ) -> None:
        async with wired(echo, WireLimits(head=HeadLimits(1024, 8), body_bytes=100)) as wire:
            answer = await wire.client.ask(request_)
            assert answer.status == status
            assert answer.headers["connection"] == "close"
            assert answer.headers["date"]
            assert await wire.client.rest() == b""
            assert getattr(wire.counts, count) == 1
            await wire.client.stream.aclose()
            await wire.done.wait()

    @pytest.mark.parametrize("request_", [get("/", *["X: x"] * 7), post(b"x" * 100), chunked(b"x" * 99, b"x")])
    async def test_a_request_at_a_limit_is_served(self, request_: bytes) -> None:
        async with wired(echo, WireLimits(head=HeadLimits(1024, 8), body_bytes=100)) as wire:
            assert (await wire.client.ask(request_)).status == 200

    async def test_no_limit_is_a_limit_of_none(self) -> None:
        limits = WireLimits(body_bytes=0, inflight=0, body_rate=0)
        async with wired(echo, limits) as wire:
            assert len((await wire.client.ask(chunked(*[b"x" * 60_000] * 300))).body) > 16 * 1024 * 1024

    async def test_a_request_too_many_is_refused_before_its_body_is_read(self) -> None:
        async with wired(echo, WireLimits(inflight=1)) as wire:
            wire.counts.inflight += 1  # on another connection
            answer = await wire.client.ask(post(b"x" * 100)[:-100])
            assert (answer.status, answer.headers["retry-after"]) == (503, "1")
            assert wire.counts.refused_inflight == 1
            assert wire.counts.inflight == 1

    async def test_a_stream_gives_its_place_back(self) -> None:
        async with wired(endless_feed, WireLimits(inflight=1)) as wire:
            await wire.client.send(get())
            await wire.client.until(b":\n\n")
            assert (wire.counts.inflight, wire.counts.streams) == (0, 1)
            await wire.client.stream.aclose()
            await wire.done.wait()
            assert (wire.counts.inflight, wire.counts.streams) == (0, 0)

    async def test_an_answer_of_known_length_keeps_its_place(self) -> None:
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await send(start((b"content-length", b"4")))
            await send(part(b"ab", more=True))
            places.append((wire.counts.inflight, wire.counts.streams))
            await send(part(b"cd", more=True))
            await send(part())

        places: list[tuple[int, int]] = []
        async with wired(app) as wire:
            assert (await wire.client.ask(get())).body == b"abcd"
            assert places == [(1, 0)]
            await wait_all_tasks_blocked()
            assert wire.counts.inflight == 0

    async def test_what_a_refused_peer_still_sends_is_read_for_a_moment(self, autojump_clock: MockClock) -> None:
        async with wired(echo, WireLimits(body_bytes=10)) as wire:
            assert (await wire.client.ask(post(b"x" * 1000)[:-1000])).status == 413
            began = trio.current_time()
            for _ in range(20):
                await wire.client.send(b"x" * 1000)
            await wait_all_tasks_blocked()
            assert wire.connection.reader.waiting == 0
            await wire.done.wait()
            assert LINGER_S <= trio.current_time() - began <= LINGER_S + SWEEP_S


class TestFailingApplications:
    async def test_one_that_fails_before_its_answer_is_answered_for(self) -> None:
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await send(start())
            raise ValueError("a detail")

        async with wired(app) as wire:
            answer = await wire.client.ask(get())
            assert answer.status == 500
            assert b"a detail" not in answer.body
            assert wire.counts.app_failures == 1
            assert await wire.client.rest() == b""

    @pytest.mark.parametrize("messages", [[], [start()]])
    async def test_one_that_says_nothing_is_answered_for(self, messages: list[dict[str, object]]) -> None:
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            for message in messages:
                await send(message)

        async with wired(app) as wire:
            assert (await wire.client.ask(get())).status == 500

    async def test_one_that_fails_in_the_middle_of_its_answer_cannot_make_it_look_whole(self) -> None:
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await send(start())
            await send(part(b"half", more=True))
            raise ValueError("a bug")

        async with wired(app) as wire:
            await wire.client.send(get())
            with pytest.raises(h11.RemoteProtocolError):
                await wire.client.answer()

    async def test_one_that_fails_after_its_answer_ends_the_connection(self) -> None:
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await echo(scope, receive, send)
            raise ValueError("a bug")

        async with wired(app) as wire:
            assert (await wire.client.ask(get())).body == b"GET / "
            assert await wire.client.rest() == b""
            assert wire.counts.app_failures == 1

    async def test_one_that_fails_while_it_is_cancelled_harms_nobody_else(self) -> None:
        async def fail() -> None:
            try:
                await trio.sleep_forever()
            finally:
                raise ValueError("a bug in the clean-up")

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await send(FEED)
            await send(part(b":\n\n", more=True))
            async with trio.open_nursery() as nursery:
                nursery.start_soon(fail)
                nursery.start_soon(trio.sleep_forever)

        async with wired(app) as wire:
            await wire.client.send(get())
            await wire.client.until(b":\n\n")
            await wait_all_tasks_blocked()
            wire.connection.drain()
            await wire.done.wait()
            assert wire.counts.app_failures == 1

    async def test_one_that_passes_on_that_its_peer_has_left_has_not_failed(self, autojump_clock: MockClock) -> None:
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            async with trio.open_nursery() as nursery:
                await trio.sleep(1)
                nursery.start_soon(echo, scope, receive, send)

        async with wired(app) as wire:
            await wire.client.send(get())
            await wait_all_tasks_blocked()
            await wire.client.stream.aclose()
            await wire.done.wait()
            assert wire.counts.app_failures == 0
