"""The Gaps actor: gaps are written once for all that wait, counted on after a restart, and bounded."""

import pytest
from trio.testing import wait_all_tasks_blocked

from crux.actors import gaps as gaps_module
from crux.actors.gaps import Gaps
from crux.domain.commands import Records
from crux.domain.gaps import GAPS_PREFIX, NoteGap, queries_of
from tests.conftest import Stack
from tests.unit.actors.stores import kept_back, noted


async def kept(stack: Stack, tenant: str = "default") -> dict[str, int]:
    records = await stack.services.recall.ask(Records(GAPS_PREFIX, tenant))
    return {fact.key: queries_of(fact) for fact in records}


async def tell(stack: Stack, *words: str, tenant: str = "default") -> None:
    for word in words:
        assert stack.services.gaps.tell(NoteGap(tenant, (word,), 1))
    await settled(stack)


async def settled(stack: Stack) -> None:
    """Until the Gaps have handled what they were told: an ask waits behind it."""
    await stack.services.gaps.ask(NoteGap("settle", ("x",), 1))


async def test_a_gap_is_counted_each_time_and_kept_once(stack: Stack) -> None:
    await tell(stack, "zebra", "lion", "zebra")
    await tell(stack, "zebra")
    assert await kept(stack) == {"zebra": 3, "lion": 1}


async def test_all_that_wait_are_one_write(stack: Stack) -> None:
    await settled(stack)
    gate, batches = kept_back(stack.engine), noted(stack.engine)
    stack.services.gaps.tell(NoteGap("default", ("first",), 1))
    await wait_all_tasks_blocked()
    for number in range(50):
        stack.services.gaps.tell(NoteGap("default", (f"word{number % 5}",), 1))
    gate.set()
    await settled(stack)
    assert len(batches) <= 3
    assert await kept(stack) == {"first": 1, **{f"word{number}": 10 for number in range(5)}}


async def test_a_restart_counts_on(stack: Stack) -> None:
    await tell(stack, "zebra", "zebra")
    again = Gaps(stack.services.facts, stack.services.recall)
    await again.handle([NoteGap("default", ("zebra",), 2)])
    assert await kept(stack) == {"zebra": 3}


async def test_of_too_many_the_one_asked_for_longest_ago_goes(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gaps_module, "MOST_GAPS", 2)
    await tell(stack, "one", "two")
    await tell(stack, "one")
    assert set(await kept(stack)) == {"one", "two"}
    await tell(stack, "three")
    assert await kept(stack) == {"one": 2, "three": 1}


async def test_tenants_have_gaps_of_their_own(stack: Stack) -> None:
    await tell(stack, "zebra")
    await tell(stack, "lion", tenant="acme")
    assert await kept(stack) == {"zebra": 1}
    assert await kept(stack, "acme") == {"lion": 1}


async def test_what_cannot_be_written_is_refused_and_the_next_one_is_kept(stack: Stack) -> None:
    await tell(stack, "zebra")
    kept_back(stack.engine, lands=False).set()
    stack.services.gaps.tell(NoteGap("default", ("lion",), 1))
    await wait_all_tasks_blocked()
    assert stack.services.gaps.figures.refused == 1
    await tell(stack, "zebra")
    assert await kept(stack) == {"zebra": 2}
