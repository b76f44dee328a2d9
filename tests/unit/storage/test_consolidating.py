"""Contradictions and consolidation against SQLite itself: what is protected, what is undone, what is all or nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from crux.domain.commands import Chain, Delete, Head, Put, Records, Search
from crux.domain.consolidation import (
    CONSOLIDATION_PREFIX,
    Consolidate,
    Consolidation,
    UndoConsolidation,
    canonical_hash,
)
from crux.domain.contradictions import LONGEST_VALUE, Contradiction, Contradictions
from crux.domain.decay import DecayPolicy, Horizon
from crux.domain.facts import Draft, Fact
from crux.domain.forget import ScopeType
from crux.domain.memory import PinFact
from crux.domain.privacy import ANONYMOUS, PrivacyRules
from crux.domain.retrieval import Retrieve
from crux.errors import Conflict, CruxError, Denied, InvalidArgument
from crux.storage.engine import SqliteEngine
from tests.unit.storage.test_forgetting import forget, reach
from tests.unit.storage.test_memory import BOB, EVE, NOW, do, look, put, put_private


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[SqliteEngine]:
    opened = await SqliteEngine.open(tmp_path, DecayPolicy())
    yield opened
    opened.close()


def revive(engine: SqliteEngine, *facts: Fact) -> None:
    """Clear the marks that storing a later version made, as an import of a version that knew none would have it."""
    writer = engine._writer
    writer._connection.execute("BEGIN")
    for fact in facts:
        writer._transaction.restore(fact, None)
    writer._transaction.indices.write()
    writer._connection.execute("COMMIT")


async def conflicting(engine: SqliteEngine, *values: str, entity: str = "a", **more: Any) -> list[Fact]:
    """Live facts of one name that say different things."""
    facts = [await put(engine, entity, value, **more) for value in values]
    revive(engine, *facts[:-1])  # the last one is live
    return facts


async def test_opposite_values_of_one_name_are_told_the_negative_ones_first(engine: SqliteEngine) -> None:
    facts = await conflicting(engine, "enabled", " OFF! ", "maybe", "yes")
    await conflicting(engine, "yes", "true", entity="b")
    await put(engine, "c", "no")
    await put(engine, "d", "yes")
    (found,) = look(engine, Contradictions(ANONYMOUS, None))
    assert found == Contradiction(
        entity="a",
        key="k",
        fact_ids=(facts[1].fact_id, facts[0].fact_id, facts[3].fact_id),
        values=(" OFF! ", "enabled", "yes"),
    )


async def test_groups_come_by_name_and_up_to_the_limit(engine: SqliteEngine) -> None:
    for entity in ("c", "a", "b"):
        await conflicting(engine, "yes", "no", entity=entity)
    assert [group.entity for group in look(engine, Contradictions(ANONYMOUS, None))] == ["a", "b", "c"]
    assert [group.entity for group in look(engine, Contradictions(ANONYMOUS, 2))] == ["a", "b"]


async def test_only_what_the_caller_sees_and_is_live_contradicts(engine: SqliteEngine) -> None:
    await put(engine, "a", "yes")
    await put_private(engine, "eve", "a", "no")
    await put(engine, "a", "no", tenant="acme")
    assert look(engine, Contradictions(BOB, None)) == ()
    assert [group.values for group in look(engine, Contradictions(EVE, None))] == [("no", "yes")]
    facts = await conflicting(engine, "on", "off", entity="b")
    await do(engine, Delete(facts[0].fact_id, ANONYMOUS))
    assert look(engine, Contradictions(BOB, None)) == ()


async def test_a_value_that_is_longer_than_any_word_says_neither(engine: SqliteEngine) -> None:
    await conflicting(engine, "yes", "no".ljust(LONGEST_VALUE, "."))
    await conflicting(engine, "yes", "no".ljust(LONGEST_VALUE + 1, "."), entity="b")
    assert [group.entity for group in look(engine, Contradictions(ANONYMOUS, None))] == ["a"]


def request(*targets: str, **more: Any) -> Consolidate:
    asked = Consolidate(
        consolidation_id="c1",
        entity="a",
        key="k",
        value="canonical",
        targets=targets,
        protected=frozenset(),
        confidence=0.9,
        confidence_floor=0.99,
        horizon=None,
        viewer=BOB,
        agent="bob",
        rules=PrivacyRules(),
    )
    return evolve(asked, **more)


async def live(engine: SqliteEngine, entity: str = "a") -> list[str]:
    return [fact.value for fact in look(engine, Search(ANONYMOUS, NOW, entity=entity, top_k=99)).facts]


async def test_one_fact_takes_the_place_of_several_and_of_the_head(engine: SqliteEngine) -> None:
    facts = await conflicting(engine, "1", "2", "3", confidence=0.5)
    record = await do(engine, request(facts[0].fact_id, facts[1].fact_id))
    assert await live(engine) == ["canonical"]
    head = look(engine, Head("a", "k"))
    assert head is not None
    assert (head.fact_id, head.version, head.source_receipt, head.actor) == (
        record.canonical_fact_id, 4, "consolidation:c1", "bob",
    )  # fmt: skip
    assert record.canonical_hash == canonical_hash("canonical")
    assert record.sources == (facts[0].fact_id, facts[1].fact_id)
    assert [replaced.fact_id for replaced in record.replaced] == [fact.fact_id for fact in facts]
    chain = look(engine, Chain("a", "k", ANONYMOUS))
    assert [fact.superseded_by for fact in chain] == [record.canonical_fact_id] * 3 + [None]
    assert not any(fact.deleted for fact in chain)


async def test_a_horizon_is_the_one_asked_for_or_the_entity_s_own(engine: SqliteEngine) -> None:
    for number, (entity, horizon, expected) in enumerate(
        [("a", None, Horizon.NONE), ("incident:1", None, Horizon.MEDIUM), ("b", Horizon.STABLE, Horizon.STABLE)]
    ):
        fact = await put(engine, entity, "1", confidence=0.5)
        asked = request(fact.fact_id, entity=entity, horizon=horizon, consolidation_id=f"c{number}")
        await do(engine, asked)
        assert look(engine, Head(entity, "k")).horizon is expected  # type: ignore[union-attr]


async def test_every_protection_is_named_and_nothing_is_changed(engine: SqliteEngine) -> None:
    pinned = await put(engine, "a", "pinned", confidence=0.5)
    await do(engine, PinFact(pinned.fact_id, True, EVE, "eve"))
    named = await put(engine, "a", "named", confidence=0.5)
    own = await put_private(engine, "bob", "a", "own")
    eves = await put_private(engine, "eve", "a", "eve's")
    backed = await put(engine, "a", "backed", confidence=0.5, source_receipt="r")
    sure = await put(engine, "a", "sure", confidence=0.99)
    other = await put(engine, "b", "other", confidence=0.5)
    tenant = await put(engine, "a", "tenant", confidence=0.5, tenant="acme")
    gone = await put(engine, "a", "gone", confidence=0.5)
    await do(engine, Delete(gone.fact_id, ANONYMOUS))
    good = await put(engine, "a", "good", confidence=0.98)
    before = look(engine, Chain("a", None, BOB))
    for fact_id, refusal, reason in (
        ("f_unknown", InvalidArgument, "target_not_found"),
        (eves.fact_id, InvalidArgument, "target_not_found"),
        (tenant.fact_id, InvalidArgument, "target_not_found"),
        (gone.fact_id, Denied, "target_deleted"),
        (pinned.fact_id, Denied, "target_pinned"),
        (named.fact_id, Denied, "target_pinned"),
        (own.fact_id, Denied, "target_private"),
        (backed.fact_id, Denied, "target_receipt_linked"),
        (sure.fact_id, Denied, "target_high_confidence"),
        (other.fact_id, InvalidArgument, "invalid_request"),
    ):
        with pytest.raises(refusal) as refused:
            await do(engine, request(good.fact_id, fact_id, protected=frozenset({named.fact_id})))
        assert isinstance(refused.value, CruxError)
        assert refused.value.data is not None
        assert (refused.value.data["reason"], refused.value.data["protected"]) == (reason, True)
    assert look(engine, Chain("a", None, BOB)) == before
    merged = await do(engine, request(good.fact_id, sure.fact_id, confidence_floor=1.5))
    assert merged.sources == (good.fact_id, sure.fact_id)


@pytest.mark.parametrize("how", ["pinned", "named"])
async def test_a_pinned_head_is_not_replaced_by_consolidating_what_is_behind_it(engine: SqliteEngine, how: str) -> None:
    old = await put(engine, "a", "old", confidence=0.5)
    head = await put(engine, "a", "head", confidence=0.5)
    named = frozenset({head.fact_id} if how == "named" else ())
    if how == "pinned":
        await do(engine, PinFact(head.fact_id, True, EVE, "eve"))
    with pytest.raises(Denied, match=f"target {head.fact_id} is pinned; nothing was changed"):
        await do(engine, request(old.fact_id, protected=named))
    assert await live(engine) == ["head"]
    await do(engine, PinFact(head.fact_id, False, EVE, "eve"))
    await do(engine, request(old.fact_id))
    assert await live(engine) == ["canonical"]


async def test_the_same_request_again_changes_nothing_and_another_is_refused(engine: SqliteEngine) -> None:
    fact = await put(engine, "a", "1", confidence=0.5)
    record = await do(engine, request(fact.fact_id))
    assert await do(engine, request(fact.fact_id)) == record
    assert await live(engine) == ["canonical"]
    with pytest.raises(Conflict, match="consolidation c1 is another one"):
        await do(engine, request(fact.fact_id, value="other"))


async def test_what_a_consolidation_stands_on_can_be_neither_retired_nor_deleted(engine: SqliteEngine) -> None:
    fact = await put(engine, "a", "1", confidence=0.5)
    record = await do(engine, request(fact.fact_id))
    with pytest.raises(Denied) as refused:
        await do(engine, Put(Draft("b", "k", "x"), BOB, (fact.fact_id, "f_unknown")))
    assert refused.value.data == {
        "error_code": "CONSOLIDATION_SOURCE_REQUIRES_UNDO",
        "param": "supersedes",
        "fact_ids": [fact.fact_id],
    }
    with pytest.raises(Denied) as refused:
        await do(engine, Delete(record.canonical_fact_id, BOB))
    assert refused.value.data == {
        "error_code": "CONSOLIDATION_CANONICAL_REQUIRES_UNDO",
        "fact_id": record.canonical_fact_id,
    }
    assert await do(engine, UndoConsolidation("c1")) == record
    await do(engine, Put(Draft("b", "k", "x"), BOB, (fact.fact_id,)))


async def test_a_receipt_that_only_looks_like_a_consolidation_protects_nothing(engine: SqliteEngine) -> None:
    fact = await put(engine, "a", "1", source_receipt="consolidation:c1")
    assert (await do(engine, Delete(fact.fact_id, BOB))).found


async def test_undoing_brings_back_what_was_there_to_search_as_well(engine: SqliteEngine) -> None:
    facts = await conflicting(engine, "needle one", "needle two", confidence=0.5)
    record = await do(engine, request(facts[0].fact_id))
    assert await do(engine, UndoConsolidation("c1")) == record
    assert await do(engine, UndoConsolidation("c1")) is None
    assert sorted(await live(engine)) == ["needle one", "needle two"]
    found: Any = await engine.read_apart(Retrieve("default", "needle canonical", 10), 10, lambda: True)
    assert ({hit.source.fact_id for hit in found.hits}, found.missing) == (
        {fact.fact_id for fact in facts},
        ("canonical",),
    )
    assert look(engine, Search(ANONYMOUS, NOW, words=("needle",), top_k=9)).total == 2
    assert look(engine, Records(CONSOLIDATION_PREFIX)) == ()
    again = await do(engine, request(facts[0].fact_id))
    assert isinstance(again, Consolidation)
    assert again.canonical_fact_id != record.canonical_fact_id


async def test_undoing_is_refused_once_something_later_stands_on_it(engine: SqliteEngine) -> None:
    fact = await put(engine, "a", "1", confidence=0.5)
    await do(engine, request(fact.fact_id))
    await put(engine, "a", "later")
    with pytest.raises(Conflict, match="has been replaced by f_"):
        await do(engine, UndoConsolidation("c1"))
    assert await live(engine) == ["later"]


async def test_a_fact_that_was_retired_before_stays_so_when_undone(engine: SqliteEngine) -> None:
    old = await put(engine, "a", "old", confidence=0.5)
    head = await put(engine, "a", "head", confidence=0.5)
    await do(engine, request(old.fact_id))
    await do(engine, UndoConsolidation("c1"))
    assert await live(engine) == ["head"]
    assert look(engine, Chain("a", "k", ANONYMOUS))[0].superseded_by == head.fact_id


async def test_what_a_consolidation_made_is_protected_until_something_later_stands_there(engine: SqliteEngine) -> None:
    fact = await put(engine, "a", "1", confidence=0.5)
    record = await do(engine, request(fact.fact_id))
    later = await put(engine, "a", "later")
    await do(engine, Put(Draft("b", "k", "x"), BOB, (fact.fact_id,)))
    assert (await do(engine, Delete(record.canonical_fact_id, BOB))).found
    assert (await do(engine, Delete(later.fact_id, BOB))).found


async def test_forgetting_reaches_what_a_consolidation_made_and_what_it_stands_on(engine: SqliteEngine) -> None:
    facts = await conflicting(engine, "one", "two", confidence=0.5)
    record = await do(engine, request(*(fact.fact_id for fact in facts)))
    receipt = await forget(engine, reach(ScopeType.ENTITY_PREFIX, "a"))
    assert {fact.fact_id for fact in receipt.reached.facts} == {*record.sources, record.canonical_fact_id}
    assert {version.value for version in look(engine, Chain("a", "k", ANONYMOUS))} == {""}
    await do(engine, UndoConsolidation("c1"))
    assert await live(engine) == [], "what is erased does not come back"


@pytest.mark.parametrize("replaced", [False, True], ids=["in force", "replaced since"])
async def test_no_hash_by_which_a_forgotten_canonical_value_could_be_guessed_is_kept(
    engine: SqliteEngine, replaced: bool
) -> None:
    fact = await put(engine, "a", "one", confidence=0.5)
    record = await do(engine, request(fact.fact_id))
    if replaced:
        await put(engine, "a", "later")
    (before,) = look(engine, Records(CONSOLIDATION_PREFIX))
    assert canonical_hash("canonical") in before.value
    only_the_canonical = reach(ScopeType.PASSPORT_ID, "bob")
    assert len((await forget(engine, only_the_canonical)).reached.facts) == 1
    (kept,) = look(engine, Records(CONSOLIDATION_PREFIX))
    assert record.request_hash not in kept.value
    assert canonical_hash("canonical") not in kept.value
    with pytest.raises(Conflict, match="c1 is another one"):
        await do(engine, request(fact.fact_id))
    if not replaced:
        assert (await do(engine, UndoConsolidation("c1"))) is not None
        assert await live(engine) == ["one"]
