"""The Meter: totals for each caller."""

from __future__ import annotations

import pytest
import trio

from crux.actors import meter as meter_module
from crux.actors.mailbox import Mailbox
from crux.actors.meter import Meter, RecordUsage, UsageOf
from crux.actors.supervisor import Supervised, start_all
from crux.domain.usage import Usage


@pytest.fixture
async def meter(nursery: trio.Nursery) -> Mailbox:
    mailbox = Mailbox("meter")
    await start_all(nursery, [Supervised(mailbox, Meter)])
    return mailbox


async def test_each_caller_has_totals_of_its_own(meter: Mailbox) -> None:
    meter.tell(RecordUsage("bob", 10, 100, 500))
    meter.tell(RecordUsage("bob", 1, 2))
    meter.tell(RecordUsage("eve", 7, 7))
    assert await meter.ask(UsageOf("bob")) == Usage(2, 11, 102, 500)
    assert await meter.ask(UsageOf("eve")) == Usage(1, 7, 7, 0)


async def test_who_has_not_called_has_used_nothing(meter: Mailbox) -> None:
    assert await meter.ask(UsageOf("bob")) == Usage()


async def test_of_too_many_callers_the_one_that_called_longest_ago_is_forgotten(
    meter: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(meter_module, "MOST_CALLERS", 2)
    for caller in ("a", "b", "a"):
        meter.tell(RecordUsage(caller, 1, 1))
    assert (await meter.ask(UsageOf("b"))).calls == 1
    meter.tell(RecordUsage("c", 1, 1))
    assert [(await meter.ask(UsageOf(caller))).calls for caller in "abc"] == [2, 0, 1]
