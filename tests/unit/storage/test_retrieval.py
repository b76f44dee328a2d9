"""The retrieval index against SQLite itself: what is in it, how it is scored, and what never shows."""

from __future__ import annotations

import itertools
import math
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crux.domain import search_plan as plan_module
from crux.domain.analysis import Analyser
from crux.domain.bm25 import idf, weight
from crux.domain.commands import Delete, Erase, Put, Transact
from crux.domain.decay import DecayPolicy
from crux.domain.documents import MOST_TENANTS, Document, Ingested, Passage, RemoveDocument, StoreDocuments, prepare
from crux.domain.facts import Draft
from crux.domain.messages import Message
from crux.domain.privacy import ANONYMOUS, private_entity
from crux.domain.retrieval import Expand, Expanded, Handle, Retrieve, Retrieved, Segment
from crux.domain.substrate import DeleteEdge, Edge, Node, PutEdge
from crux.errors import InvalidArgument
from crux.storage import index as index_module
from crux.storage import retrieval as retrieval_module
from crux.storage.engine import DATABASE, SqliteEngine
from crux.storage.readers import ReadTooLong

R = TypeVar("R")


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[SqliteEngine]:
    opened = await SqliteEngine.open(tmp_path, DecayPolicy())
    yield opened
    opened.close()


async def commit(engine: SqliteEngine, *commands: Message[Any]) -> list[Any]:
    return await engine.commit(commands, 1_800_000_000_000_000)


def store(tenant: str, documents: tuple[Document, ...]) -> StoreDocuments:
    analyser = Analyser()
    return StoreDocuments(tenant, tuple(prepare(document, analyser) for document in documents))


async def keep(engine: SqliteEngine, *texts: str, tenant: str = "default") -> list[Ingested]:
    documents = tuple(Document(f"d{n}", (Passage(text),)) for n, text in enumerate(texts))
    (kept,) = await commit(engine, store(tenant, documents))
    return list(kept)


async def put(engine: SqliteEngine, entity: str, value: str, **more: Any) -> Any:
    (stored,) = await commit(engine, Put(Draft(entity, "k", value, **more)))
    return stored.fact


async def ask(engine: SqliteEngine, message: Message[R]) -> R:
    reply: Any = await engine.read_apart(message, 10, lambda: True)
    return reply  # type: ignore[no-any-return]


async def find(engine: SqliteEngine, text: str, limit: int = 10, tenant: str = "default", **more: Any) -> Retrieved:
    return await ask(engine, Retrieve(tenant, text, limit, **more))


async def names(engine: SqliteEngine, text: str, **more: Any) -> list[str | None]:
    return [hit.source.document or hit.source.entity for hit in (await find(engine, text, **more)).hits]


async def test_a_document_is_found_by_its_words_and_read_by_its_handle(engine: SqliteEngine) -> None:
    passages = (Passage("the first part"), Passage("a second one"))
    await commit(engine, store("default", (Document("a", passages, "Its title", "file:///a"),)))
    found = await find(engine, "second")
    assert [(hit.source.document, hit.source.title, hit.source.uri, hit.tokens) for hit in found.hits] == [
        ("a", "Its title", "file:///a", 3)
    ]
    (chunk,) = (await ask(engine, Expand("default", (found.hits[0].handle,)))).chunks
    assert (chunk.text, chunk.tokens) == ("a second one", 3)
    (first,) = (await find(engine, "first")).hits
    assert [hit.handle for hit in (await find(engine, "title")).hits] == [first.handle], "the title is the first part's"


async def test_a_public_fact_is_found_and_read_like_a_document(engine: SqliteEngine) -> None:
    fact = await put(engine, "service:billing", "the platform team")
    (hit,) = (await find(engine, "platform")).hits
    assert (hit.handle.segment, hit.source.fact_id, hit.source.entity) == (Segment.FACTS, fact.fact_id, fact.entity)
    (chunk,) = (await ask(engine, Expand("default", (hit.handle,)))).chunks
    assert chunk.text == "service:billing k = the platform team"
    assert chunk.tokens == hit.tokens == math.ceil(len(chunk.text) / 4)


async def test_the_same_content_is_left_alone_and_another_takes_its_place(engine: SqliteEngine) -> None:
    assert await keep(engine, "one", "two") == [Ingested("d0", "stored", 1), Ingested("d1", "stored", 1)]
    handle = (await find(engine, "one")).hits[0].handle
    assert await keep(engine, "one", "three") == [Ingested("d0", "unchanged", 1), Ingested("d1", "updated", 1)]
    assert (await find(engine, "one")).hits[0].handle == handle
    assert await names(engine, "two") == []
    assert await names(engine, "three") == ["d1"]
    assert (await find(engine, "x")).passages == 2


async def test_a_removed_document_is_gone_and_its_handle_never_comes_back(engine: SqliteEngine) -> None:
    await keep(engine, "one two")
    (hit,) = (await find(engine, "two")).hits
    assert await commit(engine, RemoveDocument("default", "d0"), RemoveDocument("default", "d0")) == [True, False]
    assert await commit(engine, RemoveDocument("nobody", "d0")) == [False]
    assert await find(engine, "two") == Retrieved(words=1, missing=("two",), missed=1)
    await keep(engine, "another two")
    assert (await ask(engine, Expand("default", (hit.handle,)))).absent == {hit.handle}
    assert (await find(engine, "two")).hits[0].handle != hit.handle


async def test_what_is_replaced_retired_deleted_or_erased_is_found_no_more(engine: SqliteEngine) -> None:
    await put(engine, "a", "needle first")
    await put(engine, "a", "needle second")
    other = await put(engine, "b", "needle third")
    await commit(engine, Put(Draft("c", "k", "thread"), ANONYMOUS, (other.fact_id,)))
    third = await put(engine, "d", "needle fourth")
    assert await names(engine, "needle") == ["d", "a"] or await names(engine, "needle") == ["a", "d"]
    await commit(engine, Delete(third.fact_id, ANONYMOUS))
    assert await names(engine, "needle") == ["a"]
    await commit(engine, Erase("a", "k"))
    assert await names(engine, "needle") == []
    assert (await find(engine, "thread")).passages == 1
    await commit(engine, Put(Draft("c", "k", "again"), keep_history=False))
    assert await names(engine, "thread") == []
    assert await names(engine, "again") == ["c"]


async def test_private_facts_and_the_daemon_s_own_count_nowhere(engine: SqliteEngine) -> None:
    await put(engine, "a", "needle")
    before = await find(engine, "needle secret")
    await put(engine, private_entity("bob", "a"), "needle secret", private=True)
    await put(engine, "__work__::1", "needle secret", private=True)
    await put(engine, "decisions::1", "needle secret", private=True)
    assert await find(engine, "needle secret") == before


async def test_tenants_see_nothing_of_each_other(engine: SqliteEngine) -> None:
    await keep(engine, "needle one", "thread")
    before = await find(engine, "needle")
    handle = before.hits[0].handle
    await keep(engine, "needle", "needle needle", "needle thread", tenant="acme")
    assert await find(engine, "needle") == before
    assert (await ask(engine, Expand("acme", (handle,)))).absent == {handle}
    assert await find(engine, "needle", tenant="nobody") == Retrieved(words=1, missing=("needle",), missed=1)


async def test_a_tenant_more_than_are_kept_is_refused_and_changes_nothing(
    engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_module, "MOST_TENANTS", 3)
    for tenant in ("one", "two", "three"):
        assert await keep(engine, "x", tenant=tenant)
    refused, kept = await commit(
        engine,
        store("four", (Document("a", (Passage("x"),)),)),
        store("three", (Document("a", (Passage("y"),)),)),
    )
    assert isinstance(refused, InvalidArgument)
    assert kept == (Ingested("a", "stored", 1),)
    assert MOST_TENANTS == 1000


async def test_a_refused_command_leaves_no_trace_in_the_index(engine: SqliteEngine) -> None:
    puts = (Put(Draft("a", "k", "needle")), Put(Draft("b", "k", "x"), ANONYMOUS, ("f_unknown",)))
    (refused,) = await commit(engine, Transact(puts))
    assert isinstance(refused, InvalidArgument)
    assert await names(engine, "needle") == []
    await put(engine, "c", "needle")
    assert await names(engine, "needle") == ["c"]


async def test_the_index_counts_what_it_holds(engine: SqliteEngine, tmp_path: Path) -> None:
    await keep(engine, "one two three", "four five")
    await put(engine, "a", "six")
    await put(engine, "a", "seven eight")
    await commit(engine, RemoveDocument("default", "d1"))
    with closing(sqlite3.connect(tmp_path / DATABASE)) as reader:
        assert reader.execute("SELECT name, passages, terms FROM tenants").fetchall() == [("default", 2, 5)]
        assert reader.execute("SELECT count(*) FROM index_1").fetchone() == (2,)


async def test_an_index_of_another_analysis_is_made_again_when_the_database_is_opened(tmp_path: Path) -> None:
    engine = await SqliteEngine.open(tmp_path, DecayPolicy())
    title = Document("titled", (Passage("one"), Passage("two")), "heading")
    await commit(engine, store("default", (title,)), store("acme", (Document("x", (Passage("three"),)),)))
    await put(engine, "a", "public")
    await put(engine, private_entity("bob", "a"), "hidden", private=True)
    before = [await find(engine, "heading one two public hidden"), await find(engine, "three", tenant="acme")]
    engine.close()
    with closing(sqlite3.connect(tmp_path / DATABASE)) as writer:
        writer.execute("UPDATE retrieval SET analysis = 'another'")
        writer.execute("INSERT INTO index_1 (rowid, terms) VALUES (99, 'stale')")
        writer.commit()
    engine = await SqliteEngine.open(tmp_path, DecayPolicy())
    assert [await find(engine, "heading one two public hidden"), await find(engine, "three", tenant="acme")] == before
    assert await names(engine, "stale") == []
    engine.close()


async def test_facts_of_a_store_from_before_the_index_are_found(tmp_path: Path) -> None:
    engine = await SqliteEngine.open(tmp_path, DecayPolicy())
    await put(engine, "a", "needle")
    engine.close()
    with closing(sqlite3.connect(tmp_path / DATABASE)) as writer:  # back to the first schema
        writer.execute("DROP TABLE index_1")
        later = writer.execute(
            "SELECT type, name FROM sqlite_schema WHERE name NOT IN ('facts', 'probe', 'facts_by_id', 'facts_by_chain') "
            "AND name NOT LIKE 'facts_text%' AND name NOT LIKE 'sqlite%' ORDER BY type"
        )
        for kind, name in later.fetchall():
            writer.execute(f"DROP {kind} IF EXISTS {name}")
        writer.execute("PRAGMA user_version = 1")
        writer.commit()
    engine = await SqliteEngine.open(tmp_path, DecayPolicy())
    assert await names(engine, "needle") == ["a"]
    engine.close()


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("Zürich café", "ZURICH cafe"),
        ("zurich cafe", "Zürich CAFÉ"),
        ("STRASSE", "straße"),
        ("東京タワーに行く", "タワー"),
        ("東京タワーに行く", "京"),
        ("ไปเที่ยวกรุงเทพ", "กรุงเทพ"),
        ("서울에서 만나요", "서울"),
        ("Python入門ガイド", "入門 python"),
        ("call parse_http_response", "http response"),
        ("call parse_http_response", "parse_http_response"),
        ("call parseHttpResponse", "parsehttpresponse"),
        ("see src/crux/main.py", "main.py"),
        ("since v1.2.3", "1.2.3"),
        ("since v1.2.3", "v1.2.3"),
        ("ship it 🚀", "🚀"),
        ("running tests", "run test"),
        ("हिन्दी में लिखा", "हिन्दी"),
    ],
)
async def test_a_text_is_found_in_every_script_and_spelling(engine: SqliteEngine, text: str, question: str) -> None:
    await keep(engine, text, "something else entirely")
    found = await find(engine, question)
    assert [hit.source.document for hit in found.hits] == ["d0"]
    assert found.coverage == 1.0


@pytest.mark.parametrize(
    "question",
    ['needle"', '"needle', "needle*", "(needle", "needle)", "-needle", "+needle", "needle AND", "NOT needle", "NEAR(needle)",
     "terms:needle", "{needle} : x", "needle ^ x", "'needle", "needle\\", "; DROP TABLE facts; needle", "needle " * 15_000,
     "\N{WORD JOINER}needle", "needle -- x", "index_1 needle"],
)  # fmt: skip
async def test_a_question_is_data_whatever_is_in_it(engine: SqliteEngine, question: str) -> None:
    await keep(engine, "a needle", "some hay")
    assert await names(engine, question) == ["d0"]


WORDS = ("alpha", "beta", "gamma", "delta", "beta_gamma", "京都", "é")
texts = st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=8).map(" ".join), min_size=1, max_size=8)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts, st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join), st.floats(0, 3))
async def test_scores_and_counts_are_those_of_the_formula(
    tmp_path_factory: pytest.TempPathFactory, stored: list[str], question: str, floor: float
) -> None:
    engine = await SqliteEngine.open(tmp_path_factory.mktemp("db"), DecayPolicy())
    await keep(engine, *stored)
    found = await find(engine, question)
    floored = await find(engine, question, min_score=floor)
    engine.close()
    expected = by_the_formula(stored, question)
    assert {hit.source.document: pytest.approx(hit.score) for hit in found.hits} == expected
    assert [hit.score for hit in found.hits] == sorted((hit.score for hit in found.hits), reverse=True)
    assert (found.total, found.exhaustive) == (len(expected), True)
    under = [score for score in expected.values() if score < floor]
    assert floored.below_floor == pytest.approx(len(under), abs=sum(abs(s - floor) < 1e-9 for s in expected.values()))
    assert floored.total == len(expected)


def by_the_formula(stored: list[str], question: str) -> dict[str, float]:
    """The scores of documents d0, d1 … for a question, one by one."""
    analyser = Analyser()
    terms = [analyser.terms(text) for text in stored]
    mean = sum(len(text.split()) for text in terms) / len(terms)
    scores: dict[str, float] = {}
    for term, asked in Counter(term for word in analyser.words(question) for term in word.terms).items():
        counts = [f" {text} ".replace(" ", "  ").count(f" {term.replace(' ', '  ')} ") for text in terms]
        says = idf(len(terms), sum(count > 0 for count in counts))
        for number, count in enumerate(counts):
            if count:
                earned = asked * says * weight(count, len(terms[number].split()), mean)
                scores[f"d{number}"] = scores.get(f"d{number}", 0.0) + earned
    return scores


async def test_common_words_rank_what_rarer_ones_found(engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = [*("common filler" for _ in range(30)), "rare filler", "rare common", "filler"]
    await keep(engine, *stored)
    exact = await find(engine, "rare common")
    monkeypatch.setattr(plan_module, "MOST_POSTINGS", 10)
    bounded = await find(engine, "rare common")
    assert [hit.source.document for hit in bounded.hits] == [hit.source.document for hit in exact.hits[:2]]
    assert [hit.score for hit in bounded.hits] == pytest.approx([hit.score for hit in exact.hits[:2]])
    assert (exact.exhaustive, exact.total) == (True, 32)
    assert (bounded.exhaustive, bounded.total) == (False, 2)


async def test_words_that_are_neither_rare_nor_everywhere_help_to_find_the_best(
    engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = [*("left" for _ in range(12)), *("right" for _ in range(14)), "left right", *("hay" for _ in range(60))]
    await keep(engine, *stored)
    monkeypatch.setattr(plan_module, "MOST_POSTINGS", 13)
    monkeypatch.setattr(retrieval_module, "RERANKED", 0)
    assert await names(engine, "left right", limit=1) == ["d26"]


async def test_a_word_that_is_everywhere_finds_the_latest(
    engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    await keep(engine, *("common" for _ in range(20)))
    monkeypatch.setattr(plan_module, "MOST_POSTINGS", 5)
    found = await find(engine, "common")
    assert [hit.source.document for hit in found.hits] == ["d15", "d16", "d17", "d18", "d19"]
    assert (found.total, found.exhaustive) == (5, False)


async def test_of_very_many_words_the_telling_ones_are_looked_for(
    engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    await keep(engine, "one", "two", "three three", "one two")
    monkeypatch.setattr(plan_module, "MOST_TERMS", 1)
    found = await find(engine, "one two three")
    assert [hit.source.document for hit in found.hits] == ["d2"]
    assert (found.exhaustive, found.coverage) == (False, 1.0)


async def test_coverage_counts_each_word_of_the_question(engine: SqliteEngine) -> None:
    await keep(engine, "alpha beta_gamma 東京")
    found = await find(engine, "alpha alpha gamma zebra zebra 東京 京都 GammaBeta")
    assert found.missing == ("zebra", "京都")
    assert (found.words, found.missed) == (8, 3)
    assert found.coverage == 5 / 8
    assert (await find(engine, "--")).coverage == 0.0


async def test_a_limit_of_nothing_finds_nothing_and_still_counts(engine: SqliteEngine) -> None:
    await keep(engine, "one", "one")
    found = await find(engine, "one", limit=0)
    assert (found.hits, found.total) == ((), 2)
    assert len((await find(engine, "one", limit=1)).hits) == 1


async def test_texts_are_given_up_to_what_one_answer_holds(
    engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    await keep(engine, "x" * 40, "y" * 40, "z" * 4)
    handles = tuple([(await find(engine, letter)).hits[0].handle for letter in ("x" * 40, "y" * 40, "zzzz")])
    monkeypatch.setattr(retrieval_module, "TEXT_BYTES", 80)
    both: Expanded = await ask(engine, Expand("default", handles[:2]))
    assert ([chunk.handle for chunk in both.chunks], both.too_much) == ([*handles[:2]], frozenset())
    monkeypatch.setattr(retrieval_module, "TEXT_BYTES", 79)
    expanded = await ask(engine, Expand("default", (*handles, Handle(7, 1), Handle(1, 999))))
    assert [chunk.handle for chunk in expanded.chunks] == [handles[0], handles[2]]
    assert expanded.too_much == {handles[1]}
    assert expanded.absent == {Handle(7, 1), Handle(1, 999)}


async def test_hits_that_are_linked_are_ranked_higher_and_the_scores_say_that_they_are_shares(
    engine: SqliteEngine,
) -> None:
    await put(engine, "service:billing", "needle needle needle")
    await put(engine, "service:mail", "needle and some more words beside it")
    await put(engine, "other", "needle")
    plain = await find(engine, "needle")
    assert (plain.hits[2].source.entity, plain.fused) == ("service:mail", False)
    edge = Edge(Node("service", "billing"), "calls", Node("service", "mail"))
    await commit(engine, PutEdge(edge, msgspec.Raw(b"null"), "bob"))
    linked = await find(engine, "needle")
    assert linked.fused
    assert {hit.source.entity: hit.score for hit in linked.hits}["service:mail"] > 0.3
    assert [hit.source.entity for hit in linked.hits].index("service:mail") == 1
    assert linked.total == plain.total
    await commit(engine, DeleteEdge(edge, "bob"))
    assert await find(engine, "needle") == plain


async def test_a_document_is_linked_to_the_facts_of_the_entities_that_it_names(engine: SqliteEngine) -> None:
    await put(engine, "service/billing", "needle")
    guide = Document("guide", (Passage("needle here"),), entities=("service:billing", "nonsense"))
    await commit(engine, store("default", (guide, Document("other", (Passage("needle here"),)))))
    found = await find(engine, "needle")
    assert found.fused
    assert [hit.source.document or hit.source.entity for hit in found.hits][:2] in (
        ["service/billing", "guide"],
        ["guide", "service/billing"],
    )
    assert found.hits[2].source.document == "other"


async def test_a_search_that_is_given_up_at_any_point_leaves_nothing_open(engine: SqliteEngine) -> None:
    await keep(engine, *(f"common needle {number}" for number in range(200)))
    reader = engine._readers._inline
    reader.connection.set_progress_handler(reader._look, 1)
    given_up = 0
    for most in itertools.chain(range(0, 2000, 37), [10**9]):
        looks = itertools.count()
        try:
            found: Any = reader.read(Retrieve("default", "common needle", 3), lambda: next(looks) >= most)  # noqa: B023
        except ReadTooLong:
            given_up += 1
        else:
            assert found.total == 200
        assert not reader.connection.in_transaction
    assert given_up > 20
    assert found.total == 200
