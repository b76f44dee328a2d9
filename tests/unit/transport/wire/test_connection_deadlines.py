"""What a peer has to send and to read in time: one connection over memory, by a clock that jumps."""

from __future__ import annotations

import h11
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from crux.transport.asgi import Receive, Scope, Send
from crux.transport.wire import WireLimits
from crux.transport.wire.connection import LINGER_S, MOST_WAITING
from crux.transport.wire.server import SWEEP_S
from tests.wires import (
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

LIMITS = WireLimits(body_rate=100, write_s=10)


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

    async def test_one_that_is_late_and_does_not_read_either_is_counted_once(self, autojump_clock: MockClock) -> None:
        async with wired(echo, lockstep=True) as wire:
            await wire.client.send(get()[:-1])
            assert await ended_after(wire, LIMITS.head_s + LINGER_S)
            assert (wire.counts.late_heads, wire.counts.stuck_writes) == (1, 0)

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
            assert trio.current_time() >= LIMITS.body_grace_s
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
