"""The SessionRegistry and its outboxes: limits, ownership, replacement, keep-alive, stuck readers."""

from __future__ import annotations

from itertools import pairwise

import pytest
import trio
import trio.testing

from crux.actors.mailbox import Mailbox
from crux.actors.outbox import MOST_BYTES, Outbox
from crux.actors.sessions import (
    KEEP_ALIVE,
    KEEP_ALIVE_S,
    LIST_CHANGED,
    SAID_AT_ONCE,
    AnnounceTools,
    AnnounceToolsOf,
    CloseStream,
    CountStreams,
    EndStreams,
    OpenStream,
    SessionRegistry,
    StreamOpened,
)
from crux.actors.supervisor import Supervised, start_all
from crux.domain.streams import SessionOwnerMismatch, StreamLimit, StreamLimits, owner_key

NO_LIMITS = StreamLimits(0, 0)


@pytest.fixture
async def registry(nursery: trio.Nursery) -> Mailbox:
    mailbox = Mailbox("sessions")
    await start_all(nursery, [Supervised(mailbox, SessionRegistry)])
    return mailbox


async def opened(
    registry: Mailbox, owner: str = "agent:bob", session_id: str | None = None, limits: StreamLimits = NO_LIMITS
) -> StreamOpened:
    return await registry.ask(OpenStream(owner, limits, session_id))


async def test_a_stream_without_an_id_gets_a_fresh_one(registry: Mailbox) -> None:
    first, second = await opened(registry), await opened(registry)
    assert len(first.session_id) == 32
    assert first.session_id != second.session_id
    assert await registry.ask(CountStreams()) == 2


async def test_an_announcement_reaches_all_streams_of_its_owners_and_no_other(
    registry: Mailbox, autojump_clock: trio.testing.MockClock
) -> None:
    of_bob = [await opened(registry), await opened(registry)]
    of_eve, of_sam = await opened(registry, "agent:eve"), await opened(registry, "agent:sam")
    assert await registry.ask(AnnounceToolsOf(frozenset({"agent:bob", "agent:eve", "agent:nobody"}))) == 3
    for stream in (*of_bob, of_eve):
        assert await stream.outbox.take() == LIST_CHANGED
    with trio.move_on_after(1) as waited:
        await of_sam.outbox.take()
    assert waited.cancelled_caught


async def test_an_announcement_reaches_its_stream_and_no_other(
    registry: Mailbox, autojump_clock: trio.testing.MockClock
) -> None:
    mine, other = await opened(registry, session_id="mine"), await opened(registry, session_id="other")
    assert await registry.ask(AnnounceTools("mine"))
    assert not await registry.ask(AnnounceTools("unknown"))
    assert await mine.outbox.take() == LIST_CHANGED
    with trio.move_on_after(1) as waited:
        await other.outbox.take()
    assert waited.cancelled_caught


async def test_the_newest_stream_of_the_same_session_and_owner_takes_over(registry: Mailbox) -> None:
    first = await opened(registry, session_id="s")
    second = await opened(registry, session_id="s")
    assert await first.outbox.take() == b""
    await registry.ask(CloseStream("s", first.outbox))
    assert await registry.ask(AnnounceTools("s")), "the end of the old one does not end the new one"
    assert await second.outbox.take() == LIST_CHANGED
    assert await registry.ask(CountStreams()) == 1


async def test_a_live_session_of_another_owner_is_refused_and_a_closed_one_is_not(registry: Mailbox) -> None:
    first = await opened(registry, "agent:bob", "s")
    with pytest.raises(SessionOwnerMismatch):
        await opened(registry, "agent:eve", "s")
    await registry.ask(CloseStream("s", first.outbox))
    await opened(registry, "agent:eve", "s")


@pytest.mark.parametrize(("limit", "open_before", "fits"), [(3, 2, True), (3, 3, False), (0, 100, True)])
async def test_there_are_as_many_streams_as_there_may_be(
    registry: Mailbox, limit: int, open_before: int, fits: bool
) -> None:
    for number in range(open_before):
        await opened(registry, f"ip:{number}")
    limits = StreamLimits(limit, 0)
    if fits:
        await opened(registry, limits=limits)
        return
    with pytest.raises(StreamLimit) as caught:
        await opened(registry, limits=limits)
    assert (caught.value.scope, caught.value.limit) == ("global", limit)


@pytest.mark.parametrize(("limit", "open_before", "fits"), [(3, 2, True), (3, 3, False), (0, 100, True)])
async def test_an_owner_has_as_many_as_it_may_have(registry: Mailbox, limit: int, open_before: int, fits: bool) -> None:
    for _ in range(open_before):
        await opened(registry, "agent:bob")
    limits = StreamLimits(0, limit)
    await opened(registry, "agent:eve", limits=limits)
    if fits:
        await opened(registry, "agent:bob", limits=limits)
        return
    with pytest.raises(StreamLimit) as caught:
        await opened(registry, "agent:bob", limits=limits)
    assert (caught.value.scope, caught.value.limit) == ("owner", limit)


async def test_replacing_a_stream_needs_no_place_of_its_own(registry: Mailbox) -> None:
    limits = StreamLimits(2, 2)
    await opened(registry, session_id="a", limits=limits)
    await opened(registry, session_id="b", limits=limits)
    await opened(registry, session_id="a", limits=limits)
    assert await registry.ask(CountStreams()) == 2


async def test_streams_that_ended_by_themselves_make_room(registry: Mailbox) -> None:
    limits = StreamLimits(1, 1)
    first = await opened(registry, limits=limits)
    first.outbox.end()
    await opened(registry, limits=limits)


async def test_every_stream_hears_something_within_the_keep_alive_time(
    registry: Mailbox, autojump_clock: trio.testing.MockClock
) -> None:
    streams = [await opened(registry) for _ in range(3)]
    began = trio.current_time()
    for stream in streams:
        assert await stream.outbox.take() == KEEP_ALIVE
    assert trio.current_time() - began <= KEEP_ALIVE_S


@pytest.mark.parametrize("count", [SAID_AT_ONCE, 4 * SAID_AT_ONCE + 1])
async def test_many_streams_are_woken_in_goes_between_which_others_have_a_turn(
    registry: Mailbox, autojump_clock: trio.testing.MockClock, nursery: trio.Nursery, count: int
) -> None:
    streams = [await opened(registry) for _ in range(count)]
    woken = 0
    seen: list[int] = []

    async def listen(stream: StreamOpened) -> None:
        nonlocal woken
        assert await stream.outbox.take() == KEEP_ALIVE
        woken += 1

    async def watch() -> None:
        while woken < count:
            await trio.lowlevel.checkpoint()
            if not seen or seen[-1] != woken:
                seen.append(woken)

    for stream in streams:
        nursery.start_soon(listen, stream)
    await trio.sleep(KEEP_ALIVE_S - 0.001)
    with trio.fail_after(1):
        await trio.sleep(0.001)
        await watch()
    goes = [later - earlier for earlier, later in pairwise([0, *seen])]
    assert max(goes) <= 2 * SAID_AT_ONCE, "a turn may come early after one go and late after the next"


async def test_a_stream_that_is_closed_between_two_goes_is_let_be(
    registry: Mailbox, autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    streams = [await opened(registry) for _ in range(SAID_AT_ONCE + 1)]

    async def close_the_last() -> None:
        await streams[0].outbox.take()
        await registry.ask(CloseStream(streams[-1].session_id, streams[-1].outbox))

    nursery.start_soon(close_the_last)
    await trio.sleep(KEEP_ALIVE_S + 1)
    assert await registry.ask(CountStreams()) == SAID_AT_ONCE


async def test_news_that_waits_is_not_told_twice_and_what_comes_after_it_was_taken_is_told(registry: Mailbox) -> None:
    busy = await opened(registry, session_id="busy")
    for _ in range(2):
        for _ in range(1000):
            assert await registry.ask(AnnounceTools("busy"))
        assert await busy.outbox.take() == LIST_CHANGED
    busy.outbox.put(LIST_CHANGED)
    busy.outbox.end()
    assert not await registry.ask(AnnounceTools("busy")), "it has ended, whatever waits"
    assert await registry.ask(CountStreams()) == 0


async def test_a_reader_that_does_not_take_one_keep_alive_before_the_next_loses_its_stream(
    registry: Mailbox, autojump_clock: trio.testing.MockClock
) -> None:
    stuck, slow = await opened(registry), await opened(registry)
    await registry.ask(AnnounceTools(stuck.session_id))
    await trio.sleep(KEEP_ALIVE_S * 1.5)
    assert await slow.outbox.take() == KEEP_ALIVE
    assert not stuck.outbox.ended
    await trio.sleep(KEEP_ALIVE_S)
    assert (stuck.outbox.ended, slow.outbox.ended) == (True, False)
    assert await registry.ask(CountStreams()) == 1
    assert await stuck.outbox.take() == LIST_CHANGED + KEEP_ALIVE


async def test_all_streams_end_together(registry: Mailbox) -> None:
    streams = [await opened(registry) for _ in range(3)]
    assert await registry.ask(EndStreams()) == 3
    assert [await stream.outbox.take() for stream in streams] == [b"", b"", b""]


async def test_a_restart_of_the_registry_ends_its_streams(autojump_clock: trio.testing.MockClock) -> None:
    mailbox = Mailbox("sessions")
    async with trio.open_nursery() as nursery:
        await start_all(nursery, [Supervised(mailbox, SessionRegistry)])
        stream = await opened(mailbox)
        nursery.cancel_scope.cancel()
    assert await stream.outbox.take() == b""


async def test_what_waited_is_sent_before_the_end() -> None:
    outbox = Outbox()
    outbox.put(b"a")
    outbox.put(b"b")
    outbox.end()
    assert not outbox.put(b"c")
    assert [await outbox.take(), await outbox.take()] == [b"ab", b""]


async def test_an_outbox_takes_no_more_than_its_bound_and_then_ends() -> None:
    outbox = Outbox()
    assert outbox.put(b"x" * (MOST_BYTES - 1))
    assert outbox.put(b"y")
    assert not outbox.put(b"z")
    assert outbox.ended
    assert len(await outbox.take()) == MOST_BYTES


async def test_a_cancelled_reader_leaves_nothing_behind() -> None:
    outbox = Outbox()
    with trio.CancelScope() as scope:
        scope.cancel()
        await outbox.take()
    outbox.put(b"a")
    assert await outbox.take() == b"a"


@pytest.mark.parametrize(
    ("agent", "address", "key"),
    [("bob", "10.0.0.1", "agent:bob"), (None, "10.0.0.1", "ip:10.0.0.1"), (None, None, "anonymous")],
)
def test_a_stream_belongs_to_the_agent_or_the_address(agent: str | None, address: str | None, key: str) -> None:
    assert owner_key(agent, address) == key
