"""How one connection ends, over memory and by a clock that jumps: deadlines on both sides, peers that leave, drains."""

from __future__ import annotations

from collections.abc import AsyncIterator

import h11
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from crux.transport.asgi import Message, Receive, Scope, Send
from crux.transport.wire import WireLimits
from crux.transport.wire.connection import MOST_WAITING
from crux.transport.wire.server import SWEEP_S
from crux.transport.wire.states import Doing
from tests.wires import FEED, Slow, Streams, Wired, body_of, echo, endless_feed, get, part, post, start, wired

LIMITS = WireLimits(body_rate=100, write_s=10)
EVENTS = (b"content-type", b"text/event-stream; charset=utf-8")


async def ended_after(wire: Wired, seconds: float) -> bool:
    """Whether the connection ends after so many seconds, give or take the sweep."""
    began = trio.current_time()
    await wire.done.wait()
    return seconds <= trio.current_time() - began <= seconds + SWEEP_S


class TestSlowPeers:
    async def test_one_that_says_nothing_is_closed_in_the_time_of_a_head(self, autojump_clock: MockClock) -> None:
        async with wired(echo) as wire:
            assert await ended_after(wire, LIMITS.head_s)
            assert await wire.client.rest() == b""
            assert wire.counts.idle_closed == 1

    async def test_a_head_that_trickles_in_does_not_get_more_time(self, autojump_clock: MockClock) -> None:
        async with wired(echo) as wire:
            await trio.sleep(5)
            began = trio.current_time()
            for byte in get("/" + "x" * 8)[:10]:
                await wire.client.send(bytes([byte]))
                await trio.sleep(1)
            assert (await wire.client.answer()).status == 408
            assert LIMITS.head_s <= trio.current_time() - began <= LIMITS.head_s + SWEEP_S
            assert await wire.client.rest() == b""
            assert (wire.counts.late_heads, wire.counts.idle_closed) == (1, 0)

    async def test_a_head_that_comes_in_time_is_served(self, autojump_clock: MockClock) -> None:
        async with wired(echo) as wire:
            await wire.client.send(get()[:-1])
            await trio.sleep(LIMITS.head_s - 0.1)
            assert (await wire.client.ask(get()[-1:])).status == 200

    async def test_an_idle_connection_is_closed_when_its_time_is_up(self, autojump_clock: MockClock) -> None:
        async with wired(echo) as wire:
            for _ in range(2):
                await wire.client.ask(get())
                await trio.sleep(LIMITS.idle_s - 0.1)
            await wire.client.ask(get())
            assert await ended_after(wire, LIMITS.idle_s)
            assert wire.counts.idle_closed == 1

    async def test_a_body_that_does_not_come_is_told_so(self, autojump_clock: MockClock) -> None:
        async with wired(echo, LIMITS) as wire:
            assert (await wire.client.ask(post(b"x" * 500)[:-300])).status == 408
            assert trio.current_time() >= LIMITS.body_grace_s + 200 / LIMITS.body_rate
            assert wire.counts.late_bodies == 1
            assert await wire.client.rest() == b""

    async def test_a_body_below_the_least_rate_is_late(self, autojump_clock: MockClock) -> None:
        async with wired(echo, LIMITS) as wire, trio.open_nursery() as nursery:
            nursery.start_soon(trickle, wire, 50)
            assert (await wire.client.answer()).status == 408
            assert abs(trio.current_time() - 20) <= SWEEP_S  # ten seconds of grace, and one for each two
            nursery.cancel_scope.cancel()

    async def test_a_body_at_the_least_rate_is_read(self, autojump_clock: MockClock) -> None:
        async with wired(echo, LIMITS) as wire, trio.open_nursery() as nursery:
            nursery.start_soon(trickle, wire, 100)
            assert (await wire.client.answer()).status == 200

    async def test_the_time_that_the_application_takes_is_not_the_peers(self, autojump_clock: MockClock) -> None:
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            size = 0
            while (message := await receive())["more_body"]:
                size += len(message["body"])
                await trio.sleep(100)
            await send(start())
            await send(part(b"%d" % (size + len(message["body"]))))

        async with wired(app, LIMITS) as wire, trio.open_nursery() as nursery:
            nursery.start_soon(trickle, wire, 100, 3)
            assert (await wire.client.answer()).body == b"300"

    async def test_a_wait_for_the_body_that_the_application_gives_up_leaves_no_deadline(
        self, autojump_clock: MockClock
    ) -> None:
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            with trio.move_on_after(1):
                await receive()
            await trio.sleep(LIMITS.body_grace_s * 2)
            await send(start())
            await send(part(b"never mind"))

        async with wired(app, LIMITS) as wire:
            assert (await wire.client.ask(post(b"x")[:-1])).body == b"never mind"
            assert wire.counts.late_bodies == 0

    async def test_a_late_body_of_an_answer_that_has_begun_only_ends_it(self, autojump_clock: MockClock) -> None:
        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await send(start())
            await send(part(b"begun", more=True))
            await body_of(receive)

        async with wired(app, LIMITS) as wire:
            await wire.client.send(post(b"x")[:-1])
            with pytest.raises(h11.RemoteProtocolError):
                await wire.client.answer()
            assert wire.counts.late_bodies == 1

    async def test_one_that_does_not_hang_up_after_the_last_word_is_hung_up_on(self, autojump_clock: MockClock) -> None:
        async with wired(echo) as wire:
            await wire.client.ask(get("/", "Connection: close"))
            assert await wire.client.rest() == b""
            await wire.done.wait()
            assert wire.counts.late_heads == wire.counts.idle_closed == 0


async def trickle(wire: Wired, each: int, times: int = 30) -> None:
    """Send a body, so many bytes a second."""
    await wire.client.send(post(b"x" * each * times)[: -each * times])
    for _ in range(times):
        await trio.sleep(1)
        await wire.client.send(b"x" * each)


class TestPeersThatDoNotRead:
    async def test_a_stream_to_one_is_cut_and_counted(self, autojump_clock: MockClock) -> None:
        app = Streams()
        async with wired(app, LIMITS, lockstep=True) as wire:
            await wire.client.send(get())
            assert await ended_after(wire, LIMITS.write_s)
            assert app.cancelled.is_set()
            assert wire.counts.stuck_writes == 1

    async def test_an_application_that_answers_one_is_told_that_it_has_left_and_finishes(
        self, autojump_clock: MockClock
    ) -> None:
        app = Slow(answer=b"x" * 100)
        async with wired(app, LIMITS, lockstep=True) as wire:
            await wire.client.send(get())
            assert await ended_after(wire, app.seconds + LIMITS.write_s)
            assert app.told
            assert app.finished
            assert wire.counts.stuck_writes == 1
            assert wire.counts.inflight == 0

    async def test_one_that_reads_slowly_is_served(self, autojump_clock: MockClock) -> None:
        app = Slow(answer=b"x" * 64 * 1024 * 5)
        async with wired(app, LIMITS, lockstep=True) as wire:
            await wire.client.send(get())
            taken = 0
            while taken < len(app.answer):
                await trio.sleep(LIMITS.write_s - 1)
                taken += len(await wire.client.stream.receive_some(64 * 1024))
            assert wire.counts.stuck_writes == 0

    async def test_a_refusal_to_one_is_given_up(self, autojump_clock: MockClock) -> None:
        async with wired(echo, LIMITS, lockstep=True) as wire:
            await wire.client.send(b"nonsense\r\n\r\n")
            assert await ended_after(wire, LIMITS.write_s)
            assert wire.counts.stuck_writes == 1

    async def test_what_one_sends_ahead_is_bounded(self, autojump_clock: MockClock) -> None:
        async with wired(endless_feed) as wire:
            await wire.client.send(get())
            await wire.client.until(b":\n\n")
            for _ in range(10):
                await wire.client.send(b"x" * MOST_WAITING)
                await wait_all_tasks_blocked()
            assert wire.connection.reader.waiting <= 2 * MOST_WAITING


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
            assert trio.current_time() >= 5

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
