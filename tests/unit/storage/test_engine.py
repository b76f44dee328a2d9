"""The engine: durable batches, savepoints, versions, search - against SQLite itself."""

import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from crux.domain.commands import (
    Chain,
    Delete,
    Deleted,
    Entities,
    Erase,
    Export,
    FactById,
    Head,
    Page,
    Probe,
    Put,
    Search,
    Seed,
    Stored,
    Transact,
)
from crux.domain.decay import DecayPolicy, Horizon
from crux.domain.facts import Draft, Fact
from crux.domain.messages import Message
from crux.domain.privacy import ANONYMOUS, RAW_ADMIN, Viewer, private_entity
from crux.errors import Conflict, CruxError, Denied, InvalidArgument, StorageFull
from crux.storage.engine import SqliteEngine
from crux.storage.readers import ReadTooLong

NOW = 1_800_000_000_000_000
HOUR = 3_600_000_000
BOB, EVE = Viewer(("bob",)), Viewer(("eve",))


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[SqliteEngine]:
    opened = await SqliteEngine.open(tmp_path, DecayPolicy())
    yield opened
    opened.close()


async def commit(engine: SqliteEngine, *commands: Message[object], now_us: int = NOW) -> list[object]:
    return await engine.commit(commands, now_us)


async def put(engine: SqliteEngine, entity: str, key: str, value: str, now_us: int = NOW, **more: object) -> Fact:
    (stored,) = await commit(engine, Put(Draft(entity, key, value, **more)), now_us=now_us)  # type: ignore[arg-type]
    assert isinstance(stored, Stored)
    return stored.fact


def found(engine: SqliteEngine, viewer: Viewer = ANONYMOUS, **search: object) -> list[str]:
    reply = engine.read_now(Search(viewer=viewer, now_us=NOW, **search))  # type: ignore[arg-type]
    return [fact.value for fact in reply.facts]  # type: ignore[attr-defined]


async def test_storing_again_makes_the_next_version_and_retires_the_one_before(engine: SqliteEngine) -> None:
    first = await put(engine, "a", "k", "one")
    second = await put(engine, "a", "k", "two")
    assert (first.version, second.version, second.supersedes) == (1, 2, first.fact_id)
    one, two = engine.read_now(Chain("a", "k", ANONYMOUS))  # type: ignore[misc]
    assert (one.superseded_by, two.superseded_by) == (second.fact_id, None)


async def test_a_deleted_head_gives_its_number_to_the_next_one_and_does_not_come_back(engine: SqliteEngine) -> None:
    await put(engine, "a", "k", "one")
    head = await put(engine, "a", "k", "two")
    assert await commit(engine, Delete(head.fact_id, ANONYMOUS)) == [Deleted(True)]
    assert found(engine, entity="a") == []
    third = await put(engine, "a", "k", "three")
    assert third.version == 2
    assert found(engine, entity="a") == ["three"]


async def test_a_wholly_deleted_chain_is_numbered_from_one_again(engine: SqliteEngine) -> None:
    only = await put(engine, "a", "k", "one")
    await commit(engine, Delete(only.fact_id, ANONYMOUS))
    assert (await put(engine, "a", "k", "again")).version == 1


@pytest.mark.parametrize("viewer", [ANONYMOUS, EVE])
async def test_a_private_fact_is_nobody_else_s(engine: SqliteEngine, viewer: Viewer) -> None:
    fact = await put(engine, private_entity("bob", "a"), "k", "secret", private=True)
    assert found(engine, viewer, words=("secret",)) == []
    assert found(engine, viewer, entity="a") == found(engine, viewer, entity=fact.entity) == []
    assert engine.read_now(Chain("a", "k", viewer)) == ()
    assert engine.read_now(Entities(viewer)) == ()
    assert engine.read_now(Export(viewer)) == Page((), None)
    assert await commit(engine, Delete(fact.fact_id, viewer)) == [Deleted(False)]
    (refused,) = await commit(engine, Put(Draft("b", "k", "v"), viewer, (fact.fact_id,)))
    assert isinstance(refused, InvalidArgument)
    assert found(engine, BOB, words=("secret",)) == ["secret"]


async def test_owners_whose_names_hold_the_separator_do_not_share_names(engine: SqliteEngine) -> None:
    await put(engine, private_entity("a::b", "c"), "k", "of a::b", private=True)
    await put(engine, private_entity("a", "b::c"), "k", "of a", private=True)
    assert found(engine, Viewer(("a",))) == ["of a"]
    assert found(engine, Viewer(("a::b",))) == ["of a::b"]


async def test_the_daemon_s_own_facts_are_shown_to_the_administrator_alone(engine: SqliteEngine) -> None:
    fact = await put(engine, "__work__::1", "record", "x", private=True)
    assert found(engine, BOB) == []
    assert found(engine, RAW_ADMIN, entity_prefix="__work__::") == ["x"]
    (refused,) = await commit(engine, Delete(fact.fact_id, RAW_ADMIN))
    assert isinstance(refused, Denied)


async def test_a_refused_command_leaves_no_trace_and_its_neighbours_stand(engine: SqliteEngine) -> None:
    outcomes = await commit(
        engine,
        Put(Draft("a", "k", "1")),
        Transact((Put(Draft("b", "k", "2")), Put(Draft("c", "k", "3"), expected_version=7))),
        Put(Draft("d", "k", "4")),
    )
    assert [type(result) for result in outcomes] == [Stored, Conflict, Stored]
    assert engine.read_now(Entities(ANONYMOUS)) == ("a", "d")


@pytest.mark.parametrize(("expected", "accepted"), [(0, False), (1, True), (2, False)])
async def test_an_expected_version_must_be_the_head_s(engine: SqliteEngine, expected: int, accepted: bool) -> None:
    await put(engine, "a", "k", "one")
    (result,) = await commit(engine, Put(Draft("a", "k", "two"), expected_version=expected))
    assert isinstance(result, Stored) is accepted


async def test_expected_version_zero_means_an_empty_chain(engine: SqliteEngine) -> None:
    (first, second) = await commit(
        engine,
        Put(Draft("a", "k", "1"), expected_version=0),
        Put(Draft("a", "k", "2"), expected_version=0),
    )
    assert isinstance(first, Stored)
    assert isinstance(second, Conflict)


async def test_a_record_without_history_keeps_one_version_and_counts_on(engine: SqliteEngine) -> None:
    for value in ("1", "2", "3"):
        await commit(engine, Put(Draft("s", "state", value), keep_history=False))
    (only,) = engine.read_now(Chain("s", "state", ANONYMOUS))  # type: ignore[misc]
    assert (only.version, only.value, only.supersedes) == (3, "3", None)


async def test_erasing_a_chain_removes_it_from_the_search_too(engine: SqliteEngine) -> None:
    await put(engine, "a", "k", "needle")
    assert await commit(engine, Erase("a", "k"), Erase("a", "k")) == [Deleted(True), Deleted(False)]
    assert found(engine, words=("needle",)) == []
    assert engine.read_now(Head("a", "k")) is None


async def test_seeding_adds_what_is_absent_and_leaves_edits_and_deletions_alone(engine: SqliteEngine) -> None:
    drafts = (Draft("b:1", "k", "one"), Draft("b:2", "k", "two"))
    assert await commit(engine, Seed(drafts)) == [2]
    await put(engine, "b:1", "k", "edited")
    gone = engine.read_now(Head("b:2", "k"))
    assert isinstance(gone, Fact)
    await commit(engine, Delete(gone.fact_id, ANONYMOUS))
    assert await commit(engine, Seed((*drafts, Draft("b:3", "k", "three")))) == [1]
    assert found(engine) == ["three", "edited"]


async def test_retired_facts_are_found_only_when_asked_for(engine: SqliteEngine) -> None:
    old = await put(engine, "old name", "k", "value")
    (stored,) = await commit(engine, Put(Draft("new name", "k", "value"), retires=(old.fact_id,)))
    assert isinstance(stored, Stored)
    assert stored.retired == (old.fact_id,)
    assert engine.read_now(FactById(old.fact_id)).superseded_by == stored.fact.fact_id  # type: ignore[attr-defined]
    assert len(found(engine, words=("value",))) == 1
    assert len(found(engine, words=("value",), include_superseded=True)) == 2


@pytest.mark.parametrize(
    ("words", "hit"),
    [
        (("ell",), True),
        (("hello",), True),
        (("lo",), True),
        (("o",), True),
        (("zzz",), False),
        (("zzz", "wör"), True),
        (("zz", "ö"), True),
        (('"',), False),
        (('he"llo',), False),
        (("hello*",), False),
        (("or",), False),
        (("near(",), False),
        (("北京",), True),
        (("京市",), True),
        (("🦀",), True),
        (("service:x",), True),
        (("owner",), True),
    ],
)
async def test_a_word_matches_any_part_and_is_never_an_operator(
    engine: SqliteEngine, words: tuple[str, ...], hit: bool
) -> None:
    await put(engine, "Service:X", "OWNER", "Hello WÖRLD 北京市 🦀")
    assert bool(found(engine, words=words)) is hit
    assert bool(found(engine, words=words, include_superseded=True)) is hit


async def test_facts_come_best_effective_confidence_first_then_newest(engine: SqliteEngine) -> None:
    await put(engine, "a", "1", "stale", now_us=NOW - 25 * HOUR, horizon=Horizon.VOLATILE)
    await put(engine, "a", "2", "fresh", now_us=NOW - 23 * HOUR, horizon=Horizon.VOLATILE)
    await put(engine, "a", "3", "half", confidence=0.6)
    await put(engine, "a", "4", "half, newer", now_us=NOW + 1, confidence=0.6)
    assert found(engine, entity="a") == ["fresh", "half, newer", "half", "stale"]
    assert found(engine, entity="a", decayed=False) == ["fresh", "stale", "half, newer", "half"]


async def test_a_fact_exactly_at_its_horizon_is_still_fresh(engine: SqliteEngine) -> None:
    await put(engine, "a", "1", "at", now_us=NOW - 24 * HOUR, horizon=Horizon.VOLATILE)
    await put(engine, "a", "2", "past", now_us=NOW - 24 * HOUR - 1, horizon=Horizon.VOLATILE)
    assert found(engine, entity="a", min_effective_confidence=0.75) == ["at"]


async def test_the_floor_counts_what_it_keeps_back(engine: SqliteEngine) -> None:
    for number in range(10):
        await put(engine, "a", str(number), "v", confidence=number / 10)
    reply = engine.read_now(Search(viewer=ANONYMOUS, now_us=NOW, min_effective_confidence=0.7, top_k=2))
    assert (len(reply.facts), reply.total, reply.below_floor) == (2, 3, 7)  # type: ignore[attr-defined]


async def test_a_floor_that_keeps_everything_back_still_counts_it(engine: SqliteEngine) -> None:
    await put(engine, "a", "k", "v", confidence=0.5)
    reply = engine.read_now(Search(viewer=ANONYMOUS, now_us=NOW, min_effective_confidence=0.9))
    assert (reply.facts, reply.total, reply.below_floor) == ((), 0, 1)  # type: ignore[attr-defined]


async def test_as_of_keeps_facts_whose_interval_holds_the_moment(engine: SqliteEngine) -> None:
    await put(engine, "a", "1", "always")
    await put(engine, "a", "2", "then", valid_from_us=100, valid_to_us=200)
    assert sorted(found(engine, as_of_us=100)) == ["always", "then"]
    assert sorted(found(engine, as_of_us=199)) == ["always", "then"]
    assert found(engine, as_of_us=200) == found(engine, as_of_us=99) == ["always"]


async def test_tenants_do_not_see_each_other(engine: SqliteEngine) -> None:
    mine = await put(engine, "a", "k", "mine", tenant="one")
    await put(engine, "a", "k", "theirs", tenant="two")
    assert found(engine, tenant="one") == ["mine"]
    assert found(engine, tenant="two", words=("mine",)) == []
    assert await commit(engine, Delete(mine.fact_id, ANONYMOUS, tenant="two")) == [Deleted(False)]


async def test_an_export_comes_in_pages_that_join_without_gap_or_repeat(engine: SqliteEngine) -> None:
    for number in range(5):
        await put(engine, "a", str(number), str(number), now_us=NOW + number)
    values: list[str] = []
    cursor: int | None = 0
    while cursor is not None:
        page = engine.read_now(Export(ANONYMOUS, since_us=NOW + 1, cursor=cursor, limit=2))
        assert isinstance(page, Page)
        values += [fact.value for fact in page.facts]
        cursor = page.next_cursor
    assert values == ["1", "2", "3", "4"]


async def test_a_long_read_leaves_the_event_loop_s_thread(engine: SqliteEngine) -> None:
    await commit(engine, *(Put(Draft(f"e{n}", "k", "common words")) for n in range(4000)))
    search = Search(viewer=ANONYMOUS, now_us=NOW, words=("common",), top_k=3)
    with pytest.raises(ReadTooLong):
        engine.read_now(search)
    reply = await engine.read_apart(search, 10)
    assert reply.total == 4000  # type: ignore[attr-defined]
    assert found(engine, entity="e17") == ["common words"], "the next short read has all of its steps"


async def test_a_read_beyond_its_deadline_is_ended(engine: SqliteEngine) -> None:
    await commit(engine, *(Put(Draft(f"e{n}", "k", "common words")) for n in range(4000)))
    with pytest.raises(CruxError, match="narrow it"):
        await engine.read_apart(Search(viewer=ANONYMOUS, now_us=NOW, words=("common",)), -1)


async def test_many_short_reads_in_a_row_never_add_up_to_a_long_one(engine: SqliteEngine) -> None:
    await commit(engine, *(Put(Draft(f"e{n}", "k", f"value {n}")) for n in range(200)))
    for _ in range(300):
        assert len(found(engine, words=("value",))) == 10


async def test_a_full_disk_refuses_the_large_write_and_takes_the_small_ones_beside_it(
    engine: SqliteEngine, tmp_path: Path
) -> None:
    limit = engine.sizes()["database"] // 4096 + 40
    engine._writer._connection.execute(f"PRAGMA max_page_count = {limit}")
    small, large, other = await commit(
        engine,
        Put(Draft("small", "k", "v")),
        Put(Draft("large", "k", "x" * 1_000_000)),
        Put(Draft("other", "k", "v")),
    )
    assert isinstance(large, StorageFull)
    assert isinstance(small, Stored)
    assert isinstance(other, Stored)
    assert engine.read_now(Entities(ANONYMOUS)) == ("other", "small")
    engine._writer._connection.execute("PRAGMA max_page_count = 1000000")
    assert await commit(engine, Probe()) == [None]
    assert (await put(engine, "large", "k", "x" * 1_000_000)).version == 1


async def test_a_bug_in_one_command_is_an_outcome_of_its_own(
    engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Unknown(Message[None]):
        pass

    bug, stored = await commit(engine, Unknown(), Put(Draft("a", "k", "v")))
    assert isinstance(bug, KeyError)
    assert isinstance(stored, Stored)


async def test_what_was_acknowledged_is_there_after_a_reopening(tmp_path: Path) -> None:
    engine = await SqliteEngine.open(tmp_path, DecayPolicy())
    fact = await put(engine, "a", "k", "kept", source_receipt="r1", actor="bob", horizon=Horizon.STABLE)
    engine.close()
    again = await SqliteEngine.open(tmp_path, DecayPolicy())
    assert again.read_now(FactById(fact.fact_id)) == fact
    again.close()


async def test_readers_cannot_write(engine: SqliteEngine) -> None:
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        engine._readers._inline.execute("DELETE FROM facts")
