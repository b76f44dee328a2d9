"""The TraceRing: a ring for each caller, for as long as it lasts."""

from __future__ import annotations

import msgspec
import pytest
import trio

from crux.actors import traces
from crux.actors.mailbox import Mailbox
from crux.actors.supervisor import Supervised, start_all
from crux.actors.traces import RecentCalls, RecentTraces, RecordTrace, TraceRing
from crux.domain.surface import CALLS_READ
from crux.domain.traces import Effect, TraceEntry, trace_of
from tests.conftest import HandClock

TTL_S = 60


@pytest.fixture
async def clock() -> HandClock:
    return HandClock()


@pytest.fixture
async def ring(nursery: trio.Nursery, clock: HandClock) -> Mailbox:
    mailbox = Mailbox("traces")
    await start_all(nursery, [Supervised(mailbox, lambda: TraceRing(clock, TTL_S))])
    return mailbox


def record(ring: Mailbox, clock: HandClock, tool: str, *, caller: str = "bob", entity: str = "") -> TraceEntry:
    arguments = {"entity": entity}
    text = msgspec.json.encode(arguments)
    trace = trace_of(tool, Effect.FACT_READ, arguments, text, ok=True, ts_us=clock.now_us())
    assert ring.tell(RecordTrace(caller, trace))
    return trace.entry()


async def test_a_caller_sees_its_own_newest_calls(ring: Mailbox, clock: HandClock) -> None:
    entries = [record(ring, clock, f"t{number}") for number in range(3)]
    record(ring, clock, "other", caller="eve")
    assert await ring.ask(RecentTraces("bob", 2)) == (entries[2], entries[1])
    assert await ring.ask(RecentTraces("nobody", 2)) == ()


async def test_effects_on_reserved_entities_are_kept_back(ring: Mailbox, clock: HandClock) -> None:
    record(ring, clock, "query_facts", entity="__ops::x")
    (shown,) = await ring.ask(RecentTraces("bob", 10))
    assert (shown.tool, shown.predicted_effects) == ("query_facts", ())


async def test_the_surface_gets_as_many_names_as_it_reads(ring: Mailbox, clock: HandClock) -> None:
    for number in range(CALLS_READ + 1):
        record(ring, clock, f"t{number}")
    names = await ring.ask(RecentCalls("bob"))
    assert names == tuple(f"t{number}" for number in range(CALLS_READ, 0, -1))
    assert await ring.ask(RecentCalls("nobody")) == ()


async def test_what_is_too_old_is_gone_without_a_call_that_follows(ring: Mailbox, clock: HandClock) -> None:
    record(ring, clock, "old")
    clock.us += TTL_S * 1_000_000
    assert await ring.ask(RecentCalls("bob")) == ("old",)
    clock.us += 1
    assert await ring.ask(RecentCalls("bob")) == ()


async def test_of_too_many_callers_the_one_that_called_longest_ago_is_forgotten(
    ring: Mailbox, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(traces, "MOST_CALLERS", 2)
    for caller in ("a", "b", "a"):
        record(ring, clock, "t", caller=caller)
    assert await ring.ask(RecentCalls("b")) == ("t",)
    record(ring, clock, "t", caller="c")
    assert [await ring.ask(RecentCalls(caller)) for caller in "abc"] == [("t", "t"), (), ("t",)]
