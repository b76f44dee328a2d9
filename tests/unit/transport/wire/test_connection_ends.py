"""How one connection ends when its peer leaves or the server stops: over memory, by a clock that jumps."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from crux.transport.asgi import Message, Receive, Scope, Send
from crux.transport.wire.byways import StreamByway
from crux.transport.wire.connection import MOST_WAITING
from crux.transport.wire.states import Doing
from tests.wires import (
    FEED,
    Slow,
    Streams,
    Wired,
    body_of,
    echo,
    ended_after,
    endless_feed,
    get,
    part,
    post,
    start,
    wired,
)

EVENTS = (b"content-type", b"text/event-stream; charset=utf-8")


class TestPeersThatLeave:
    @pytest.mark.parametrize("headers", [(), (EVENTS,)])
    async def test_a_stream_is_cancelled_when_the_peer_ends_its_side(
        self, autojump_clock: MockClock, headers: tuple[tuple[bytes, bytes]]
    ) -> None:
        app = Streams(headers)
        async with wired(app) as wire:
            await wire.client.send(get())
            await wire.client.until(b"x")
            await hang_up(wire)
            await wire.done.wait()
            assert app.cancelled.is_set()

    async def test_a_stream_that_begins_after_the_peer_has_left_is_cancelled(self, autojump_clock: MockClock) -> None:
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await body_of(receive)
            assert (await receive())["type"] == "http.disconnect"
            await streams(scope, receive, send)

        streams = Streams()
        async with wired(app) as wire:
            await wire.client.send(get())
            await hang_up(wire)
            await wire.done.wait()
            assert streams.cancelled.is_set()

    async def test_a_stream_is_cancelled_by_a_send_that_fails(self, autojump_clock: MockClock) -> None:
        """Where what the peer sent ahead keeps its leaving from being read."""
        app = Streams()
        async with wired(app) as wire:
            await wire.client.send(get())
            await wire.client.until(b"x")
            await wire.client.send(b"y" * MOST_WAITING)
            await wait_all_tasks_blocked()
            await wire.client.stream.aclose()
            await wire.done.wait()
            assert app.cancelled.is_set()

    async def test_an_answer_is_computed_to_its_end_and_dropped(self, autojump_clock: MockClock) -> None:
        app = Slow()
        async with wired(app) as wire:
            await wire.client.send(get())
            await wait_all_tasks_blocked()
            await wire.client.stream.aclose()
            await wire.done.wait()
            assert app.finished
            assert app.told
            assert wire.counts.inflight == 0
            assert wire.counts.app_failures == 0

    async def test_what_one_asked_for_besides_is_not_begun(self, autojump_clock: MockClock) -> None:
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            paths.append(scope["path"])
            await trio.sleep(1)
            await send(start())
            with suppress(OSError):
                await send(part(b"dropped"))

        paths: list[str] = []
        async with wired(app) as wire:
            await wire.client.send(get("/a") + get("/b"))
            await wait_all_tasks_blocked()
            await wire.client.stream.aclose()
            await wire.done.wait()
            assert paths == ["/a"]

    async def test_after_a_stream_that_was_to_be_cancelled_nothing_is_begun(self, autojump_clock: MockClock) -> None:
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            paths.append(scope["path"])
            with trio.CancelScope(shield=True):
                await send(FEED)
                await send(part(b"first", more=True))
                await trio.sleep(1)
                await send(part(b"last"))

        paths: list[str] = []
        async with wired(app) as wire:
            await wire.client.send(get("/a") + get("/b"))
            await hang_up(wire)
            await wire.done.wait()
            assert paths == ["/a"]

    async def test_a_peer_that_only_ended_its_side_gets_its_answer(self, autojump_clock: MockClock) -> None:
        async with wired(Slow()) as wire:
            await wire.client.send(get())
            await hang_up(wire)
            assert (await wire.client.answer()).body == b"done"
            await wire.done.wait()

    async def test_an_application_that_asks_is_told(self, autojump_clock: MockClock) -> None:
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await body_of(receive)
            messages.extend([await receive(), await receive()])

        messages: list[Message] = []
        async with wired(app) as wire:
            await wire.client.send(post(b"body"))
            await wait_all_tasks_blocked()
            assert not messages
            await wire.client.stream.aclose()
            await wire.done.wait()
            assert messages == [{"type": "http.disconnect"}] * 2

    async def test_one_that_leaves_in_the_middle_of_its_body_is_told_of(self, autojump_clock: MockClock) -> None:
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            bodies.append(await body_of(receive))

        bodies: list[bytes | None] = []
        async with wired(app) as wire:
            await wire.client.send(post(b"body")[:-1])
            await wire.client.stream.aclose()
            await wire.done.wait()
            assert bodies == [None]
            assert wire.counts.app_failures == wire.counts.bad_requests == 0

    async def test_an_application_that_listens_while_it_answers_keeps_no_request_from_the_next(
        self, autojump_clock: MockClock
    ) -> None:
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            assert await body_of(receive) == b""
            async with trio.open_nursery() as nursery:
                nursery.start_soon(receive)
                await trio.sleep(1)
                await send(start())
                await send(part(scope["path"].encode()))

        async with wired(app) as wire:
            await wire.client.send(get("/a"))
            await wait_all_tasks_blocked()
            await wire.client.send(get("/b"))
            assert [(await wire.client.answer()).body for _ in range(2)] == [b"/a", b"/b"]
            assert (await wire.client.ask(get("/c"))).body == b"/c"
            await hang_up(wire)
            await wire.done.wait()


class Belated(StreamByway):
    """A channel that has something left when it is closed, as TLS may."""

    left = b"x" * MOST_WAITING

    async def read(self) -> bytes:
        try:
            return await super().read()
        except trio.ClosedResourceError:
            if not self.left:
                raise
            left, self.left = self.left, b""
            return left


async def test_nothing_goes_on_after_the_end(autojump_clock: MockClock) -> None:
    async with wired(endless_feed, byway=Belated) as wire:
        await wire.client.send(get())
        await wire.client.until(b":\n\n")
        await wire.connection.cut()
        await trio.sleep(1)
        assert len(wire.place.nursery.child_tasks) == 1, "the sweep"


async def hang_up(wire: Wired) -> None:
    """End the client's side, as a FIN does; it could still read."""
    await wait_all_tasks_blocked()
    assert isinstance(wire.client.stream, trio.StapledStream)
    await wire.client.stream.send_eof()


class TestDrain:
    @pytest.fixture
    async def feed(self) -> AsyncIterator[Wired]:
        async with wired(endless_feed, lockstep=True) as wire:
            await wire.client.send(get())
            await wire.client.until(b":\n\n")
            await wait_all_tasks_blocked()
            assert wire.connection.doing is Doing.FEEDING
            yield wire

    async def test_a_feed_ends_with_its_terminator(self, autojump_clock: MockClock, feed: Wired) -> None:
        feed.connection.drain()
        assert await feed.client.rest() == b"\r\n0\r\n\r\n"
        await feed.done.wait()

    async def test_a_feed_to_a_peer_that_does_not_read_ends_without(
        self, autojump_clock: MockClock, feed: Wired
    ) -> None:
        feed.connection.drain()
        assert await ended_after(feed, 2)

    async def test_an_idle_connection_ends(self, autojump_clock: MockClock) -> None:
        async with wired(echo) as wire:
            await wire.client.ask(get())
            wire.connection.drain()
            assert await wire.client.rest() == b""

    async def test_a_feed_that_is_sending_ends_when_it_has_sent(self, autojump_clock: MockClock) -> None:
        async with wired(Streams((EVENTS,), each=b"x" * 10), lockstep=True) as wire:
            await wire.client.send(get())
            await wire.client.until(b"\r\n\r\n")
            assert wire.connection.write_deadline > trio.current_time()
            drain(wire)
            await trio.sleep(5)
            assert await wire.client.rest() == b"a\r\nxxxxxxxxxx\r\n0\r\n\r\n"

    async def test_a_feed_that_begins_ends_after_its_first_event(self, autojump_clock: MockClock) -> None:
        async with wired(endless_feed) as wire:
            await wire.client.send(get()[:-1])
            await wait_all_tasks_blocked()
            drain(wire)
            answer = await wire.client.ask(get()[-1:])
            assert (answer.body, answer.headers["connection"]) == (b":\n\n", "close")

    async def test_another_stream_goes_on_to_its_end(self, autojump_clock: MockClock) -> None:
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await send(start())
            for line in range(10):
                await send(part(b"%d\n" % line, more=True))
                await trio.sleep(1)
            await send(part())

        async with wired(app) as wire:
            await wire.client.send(get())
            await wait_all_tasks_blocked()
            drain(wire)
            assert (await wire.client.answer()).body.count(b"\n") == 10
            assert await wire.client.rest() == b""

    async def test_a_request_under_way_is_answered_and_its_connection_closed(self, autojump_clock: MockClock) -> None:
        async with wired(Slow()) as wire:
            await wire.client.send(get() + get())
            await wait_all_tasks_blocked()
            drain(wire)
            answer = await wire.client.answer()
            assert (answer.body, answer.headers["connection"]) == (b"done", "close")
            assert await wire.client.rest() == b""

    async def test_an_answer_that_is_out_already_leaves_no_idle_connection(self, autojump_clock: MockClock) -> None:
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await echo(scope, receive, send)
            await trio.sleep(5)

        async with wired(app) as wire:
            await wire.client.ask(get())
            drain(wire)
            assert await wire.client.rest() == b""
            assert trio.current_time() == 5

    async def test_a_cut_ends_also_what_shields_itself(self, autojump_clock: MockClock) -> None:
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            with trio.CancelScope(shield=True):
                await send(FEED)
                try:
                    await send(part(b"x", more=True))
                except OSError:
                    told.set()

        told = trio.Event()
        async with wired(app, lockstep=True) as wire:
            await wire.client.send(get())
            await wait_all_tasks_blocked()
            await wire.connection.cut()
            await wire.done.wait()
            assert told.is_set()
            assert trio.current_time() == 0


def drain(wire: Wired) -> None:
    wire.place.draining = True
    wire.connection.drain()
