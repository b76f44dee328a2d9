"""The engine: durable batches, savepoints, versions, search - against SQLite itself."""

import sqlite3
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, TypeVar, cast

import pytest
import trio

from crux.domain.commands import (
    Chain,
    Delete,
    Deleted,
    Entities,
    Erase,
    Export,
    FactById,
    Head,
    Last,
    Newest,
    Page,
    Probe,
    Put,
    Records,
    Search,
    Seed,
    Stored,
    Transact,
)
from crux.domain.decay import DecayPolicy, Horizon, salience
from crux.domain.facts import Draft, Fact, Recalls
from crux.domain.messages import Message
from crux.domain.privacy import ANONYMOUS, RAW_ADMIN, Viewer, private_entity
from crux.errors import (
    Conflict,
    CruxError,
    Denied,
    InvalidArgument,
    Overloaded,
    ResultTooLarge,
    StorageFull,
    StorageUnavailable,
)
from crux.storage import search as search_module
from crux.storage import writer as writer_module
from crux.storage.engine import SqliteEngine
from crux.storage.readers import ReadTooLong

R = TypeVar("R")

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


def read(engine: SqliteEngine, message: Message[object]) -> object:
    """The reply to a read, however long it takes."""
    return engine._readers._idle[0].read(message, lambda: False)


def look(engine: SqliteEngine, message: Message[R]) -> R:
    """The reply to a read, as the type that the message names."""
    return cast("R", read(engine, message))


def found(engine: SqliteEngine, viewer: Viewer = ANONYMOUS, **search: object) -> list[str]:
    asked = Search(viewer=viewer, now_us=NOW, **search)  # type: ignore[arg-type]
    reply: Any = engine._readers._idle[0].read(asked, lambda: False)
    return [fact.value for fact in reply.facts]


async def test_storing_again_makes_the_next_version_and_retires_the_one_before(engine: SqliteEngine) -> None:
    first = await put(engine, "a", "k", "one")
    second = await put(engine, "a", "k", "two")
    assert (first.version, second.version, second.supersedes) == (1, 2, first.fact_id)
    one, two = look(engine, Chain("a", "k", ANONYMOUS))
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
    assert read(engine, Chain("a", "k", viewer)) == ()
    assert read(engine, Entities(viewer)) == ()
    assert read(engine, Export(viewer)) == Page((), None)
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
    assert read(engine, Entities(ANONYMOUS)) == ("a", "d")


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
    (only,) = look(engine, Chain("s", "state", ANONYMOUS))
    assert (only.version, only.value, only.supersedes) == (3, "3", None)


async def test_the_last_chain_of_an_entity_is_the_one_whose_key_sorts_last(engine: SqliteEngine) -> None:
    assert look(engine, Last("a")) is None
    for entity, key in (("a", "2"), ("a", "3"), ("a", "1"), ("ab", "9"), (private_entity("bob", "a"), "8")):
        await put(engine, entity, key, f"{entity} {key}")
    await put(engine, "a", "7", "elsewhere", tenant="other")
    gone = await put(engine, "a", "4", "gone")
    await commit(engine, Delete(gone.fact_id, ANONYMOUS))
    newest = await put(engine, "a", "3", "again")
    assert look(engine, Last("a")) == newest
    own = look(engine, Last(private_entity("bob", "a")))
    assert own is not None
    assert own.key == "8"
    elsewhere = look(engine, Last("a", "other"))
    assert elsewhere is not None
    assert elsewhere.key == "7"


async def test_records_are_the_live_heads_of_all_entities_that_start_so(engine: SqliteEngine) -> None:
    assert look(engine, Records("r::")) == ()
    names = (("r::b", "2"), ("r::b", "1"), ("r::a", "9"), ("r::", "0"), ("r:", "x"), ("r:;", "x"), ("q", "x"))
    for entity, key in (*names, (private_entity("bob", "r::b"), "8")):
        await put(engine, entity, key, "first")
    await put(engine, "r::c", "7", "elsewhere", tenant="other")
    gone = await put(engine, "r::d", "4", "gone")
    await commit(engine, Delete(gone.fact_id, ANONYMOUS), Erase("r::", "0"))
    await put(engine, "r::b", "1", "again", private=True)
    records = look(engine, Records("r::"))
    assert [(fact.entity, fact.key, fact.value) for fact in records] == [
        ("r::a", "9", "first"),
        ("r::b", "1", "again"),
        ("r::b", "2", "first"),
    ]
    assert [look(engine, Head(fact.entity, fact.key)) for fact in records] == list(records)
    assert [fact.value for fact in look(engine, Records("r::", "other"))] == ["elsewhere"]
    assert [fact.key for fact in look(engine, Records(private_entity("bob", "r")))] == ["8"]


async def test_a_wildcard_in_a_prefix_is_a_character(engine: SqliteEngine) -> None:
    for entity in ("a_b", "axb", "a%b", "A_b"):
        await put(engine, entity, "k", "v")
    assert [fact.entity for fact in look(engine, Records("a_"))] == ["a_b"]


@pytest.mark.parametrize(
    ("limit", "keys"), [(-1, []), (0, []), (1, ["3"]), (2, ["2", "3"]), (3, ["1", "2", "3"]), (4, ["1", "2", "3"])]
)
async def test_the_newest_are_the_live_heads_whose_keys_sort_last(
    engine: SqliteEngine, limit: int, keys: list[str]
) -> None:
    for entity, key in (("a", "2"), ("a", "3"), ("a", "1"), ("ab", "9"), (private_entity("bob", "a"), "8")):
        await put(engine, entity, key, "first")
    await put(engine, "a", "7", "elsewhere", tenant="other")
    gone = await put(engine, "a", "4", "gone")
    await commit(engine, Delete(gone.fact_id, ANONYMOUS))
    await put(engine, "a", "2", "again")
    newest = look(engine, Newest("a", limit))
    assert [fact.key for fact in newest] == keys
    assert [look(engine, Head("a", fact.key)) for fact in newest] == list(newest)
    assert [fact.key for fact in look(engine, Newest("a", 9, "other"))] == ["7"]
    assert [fact.key for fact in look(engine, Newest(private_entity("bob", "a"), 9))] == ["8"]


async def test_the_newest_cost_the_same_however_many_there_are(engine: SqliteEngine) -> None:
    async def steps(of: Message[object]) -> int:
        looks: list[None] = []
        engine._readers._inline.read(of, lambda: bool(looks.append(None)))  # type: ignore[func-returns-value]
        return len(looks)

    await commit(engine, *(Put(Draft("log", f"{place:020}", "x")) for place in range(4000)))
    assert await steps(Newest("log", 5)) <= 2
    assert await steps(Newest("log", 4000)) > 20, "so that the one above says something"


async def test_many_records_are_read_on_another_thread(engine: SqliteEngine) -> None:
    await commit(engine, *(Put(Draft(f"r::{number}", "record", "x")) for number in range(5000)))
    with pytest.raises(ReadTooLong):
        engine.read_now(Records("r::"))
    reply: Any = await engine.read_apart(Records("r::"), 10, lambda: True)
    assert len(reply) == 5000


async def test_erasing_a_chain_removes_it_from_the_search_too(engine: SqliteEngine) -> None:
    await put(engine, "a", "k", "needle")
    assert await commit(engine, Erase("a", "k"), Erase("a", "k")) == [Deleted(True), Deleted(False)]
    assert found(engine, words=("needle",)) == []
    assert read(engine, Head("a", "k")) is None


def stock(entity: str, value: str) -> Draft:
    return Draft(entity, "k", value, source_receipt="stock")


async def test_seeding_adds_what_is_absent_and_leaves_edits_and_deletions_alone(engine: SqliteEngine) -> None:
    drafts = (stock("b:1", "one"), stock("b:2", "two"))
    assert await commit(engine, Seed(drafts)) == [2]
    await put(engine, "b:1", "k", "edited")
    gone = read(engine, Head("b:2", "k"))
    assert isinstance(gone, Fact)
    await commit(engine, Delete(gone.fact_id, ANONYMOUS))
    assert await commit(engine, Seed((*drafts, stock("b:3", "three")))) == [1]
    assert found(engine) == ["three", "edited"]


async def test_seeding_renews_stock_that_nobody_edited(engine: SqliteEngine) -> None:
    await commit(engine, Seed((stock("b:1", "old"),)))
    assert await commit(engine, Seed((stock("b:1", "new"),))) == [1]
    assert found(engine) == ["new"]
    assert await commit(engine, Seed((stock("b:1", "new"),))) == [0]


async def test_retired_facts_are_found_only_when_asked_for(engine: SqliteEngine) -> None:
    old = await put(engine, "old name", "k", "value")
    (stored,) = await commit(engine, Put(Draft("new name", "k", "value"), retires=(old.fact_id,)))
    assert isinstance(stored, Stored)
    assert stored.retired == (old.fact_id,)
    retired = look(engine, FactById(old.fact_id))
    assert retired is not None
    assert retired.superseded_by == stored.fact.fact_id
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


@pytest.mark.parametrize("count", [1, 10, 10**9])
async def test_a_fact_that_is_recalled_often_is_fresh_for_longer(engine: SqliteEngine, count: int) -> None:
    limit = int(24 * HOUR * salience(count))
    for key, age in (("at", limit), ("past", limit + 1)):
        await put(engine, "a", key, key, now_us=NOW - age, horizon=Horizon.VOLATILE)
    recalls = {fact.fact_id: Recalls(count, NOW) for fact in look(engine, Search(viewer=ANONYMOUS, now_us=NOW)).facts}
    assert found(engine, entity="a", min_effective_confidence=0.75) == []
    assert found(engine, entity="a", min_effective_confidence=0.75, recalls=recalls) == ["at"]
    assert found(engine, entity="a", recalls=recalls) == ["at", "past"]
    assert found(engine, entity="a", recalls={"f_other": Recalls(9, NOW)}, min_effective_confidence=0.75) == []


async def test_the_floor_counts_what_it_keeps_back(engine: SqliteEngine) -> None:
    for number in range(10):
        await put(engine, "a", str(number), "v", confidence=number / 10)
    reply = look(engine, Search(viewer=ANONYMOUS, now_us=NOW, min_effective_confidence=0.7, top_k=2))
    assert (len(reply.facts), reply.total, reply.below_floor) == (2, 3, 7)


async def test_a_floor_that_keeps_everything_back_still_counts_it(engine: SqliteEngine) -> None:
    await put(engine, "a", "k", "v", confidence=0.5)
    reply = look(engine, Search(viewer=ANONYMOUS, now_us=NOW, min_effective_confidence=0.9))
    assert (reply.facts, reply.total, reply.below_floor) == ((), 0, 1)


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
        page = read(engine, Export(ANONYMOUS, since_us=NOW + 1, cursor=cursor, limit=2))
        assert isinstance(page, Page)
        values += [fact.value for fact in page.facts]
        cursor = page.next_cursor
    assert values == ["1", "2", "3", "4"]


async def test_a_long_read_leaves_the_event_loop_s_thread(engine: SqliteEngine) -> None:
    await commit(engine, *(Put(Draft(f"e{n}", "k", "common words")) for n in range(4000)))
    search = Search(viewer=ANONYMOUS, now_us=NOW, words=("common",), top_k=3)
    with pytest.raises(ReadTooLong):
        engine.read_now(search)
    reply: Any = await engine.read_apart(search, 10, lambda: True)
    assert reply.total == 4000
    assert found(engine, entity="e17") == ["common words"], "the next short read has all of its steps"


async def test_a_read_beyond_its_deadline_is_ended(engine: SqliteEngine) -> None:
    await commit(engine, *(Put(Draft(f"e{n}", "k", "common words")) for n in range(4000)))
    with pytest.raises(CruxError, match="narrow it"):
        await engine.read_apart(Search(viewer=ANONYMOUS, now_us=NOW, words=("common",)), -1, lambda: True)


async def test_a_read_that_nobody_waits_for_is_ended(engine: SqliteEngine) -> None:
    await commit(engine, *(Put(Draft(f"e{n}", "k", "common words")) for n in range(4000)))
    looks = iter([True, False])
    with pytest.raises(Overloaded):
        await engine.read_apart(Search(viewer=ANONYMOUS, now_us=NOW, words=("common",)), 60, lambda: next(looks, False))


async def test_a_cancelled_read_ends_in_the_middle(engine: SqliteEngine) -> None:
    endless = trio.Event()

    def look() -> bool:
        trio.from_thread.run_sync(endless.set)
        return True

    await commit(engine, *(Put(Draft(f"e{n}", "k", "common words")) for n in range(4000)))
    async with trio.open_nursery() as nursery:
        search = Search(viewer=ANONYMOUS, now_us=NOW, words=("co",), include_superseded=True)
        nursery.start_soon(engine.read_apart, search, 60, look)
        await endless.wait()
        nursery.cancel_scope.cancel()
    assert len(engine._readers._idle) == 4, "its connection is free again"


@pytest.mark.parametrize(
    ("search", "apart"),
    [
        ({"words": ("abc",)}, False),
        ({"words": ("ab",)}, True),
        ({"words": ("abc", "d")}, True),
        ({"words": ("abc",), "include_superseded": True}, True),
        ({"include_superseded": True}, False),
        ({"entity": "a"}, False),
    ],
)
async def test_a_search_without_an_index_is_never_begun_on_the_event_loop_s_thread(
    engine: SqliteEngine, search: dict[str, object], apart: bool
) -> None:
    asked = Search(viewer=ANONYMOUS, now_us=NOW, **search)  # type: ignore[arg-type]
    if apart:
        with pytest.raises(ReadTooLong):
            engine.read_now(asked)
    else:
        engine.read_now(asked)


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
    assert read(engine, Entities(ANONYMOUS)) == ("other", "small")
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
    assert read(again, FactById(fact.fact_id)) == fact
    again.close()


async def test_readers_cannot_write(engine: SqliteEngine) -> None:
    with pytest.raises(sqlite3.OperationalError, match="readonly"):
        engine._readers._inline.connection.execute("DELETE FROM facts")


async def test_an_export_page_ends_at_its_size_too(engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_module, "PAGE_BYTES", 10_000)
    await commit(engine, *(Put(Draft("a", str(n), "x" * 4_000)) for n in range(5)))
    sizes = []
    cursor: int | None = 0
    while cursor is not None:
        page = read(engine, Export(ANONYMOUS, cursor=cursor))
        assert isinstance(page, Page)
        sizes.append(len(page.facts))
        cursor = page.next_cursor
    assert sizes == [3, 2]


async def test_another_program_s_lock_fails_the_batch_once_and_not_for_each(
    engine: SqliteEngine, tmp_path: Path
) -> None:
    engine._writer._connection.execute("PRAGMA busy_timeout = 1")
    foreign = sqlite3.connect(tmp_path / "crux.db", isolation_level=None)
    foreign.execute("BEGIN IMMEDIATE")
    outcomes = await commit(engine, *(Put(Draft(f"e{n}", "k", "v")) for n in range(50)))
    assert {type(result) for result in outcomes} == {StorageUnavailable}
    assert "another program" in str(outcomes[0])
    foreign.execute("ROLLBACK")
    foreign.close()
    assert isinstance((await commit(engine, Put(Draft("a", "k", "v"))))[0], Stored)


async def test_a_bug_while_tidying_is_told_to_the_next_writer_and_the_thread_lives(
    engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    tidied = threading.Event()

    def broken() -> bool:
        tidied.set()
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(writer_module, "TIDY_IDLE_S", 0.001)
    monkeypatch.setattr(engine._writer, "_tidy", broken)
    await commit(engine, Put(Draft("a", "k", "v")))
    await trio.to_thread.run_sync(tidied.wait)
    with pytest.raises(ZeroDivisionError):
        await commit(engine, Put(Draft("b", "k", "v")))
    monkeypatch.undo()
    assert isinstance((await commit(engine, Put(Draft("b", "k", "v"))))[0], Stored)


async def test_tidying_merges_the_index_and_folds_the_log(engine: SqliteEngine, tmp_path: Path) -> None:
    for number in range(50):
        await put(engine, "a", str(number), f"needle {number}")
    assert engine._writer._tidy() is False
    connection = sqlite3.connect(tmp_path / "crux.db")
    assert connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()[0] == 0
    connection.close()
    assert len(found(engine, words=("needle",), top_k=100)) == 50


async def test_tidying_never_waits_for_a_reader_and_comes_back_to_it(engine: SqliteEngine, tmp_path: Path) -> None:
    reader = sqlite3.connect(tmp_path / "crux.db", isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM facts").fetchone()
    await put(engine, "a", "k", "v")
    assert engine._writer._tidy() is True, "the reader's snapshot keeps the log"
    assert isinstance((await commit(engine, Put(Draft("b", "k", "v"))))[0], Stored)
    reader.execute("COMMIT")
    reader.close()
    assert engine._writer._tidy() is False


async def test_a_commit_whose_asker_is_cancelled_is_kept_all_the_same(engine: SqliteEngine) -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        await commit(engine, Put(Draft("a", "k", "v")))
    assert scope.cancelled_caught
    await commit(engine, Probe())
    assert found(engine, entity="a") == ["v"]


async def test_its_files_are_private(engine: SqliteEngine, tmp_path: Path) -> None:
    await put(engine, "a", "k", "v")
    assert {path.name: oct(path.stat().st_mode & 0o777) for path in tmp_path.iterdir()} == {
        "crux.db": "0o600",
        "crux.db-wal": "0o600",
        "crux.db-shm": "0o600",
    }


@pytest.mark.parametrize(
    ("words", "hit"),
    [
        (("abcdefgh",), True),
        (("abcdefghi",), True),
        (("abcdefghij",), False),
        (("abcdefghij", "klm"), False),
        (("abcdefghij", "xyz"), True),
        (("aaaaaaaaaa",), False),
    ],
)
async def test_a_long_word_is_looked_for_whole_though_the_index_is_asked_for_its_start(
    engine: SqliteEngine, words: tuple[str, ...], hit: bool
) -> None:
    await put(engine, "e", "k", "abcdefghi xyz")
    assert bool(found(engine, words=words)) is hit


async def test_an_answer_holds_so_much_and_its_counts_tell_the_rest(
    engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_module, "PAGE_BYTES", 10_000)
    await commit(engine, *(Put(Draft("a", str(n), "x" * 4_000)) for n in range(5)))
    reply = read(engine, Search(viewer=ANONYMOUS, now_us=NOW, entity="a"))
    assert (len(reply.facts), reply.total) == (3, 5)  # type: ignore[attr-defined]


@pytest.mark.parametrize(("values", "fits"), [(2, True), (3, False)])
async def test_a_history_that_fits_no_answer_says_where_to_read_it(
    engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch, values: int, fits: bool
) -> None:
    monkeypatch.setattr(search_module, "HISTORY_BYTES", 8_000)
    for _ in range(values):
        await put(engine, "a", "k", "x" * 4_000)
    if fits:
        assert len(read(engine, Chain("a", "k", ANONYMOUS))) == values  # type: ignore[arg-type]
    else:
        with pytest.raises(ResultTooLarge, match="export"):
            read(engine, Chain("a", "k", ANONYMOUS))


async def test_a_scan_is_ended_between_the_words_of_one_row(engine: SqliteEngine) -> None:
    await put(engine, "a", "k", "x" * 100_000)
    looks = iter(range(3))
    words = tuple(f"{n:02}" for n in range(100))
    with pytest.raises(Overloaded):
        await engine.read_apart(
            Search(viewer=ANONYMOUS, now_us=NOW, words=words), 60, lambda: next(looks, None) is not None
        )


async def test_a_database_that_is_gone_or_replaced_is_noticed(engine: SqliteEngine, tmp_path: Path) -> None:
    assert engine.problem() is None
    kept = (tmp_path / "crux.db").rename(tmp_path / "kept.db")
    assert "is gone" in str(engine.problem())
    (tmp_path / "crux.db").write_bytes(b"")
    assert "was replaced" in str(engine.problem())
    kept.rename(tmp_path / "crux.db")
    assert engine.problem() is None
