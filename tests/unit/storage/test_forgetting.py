"""Forgetting: the preview names what the deed touches, and nothing of a value stays, in the file neither."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import cbor2
import pytest
import trio
from blake3 import blake3
from hypothesis import given, settings
from hypothesis import strategies as st

from crux.domain import budgets as budgets_module
from crux.domain.commands import Chain, Put, Records, Search
from crux.domain.decay import DecayPolicy
from crux.domain.facts import Draft, Fact
from crux.domain.forget import MOST_FORGOTTEN, RECEIPT_PREFIX, Forget, Forgotten, PreviewForget, Reach, Scope, ScopeType
from crux.domain.memory import PinFact
from crux.domain.privacy import ANONYMOUS, RAW_ADMIN, Viewer, private_entity
from crux.domain.retrieval import Retrieve
from crux.storage import forgetting as forgetting_module
from crux.storage import upkeep as upkeep_module
from crux.storage.engine import DATABASE, SqliteEngine
from tests.unit.storage.test_memory import BOB, EVE, NOW, do, look, put, put_private

KEY = b"k" * 32


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[SqliteEngine]:
    opened = await SqliteEngine.open(tmp_path, DecayPolicy())
    yield opened
    opened.close()


def reach(type: ScopeType, value: str, viewer: Viewer = BOB, agent: str | None = "bob", **more: Any) -> Reach:  # noqa: A002
    return Reach(scope=Scope.of(type, value), viewer=viewer, agent=agent, **more)


async def forget(engine: SqliteEngine, what: Reach, now_us: int = NOW) -> Forgotten:
    command = Forget(reach=what, reason="tidy up", agent="bob", receipt_tenant="default", hash_key=KEY)
    return await do(engine, command, now_us)


def preview(engine: SqliteEngine, what: Reach) -> list[Fact]:
    return list(look(engine, PreviewForget(what)).facts)


async def stock(engine: SqliteEngine) -> dict[str, Fact]:
    """One fact for each way to be reached or not."""
    return {
        "public": await put(engine, "scratch-1", "value one", NOW),
        "old": await put(engine, "scratch-2", "value two", NOW - 10),
        "by bob": await put(engine, "other", "value three", NOW + 1, actor="bob"),
        "own": await put_private(engine, "bob", "scratch-3", "value four"),
        "eve's": await put_private(engine, "eve", "scratch-4", "value five"),
        "of a tenant": await put(engine, "tenant:acme::scratch", "value six", NOW + 2),
        "personal": await put(engine, "personal::acme::x", "value seven", NOW + 2),
        "bootstrap": await put(engine, "__bootstrap__::scratch-", "value eight", NOW, private=True),
        "work": await put(engine, "__work__::scratch-", "value nine", NOW, private=True),
    }


@pytest.mark.parametrize(
    ("scope", "names"),
    [
        ((ScopeType.ENTITY_PREFIX, "scratch-"), {"public", "old", "own"}),
        ((ScopeType.ENTITY_PREFIX, "__"), set()),
        ((ScopeType.KEY_GLOB, "k"), {"public", "old", "by bob", "own", "of a tenant", "personal"}),
        ((ScopeType.KEY_GLOB, "*"), {"public", "old", "by bob", "own", "of a tenant", "personal"}),
        ((ScopeType.KEY_GLOB, "?"), set()),
        ((ScopeType.KEY_GLOB, "[k]"), set()),
        ((ScopeType.KEY_GLOB, "K"), set()),
        ((ScopeType.PASSPORT_ID, "bob"), {"by bob"}),
        ((ScopeType.BEFORE_TIMESTAMP, "2027-01-15T08:00:00Z"), {"old"}),
        ((ScopeType.TENANT_ID, "acme"), {"of a tenant", "personal"}),
        ((ScopeType.TENANT_ID, "acm"), set()),
    ],
    ids=str,
)
async def test_a_scope_reaches_what_it_says_as_far_as_the_caller_may(
    engine: SqliteEngine, scope: tuple[ScopeType, str], names: set[str]
) -> None:
    facts = await stock(engine)
    expected = {facts[name].fact_id for name in names}
    assert {fact.fact_id for fact in preview(engine, reach(*scope))} == expected
    anonymous = {facts[name].fact_id for name in names - {"own"}}
    assert {fact.fact_id for fact in preview(engine, reach(*scope, viewer=ANONYMOUS, agent=None))} == anonymous
    assert {fact.fact_id for fact in (await forget(engine, reach(*scope))).reached.facts} == expected


async def test_pins_keep_facts_from_their_own_agent_s_forgetting(engine: SqliteEngine) -> None:
    facts = await stock(engine)
    pinned, scope = facts["public"].fact_id, (ScopeType.ENTITY_PREFIX, "scratch-")
    await do(engine, PinFact(pinned, True, BOB, "bob"))
    assert pinned not in {fact.fact_id for fact in preview(engine, reach(*scope))}
    assert pinned in {fact.fact_id for fact in preview(engine, reach(*scope, include_pinned=True))}
    assert pinned in {fact.fact_id for fact in preview(engine, reach(*scope, viewer=EVE, agent="eve"))}
    await forget(engine, reach(*scope))
    assert {fact.fact_id for fact in preview(engine, reach(*scope, include_pinned=True))} == {pinned}


async def test_a_forgotten_fact_leaves_a_tombstone_without_a_value_and_is_found_by_nothing(
    engine: SqliteEngine,
) -> None:
    await put(engine, "scratch-1", "first needle", source_receipt="secret receipt")
    await put(engine, "scratch-1", "second needle")
    receipt = await forget(engine, reach(ScopeType.ENTITY_PREFIX, "scratch-"))
    assert len(receipt.reached.facts) == 2
    chain = look(engine, Chain("scratch-1", "k", ANONYMOUS))
    assert [(fact.value, fact.deleted, fact.version, fact.source_receipt, fact.tokens) for fact in chain] == [
        ("", True, 1, None, 0),
        ("", True, 2, None, 0),
    ]
    assert look(engine, Search(ANONYMOUS, NOW, words=("needle",))).facts == ()
    found: Any = await engine.read_apart(Retrieve("default", "needle", 10), 10, lambda: True)
    assert (found.hits, found.missing) == ((), ("needle",))
    assert preview(engine, reach(ScopeType.ENTITY_PREFIX, "scratch-")) == []
    assert (await put(engine, "scratch-1", "third")).version == 1


async def test_the_receipt_holds_hashes_that_only_its_key_can_check(engine: SqliteEngine) -> None:
    fact = await put(engine, "scratch-1", "secret")
    receipt = await forget(engine, reach(ScopeType.ENTITY_PREFIX, "scratch-"))
    body = cbor2.loads(receipt.body)
    assert body == {
        "schema": "crux.forget_receipt.v1",
        "receipt_id": receipt.receipt_id,
        "tenant_id": "default",
        "passport_id": "bob",
        "reason": "tidy up",
        "scope": {"type": "entity_prefix", "value": "scratch-"},
        "facts_affected": [
            {
                "fact_id": fact.fact_id,
                "pre_forget_value_hash_hex": blake3(b"secret", key=KEY).hexdigest(),
                "entity": "scratch-1",
                "key": "k",
            }
        ],
        "initiated_at": "2027-01-15T08:00:00.000000Z",
        "recovery_window_ends_at": "2027-01-15T08:00:00.000000Z",
    }
    assert receipt.body_hash == blake3(receipt.body).hexdigest()
    (kept,) = look(engine, Records(RECEIPT_PREFIX))
    assert (kept.key, bytes.fromhex(kept.value)) == ("receipt", receipt.body)
    nothing = await forget(engine, reach(ScopeType.ENTITY_PREFIX, "scratch-"), NOW + 1)
    assert cbor2.loads(nothing.body)["facts_affected"] == []
    assert len(look(engine, Records(RECEIPT_PREFIX))) == 2


@pytest.mark.parametrize(("budget", "reached"), [(None, 4), (0, 1), (5, 1), (6, 2), (8, 2), (9, 3), (99, 4)])
async def test_a_budget_reaches_the_oldest_first_and_tells_how_many_are_left(
    engine: SqliteEngine, budget: int | None, reached: int
) -> None:
    for number in range(4):
        await put(engine, f"scratch-{number}", "x" * 12)
    what = reach(ScopeType.ENTITY_PREFIX, "scratch-", token_budget=budget)
    found = look(engine, PreviewForget(what))
    assert [fact.entity for fact in found.facts] == [f"scratch-{number}" for number in range(reached)]
    assert found.left_out == 4 - reached


async def test_one_call_reaches_no_more_than_it_may_and_says_so(
    engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forgetting_module, "MOST_FORGOTTEN", 2)
    for number in range(3):
        await put(engine, f"scratch-{number}", "x")
    what = reach(ScopeType.ENTITY_PREFIX, "scratch-")
    assert look(engine, PreviewForget(what)).left_out == 1
    assert (await forget(engine, what)).reached.left_out == 1
    assert look(engine, PreviewForget(what)).left_out == 0
    assert MOST_FORGOTTEN == 10_000


async def test_one_call_erases_no_more_of_values_than_it_may_the_oldest_whatever_the_clock_did(
    engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(budgets_module, "MOST_VALUE_TOKENS", 6)
    for number in range(3):
        await put(engine, f"scratch-{number}", "x" * 12, NOW - number)
    what = reach(ScopeType.ENTITY_PREFIX, "scratch-")
    receipt = await forget(engine, what)
    assert [fact.entity for fact in receipt.reached.facts] == ["scratch-2", "scratch-1"]
    assert receipt.reached.left_out == 1
    assert (await forget(engine, what, NOW + 1)).reached.left_out == 0
    assert preview(engine, what) == []


names = st.sampled_from(["a", "ab", "tenant:t::a", "personal::t::b", "__work__::a", "__bootstrap__::a"])
drafts = st.tuples(names, st.sampled_from(["k", "key", "other"]), st.sampled_from([None, "bob", "eve"]), st.booleans())
scopes = st.one_of(
    st.tuples(st.just(ScopeType.ENTITY_PREFIX), st.sampled_from(["a", "ab", "tenant:", "_", "z"])),
    st.tuples(st.just(ScopeType.KEY_GLOB), st.sampled_from(["k", "k*", "*e*", "*", "z"])),
    st.tuples(st.just(ScopeType.PASSPORT_ID), st.sampled_from(["bob", "eve", "z"])),
    st.tuples(st.just(ScopeType.TENANT_ID), st.sampled_from(["t", "z"])),
    st.tuples(st.just(ScopeType.BEFORE_TIMESTAMP), st.just("2027-01-15T08:00:00.000004Z")),
)


@settings(max_examples=40, deadline=None)
@given(st.lists(drafts, max_size=12), scopes, st.none() | st.integers(0, 4), st.sets(st.integers(0, 11)), st.booleans())
async def test_the_dry_run_names_exactly_what_the_deed_touches(
    tmp_path_factory: pytest.TempPathFactory,
    stored: list[tuple[str, str, str | None, bool]],
    scope: tuple[ScopeType, str],
    budget: int | None,
    pins: set[int],
    include_pinned: bool,
) -> None:
    engine = await SqliteEngine.open(tmp_path_factory.mktemp("db"), DecayPolicy())
    facts: list[Fact] = []
    for number, (entity, key, actor, private) in enumerate(stored):
        name = private_entity(actor, entity) if private and actor else entity
        draft = Draft(name, key, f"value {number}", actor=actor, private=bool(private and actor))
        facts.append((await do(engine, Put(draft), NOW + number)).fact)
    for number in pins & set(range(len(facts))):
        await engine.commit([PinFact(facts[number].fact_id, True, BOB, "bob")], NOW)
    what = reach(*scope, token_budget=budget, include_pinned=include_pinned)
    named = look(engine, PreviewForget(what))
    done = await forget(engine, what)
    after = {
        fact.fact_id: fact
        for name in {fact.entity for fact in facts}
        for fact in look(engine, Chain(name, None, RAW_ADMIN))
    }
    engine.close()
    assert done.reached == named
    touched = {fact.fact_id for fact in named.facts}
    assert {fact_id for fact_id, fact in after.items() if fact.deleted} == touched
    assert all((fact.value == "") == (fact.fact_id in touched) for fact in after.values())


def files_of(directory: Path) -> bytes:
    """All that is on the disk."""
    return b"".join(path.read_bytes() for path in sorted(directory.iterdir()))


SECRET = "quokka zanzibar9000"
TRACES = [b"quokka", b"quokk", b"zanzibar", b"uokka", b"okka", b"nzib"]


def traces(directory: Path) -> list[bytes]:
    """What of the secret is on the disk: the text, its terms, and rows of letters that are parts of it."""
    held = files_of(directory)
    return [trace for trace in TRACES if trace in held]


async def test_after_tidying_nothing_of_a_forgotten_value_is_on_the_disk(tmp_path: Path) -> None:
    engine = await SqliteEngine.open(tmp_path, DecayPolicy())
    for number in range(50):
        await put(engine, f"keep-{number}", f"some other value {number}")
    await put(engine, "scratch-1", SECRET)
    await put(engine, "scratch-1", f"{SECRET} again")
    await put_private(engine, "bob", "scratch-2", SECRET)
    assert traces(tmp_path)
    await forget(engine, reach(ScopeType.ENTITY_PREFIX, "scratch-"))
    while engine._writer._tidy():
        await trio.lowlevel.checkpoint()
    assert traces(tmp_path) == []
    assert len(look(engine, Search(ANONYMOUS, NOW, words=("other",), top_k=99)).facts) == 50
    engine.close()


async def test_a_daemon_that_was_killed_before_tidying_does_it_after_its_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep_module, "MERGE_PAGES", 1)
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    engine = await SqliteEngine.open(first, DecayPolicy())
    await put(engine, "scratch-1", SECRET)
    await forget(engine, reach(ScopeType.ENTITY_PREFIX, "scratch-"))
    for path in first.iterdir():  # what a kill would leave
        (second / path.name).write_bytes(path.read_bytes())
    engine.close()
    assert traces(second)
    engine = await SqliteEngine.open(second, DecayPolicy())
    while engine._writer._tidy():
        await trio.lowlevel.checkpoint()
    assert traces(second) == []
    engine.close()


async def test_cleaning_is_not_done_while_a_reader_keeps_the_log(tmp_path: Path) -> None:
    engine = await SqliteEngine.open(tmp_path, DecayPolicy())
    await put(engine, "scratch-1", SECRET)
    with closing(sqlite3.connect(tmp_path / DATABASE, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM facts").fetchone()
        await forget(engine, reach(ScopeType.ENTITY_PREFIX, "scratch-"))
        assert engine._writer._tidy() is True
    while engine._writer._tidy():
        await trio.lowlevel.checkpoint()
    assert traces(tmp_path) == []
    engine.close()
