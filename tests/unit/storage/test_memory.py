"""The memory panel and the janitor against SQLite itself."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from crux.domain.commands import Chain, Delete, Put, Records
from crux.domain.decay import DAY_US, HOUR_US, DecayPolicy, Horizon
from crux.domain.facts import Draft, Fact
from crux.domain.memory import (
    REVERIFY_PREFIX,
    Aging,
    Edited,
    EditFact,
    FactsById,
    PinFact,
    Reverify,
    SetHorizon,
    Viewed,
    ViewMemory,
)
from crux.domain.messages import Message
from crux.domain.privacy import ANONYMOUS, RAW_ADMIN, Viewer, private_entity
from crux.errors import Denied, InvalidArgument
from crux.storage.engine import SqliteEngine

R = TypeVar("R")
NOW = 1_800_000_000_000_000
BOB, EVE = Viewer(("bob",)), Viewer(("eve",))


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[SqliteEngine]:
    opened = await SqliteEngine.open(tmp_path, DecayPolicy())
    yield opened
    opened.close()


async def do(engine: SqliteEngine, command: Message[R], now_us: int = NOW) -> R:
    """The reply to one write; raises what refused it."""
    (outcome,) = await engine.commit([command], now_us)
    if isinstance(outcome, Exception):
        raise outcome
    reply: Any = outcome
    return reply  # type: ignore[no-any-return]


def look(engine: SqliteEngine, message: Message[R]) -> R:
    reply: Any = engine._readers._idle[0].read(message, lambda: False)  # however long it takes
    return reply  # type: ignore[no-any-return]


async def put(engine: SqliteEngine, entity: str, value: str, now_us: int = NOW, **more: Any) -> Fact:
    return (await do(engine, Put(Draft(entity, "k", value, **more)), now_us)).fact


async def put_private(engine: SqliteEngine, owner: str, entity: str, value: str) -> Fact:
    return await put(engine, private_entity(owner, entity), value, private=True)


async def test_the_view_shows_the_latest_first_replaced_ones_too_and_nothing_that_is_not_memory(
    engine: SqliteEngine,
) -> None:
    await put(engine, "a", "1", NOW)
    await put(engine, "a", "2", NOW + 1)
    await put_private(engine, "bob", "b", "3")
    await put_private(engine, "eve", "b", "4")
    await put(engine, "__bootstrap__::x", "5", private=True)
    await put_private(engine, "bob", "__bootstrap__::x", "6")
    gone = await put(engine, "c", "7")
    await do(engine, Delete(gone.fact_id, ANONYMOUS))
    values = [remembered.fact.value for remembered in look(engine, ViewMemory(BOB)).facts]
    assert values == ["2", "3", "1"]
    assert [remembered.fact.value for remembered in look(engine, ViewMemory()).facts] == ["2", "1"]
    assert [remembered.fact.value for remembered in look(engine, ViewMemory(limit=1)).facts] == ["2"]
    assert [remembered.fact.value for remembered in look(engine, ViewMemory(BOB, entity="b")).facts] == ["3"]
    assert look(engine, ViewMemory(BOB, key="other")) == Viewed((), 0)


async def test_time_orders_memory_whatever_the_clock_did_and_sureness_what_is_of_one_moment(
    engine: SqliteEngine,
) -> None:
    sureness = [0.5, 0.9, 0.1, 0.7]
    await engine.commit([Put(Draft(f"e{sure}", "k", "v", confidence=sure)) for sure in sureness], NOW)
    await put(engine, "before", "v", NOW - 1)
    latest = look(engine, ViewMemory(limit=2)).facts
    assert [remembered.fact.entity for remembered in latest] == ["e0.9", "e0.7"]
    everything = look(engine, ViewMemory()).facts
    assert [remembered.fact.entity for remembered in everything] == ["e0.9", "e0.7", "e0.5", "e0.1", "before"]
    assert [fact.entity for fact in look(engine, Aging(BOB, NOW, limit=2))] == ["before", "e0.5"]


@pytest.mark.parametrize(("budget", "values"), [(None, 3), (0, 1), (9, 1), (29, 2), (30, 3), (99, 3)])
async def test_a_view_reads_no_values_that_its_budget_has_no_room_for(
    engine: SqliteEngine, budget: int | None, values: int
) -> None:
    for number in range(3):
        await put(engine, f"e{number}", "x" * 40, NOW + number)
    viewed = look(engine, ViewMemory(limit=3, token_budget=budget))
    assert [remembered.fact.entity for remembered in viewed.facts] == ["e2", "e1", "e0"][:values]
    assert viewed.left_out == 3 - values
    assert all(len(remembered.fact.value) == 40 for remembered in viewed.facts)


async def test_a_pin_is_its_agent_s_own_and_the_last_word_counts(engine: SqliteEngine) -> None:
    fact = await put(engine, "a", "1")
    await do(engine, PinFact(fact.fact_id, True, BOB, "bob"))
    assert [remembered.pinned for remembered in look(engine, ViewMemory(BOB, "bob")).facts] == [True]
    assert [remembered.pinned for remembered in look(engine, ViewMemory(EVE, "eve")).facts] == [False]
    assert [remembered.pinned for remembered in look(engine, ViewMemory()).facts] == [False]
    await do(engine, PinFact(fact.fact_id, False, BOB, "bob"))
    assert [remembered.pinned for remembered in look(engine, ViewMemory(BOB, "bob")).facts] == [False]


async def test_an_edit_is_a_version_that_keeps_what_the_fact_is_and_its_pin(engine: SqliteEngine) -> None:
    fact = await put(engine, "a", "1", confidence=0.5, horizon=Horizon.MEDIUM, source_receipt="r")
    await do(engine, PinFact(fact.fact_id, True, BOB, "bob"))
    edited = await do(engine, EditFact(fact.fact_id, "2", "typo", BOB, "bob"))
    assert edited == Edited(edited.fact, pinned=True)
    assert (edited.fact.entity, edited.fact.value, edited.fact.version) == ("a", "2", 2)
    assert (edited.fact.confidence, edited.fact.horizon, edited.fact.actor) == (0.5, Horizon.MEDIUM, "bob")
    assert (edited.fact.source_receipt, edited.fact.supersedes) == ("memory_edit:typo", fact.fact_id)
    unpinned = await do(engine, EditFact(edited.fact.fact_id, "3", None, EVE, "eve"))
    assert (unpinned.pinned, unpinned.fact.source_receipt) == (False, None)


async def test_an_edit_of_an_old_version_replaces_the_head(engine: SqliteEngine) -> None:
    first = await put(engine, "a", "1")
    second = await put(engine, "a", "2")
    edited = await do(engine, EditFact(first.fact_id, "3", None, BOB, "bob"))
    assert (edited.fact.version, edited.fact.supersedes) == (3, second.fact_id)


async def test_an_own_private_fact_stays_private_when_it_is_edited(engine: SqliteEngine) -> None:
    fact = await put_private(engine, "bob", "a", "1")
    edited = await do(engine, EditFact(fact.fact_id, "2", None, BOB, "bob"))
    assert (edited.fact.entity, edited.fact.private) == (private_entity("bob", "a"), True)


async def test_what_is_not_there_for_the_caller_is_changed_by_nothing(engine: SqliteEngine) -> None:
    private = await put_private(engine, "eve", "a", "1")
    gone = await put(engine, "b", "1")
    await do(engine, Delete(gone.fact_id, ANONYMOUS))
    other = await put(engine, "c", "1", tenant="acme")
    for fact_id in (private.fact_id, gone.fact_id, other.fact_id, "f_unknown"):
        for write in (EditFact(fact_id, "x", None, BOB, "bob"), PinFact(fact_id, True, BOB, "bob")):
            with pytest.raises(InvalidArgument, match=f"no fact {fact_id} that you can see"):
                await do(engine, write)
        assert await do(engine, SetHorizon(fact_id, Horizon.STABLE, BOB)) is False
        assert await do(engine, Reverify(fact_id, "rev_1", BOB, "bob")) is None
    assert look(engine, Records("__")) == ()


@pytest.mark.parametrize("entity", ["__work__::1", "__bootstrap__::x"])
async def test_what_belongs_to_the_daemon_is_refused_to_whoever_sees_it(engine: SqliteEngine, entity: str) -> None:
    fact = await put(engine, entity, "1")
    writes: tuple[Message[Any], ...] = (
        EditFact(fact.fact_id, "x", None, RAW_ADMIN, "bob"),
        PinFact(fact.fact_id, True, RAW_ADMIN, "bob"),
        SetHorizon(fact.fact_id, Horizon.STABLE, RAW_ADMIN),
        Reverify(fact.fact_id, "rev_1", RAW_ADMIN, "bob"),
    )
    for write in writes:
        with pytest.raises(Denied, match="has tools of its own"):
            await do(engine, write)


async def test_a_horizon_is_changed_in_place(engine: SqliteEngine) -> None:
    fact = await put(engine, "a", "1")
    assert await do(engine, SetHorizon(fact.fact_id, Horizon.VOLATILE, ANONYMOUS)) is True
    (version,) = look(engine, Chain("a", "k", ANONYMOUS))
    assert (version.fact_id, version.horizon, version.version) == (fact.fact_id, Horizon.VOLATILE, 1)


async def test_a_reverified_fact_is_fresh_again_and_the_receipt_says_who_said_so(engine: SqliteEngine) -> None:
    fact = await put(engine, "a", "1", horizon=Horizon.VOLATILE)
    later = NOW + 2 * DAY_US
    assert [old.fact_id for old in look(engine, Aging(BOB, later, out_of_date=True))] == [fact.fact_id]
    assert await do(engine, Reverify(fact.fact_id, "rev_1", BOB, "bob"), later) == later
    assert look(engine, Aging(BOB, later, out_of_date=True)) == ()
    (receipt,) = look(engine, Records(REVERIFY_PREFIX))
    assert (receipt.entity, receipt.key, receipt.horizon) == (
        f"{REVERIFY_PREFIX}{fact.fact_id}",
        "rev_1",
        Horizon.STABLE,
    )
    assert receipt.value == (
        f'{{"fact_id":"{fact.fact_id}","reverified_by":"bob","reverified_at":"2027-01-17T08:00:00.000000Z","class":"Reverify"}}'
    )


async def test_the_janitor_lists_the_oldest_first_up_to_the_bound_of_a_horizon(engine: SqliteEngine) -> None:
    facts = [await put(engine, name, "1", NOW + n, horizon=Horizon.VOLATILE) for n, name in enumerate("abc")]
    await put(engine, "d", "1", NOW)
    await put(engine, "d", "2", NOW + 9)
    at_the_bound = NOW + 1 + 24 * HOUR_US
    listed = look(engine, Aging(ANONYMOUS, at_the_bound, out_of_date=True))
    assert [(fact.entity, fact.version, fact.value) for fact in listed] == [("a", 1, ""), ("d", 1, "")], "b is at it"
    assert [fact.entity for fact in look(engine, Aging(ANONYMOUS, NOW, limit=2))] == ["a", "d"]
    assert [fact.fact_id for fact in look(engine, Aging(ANONYMOUS, NOW, entity="b"))] == [facts[1].fact_id]
    assert look(engine, Aging(ANONYMOUS, NOW, key="other")) == ()


async def test_facts_are_read_by_their_ids_in_order(engine: SqliteEngine) -> None:
    first, second = await put(engine, "a", "1"), await put(engine, "b", "2")
    read = look(engine, FactsById((second.fact_id, "f_unknown", first.fact_id)))
    assert [fact and (fact.entity, fact.value) for fact in read] == [("b", ""), None, ("a", "")]


async def test_pins_horizons_and_reverifications_outlive_the_daemon(tmp_path: Path) -> None:
    engine = await SqliteEngine.open(tmp_path, DecayPolicy())
    fact = await put(engine, "a", "1")
    await do(engine, PinFact(fact.fact_id, True, BOB, "bob"))
    await do(engine, SetHorizon(fact.fact_id, Horizon.MEDIUM, BOB))
    await do(engine, Reverify(fact.fact_id, "rev_1", BOB, "bob"), NOW + 5)
    engine.close()
    engine = await SqliteEngine.open(tmp_path, DecayPolicy())
    (remembered,) = look(engine, ViewMemory(BOB, "bob")).facts
    assert (remembered.pinned, remembered.fact.horizon, remembered.fact.reverified_at_us) == (
        True,
        Horizon.MEDIUM,
        NOW + 5,
    )
    engine.close()
