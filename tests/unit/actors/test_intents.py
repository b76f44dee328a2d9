"""The IntentMap: what callers declare, for how long it counts, and how much is kept of it."""

from __future__ import annotations

import pytest
import trio

from crux.actors.intents import CurrentIntent, DeclareIntent, IntentMap
from crux.actors.mailbox import Mailbox
from crux.actors.supervisor import Supervised, start_all
from crux.domain.callers import MOST_CALLERS
from crux.domain.surface import MOST_INTENT_CHARACTERS
from crux.errors import ActorFailed
from tests.conftest import HandClock

HOUR_US = 3_600_000_000


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
async def intents(nursery: trio.Nursery, clock: HandClock) -> Mailbox:
    mailbox = Mailbox("intents")
    await start_all(nursery, [Supervised(mailbox, lambda: IntentMap(clock))])
    return mailbox


async def test_each_caller_has_the_intent_that_it_declared_last(intents: Mailbox) -> None:
    await intents.ask(DeclareIntent("alice", "audit_review"))
    await intents.ask(DeclareIntent("__anon__", "gardening"))
    await intents.ask(DeclareIntent("alice", "  session_review\n"))
    assert await intents.ask(CurrentIntent("alice")) == "session_review"
    assert await intents.ask(CurrentIntent("__anon__")) == "gardening"
    assert await intents.ask(CurrentIntent("bob")) is None


async def test_a_blank_intent_clears_the_caller_s_own_and_no_other(intents: Mailbox) -> None:
    await intents.ask(DeclareIntent("alice", "audit_review"))
    await intents.ask(DeclareIntent("bob", "audit_review"))
    await intents.ask(DeclareIntent("alice", " \t"))
    await intents.ask(DeclareIntent("nobody", ""))
    assert await intents.ask(CurrentIntent("alice")) is None
    assert await intents.ask(CurrentIntent("bob")) == "audit_review"


async def test_an_intent_counts_for_an_hour_to_the_microsecond(intents: Mailbox, clock: HandClock) -> None:
    await intents.ask(DeclareIntent("alice", "audit_review"))
    clock.us += HOUR_US
    assert await intents.ask(CurrentIntent("alice")) == "audit_review"
    clock.us += 1
    assert await intents.ask(CurrentIntent("alice")) is None
    clock.us -= HOUR_US
    assert await intents.ask(CurrentIntent("alice")) is None, "it was forgotten, not only hidden"


async def test_declaring_again_begins_the_hour_anew(intents: Mailbox, clock: HandClock) -> None:
    await intents.ask(DeclareIntent("alice", "audit_review"))
    clock.us += HOUR_US
    await intents.ask(DeclareIntent("alice", "audit_review"))
    clock.us += HOUR_US
    assert await intents.ask(CurrentIntent("alice")) == "audit_review"


@pytest.mark.parametrize("size", [MOST_INTENT_CHARACTERS, MOST_INTENT_CHARACTERS + 1, 100_000])
async def test_of_a_long_intent_the_start_is_kept(intents: Mailbox, size: int) -> None:
    await intents.ask(DeclareIntent("alice", "é" * size))
    assert await intents.ask(CurrentIntent("alice")) == "é" * MOST_INTENT_CHARACTERS


async def test_of_too_many_callers_the_one_that_declared_longest_ago_is_forgotten(intents: Mailbox) -> None:
    for n in range(MOST_CALLERS):
        await intents.ask(DeclareIntent(f"c{n}", "audit_review"))
    assert await intents.ask(CurrentIntent("c0")) == "audit_review"
    await intents.ask(DeclareIntent("c0", "audit_review"))
    assert await intents.ask(CurrentIntent("c1")) == "audit_review", "one that is known takes nobody's place"
    await intents.ask(DeclareIntent("one more", "audit_review"))
    assert await intents.ask(CurrentIntent("c1")) is None
    for kept in ("c0", "c2", f"c{MOST_CALLERS - 1}", "one more"):
        assert await intents.ask(CurrentIntent(kept)) == "audit_review"


async def test_a_restart_leaves_no_intent(nursery: trio.Nursery, autojump_clock: object) -> None:
    class Breaking(HandClock):
        broken = False

        def now_us(self) -> int:
            if self.broken:
                raise RuntimeError("no time")
            return super().now_us()

    mailbox, clock = Mailbox("intents"), Breaking()
    await start_all(nursery, [Supervised(mailbox, lambda: IntentMap(clock))])
    await mailbox.ask(DeclareIntent("alice", "audit_review"))
    clock.broken = True
    with pytest.raises(ActorFailed):
        await mailbox.ask(CurrentIntent("alice"))
    clock.broken = False
    assert await mailbox.ask(CurrentIntent("alice")) is None
