"""What searches answer: the budget, and what the caller can tell of what was left out."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crux.domain.answers import MOST_GAPS, crc_search, plain_query, plain_scan
from crux.domain.budgets import Room
from crux.domain.recall import POINTER_TOKENS
from crux.domain.retrieval import Handle, Hit, Retrieved, Source
from crux.domain.tokens import of_json


def found(count: int, **more: object) -> Retrieved:
    hits = tuple(Hit(Handle(0, n), 10.0 / (n + 1), 50, Source(document=f"doc{n}")) for n in range(count))
    return msgspec.structs.replace(Retrieved(hits, count + 3, 1, 4, ("x", "y"), 2, 99), **more)


def test_without_a_budget_every_hit_is_there() -> None:
    answer = crc_search(found(5), token_budget=None, pointers_only=False, took_ms=1.234)
    assert [pointer.id for pointer in answer.pointers] == ["0:0", "0:1", "0:2", "0:3", "0:4"]
    assert [row.doc_id for row in answer.results] == [0, 1, 2, 3, 4]
    assert (answer.cost_estimate.pointer, answer.cost_estimate.summary, answer.cost_estimate.full) == (200, 750, 250)
    assert (answer.meta.total_candidates, answer.meta.left_out, answer.meta.budget_truncated) == (8, 0, False)
    assert (answer.coverage.score, answer.coverage.gaps, answer.coverage.below_floor) == (0.5, ("x", "y"), 1)
    assert answer.meta.took_ms == 1.23


@given(st.integers(0, 12), st.integers(0, 600))
def test_a_budget_is_exceeded_by_the_first_hit_only_and_never_silently(count: int, budget: int) -> None:
    answer = crc_search(found(count), token_budget=budget, pointers_only=False, took_ms=0)
    emitted = len(answer.results)
    costs = [of_json(list(pair)) for pair in zip(answer.pointers, answer.results, strict=True)]
    assert emitted >= min(count, 1)
    assert emitted <= 1 or sum(costs) - emitted * 2 <= budget
    assert answer.meta.left_out == count - emitted
    assert answer.meta.budget_truncated == (emitted < count)


def test_pointers_alone_are_charged_where_the_operator_says_so() -> None:
    for budget, emitted in ((0, 1), (POINTER_TOKENS * 2 - 1, 1), (POINTER_TOKENS * 2, 2), (POINTER_TOKENS * 9, 5)):
        answer = crc_search(found(5), token_budget=budget, pointers_only=True, took_ms=0)
        assert (len(answer.pointers), answer.meta.left_out) == (emitted, 5 - emitted)


def test_missing_words_are_named_up_to_a_number() -> None:
    words = tuple(f"w{n}" for n in range(MOST_GAPS + 1))
    answer = crc_search(found(0, missing=words, missed=len(words)), token_budget=None, pointers_only=False, took_ms=0)
    assert answer.coverage.gaps == words[:MOST_GAPS]


def test_an_empty_index_says_so() -> None:
    answer = crc_search(Retrieved(words=1, missing=("x",), missed=1), token_budget=5, pointers_only=False, took_ms=0)
    assert answer.meta.note == "the index is empty: ingest documents, or store public facts"
    assert (answer.results, answer.meta.tokens_returned, answer.meta.segments_searched) == ((), 0, 0)


@given(st.integers(0, 12), st.integers(0, 600))
def test_the_plain_forms_keep_the_budget_too(count: int, budget: int) -> None:
    query, scan = plain_query(found(count), budget), plain_scan(found(count), budget)
    assert query.results == scan.scan
    assert [hit.rank for hit in scan.scan] == list(range(1, len(scan.scan) + 1))
    assert len(scan.scan) <= 1 or sum(map(of_json, scan.scan)) <= budget
    assert query.left_out == count - len(query.results)
    assert scan.budget_truncated == (len(scan.scan) < count)


def test_fused_scores_say_so() -> None:
    assert plain_query(found(1, fused=True), None).meta.score_space == "bm25_graph_fused"
    assert crc_search(found(1), token_budget=None, pointers_only=False, took_ms=0).meta.score_space == "bm25_lexical"


@pytest.mark.parametrize(("budget", "taken"), [(None, 5), (0, 1), (9, 1), (10, 2), (14, 2), (15, 3)])
def test_room_takes_the_first_in_any_case_and_then_what_fits(budget: int | None, taken: int) -> None:
    room = Room(budget)
    assert sum(room.takes("x" * 18) for _ in range(5)) == taken
