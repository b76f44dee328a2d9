"""Scores: the formula's own properties, and what links between hits do."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crux.domain.bm25 import K1, engine_idf, fused, idf, weight

counts = st.integers(1, 10**7)


@given(counts, counts)
def test_a_rarer_term_says_more_and_none_says_nothing(passages: int, frequency: int) -> None:
    frequency = min(frequency, passages)
    assert idf(passages, frequency) > 0
    if frequency > 1:
        assert idf(passages, frequency - 1) > idf(passages, frequency)


@given(st.integers(1, 1000), st.integers(1, 10_000), st.floats(1, 10_000))
def test_more_of_a_term_earns_more_up_to_a_bound_and_a_longer_passage_less(
    frequency: int, length: int, mean: float
) -> None:
    earned = weight(frequency, length, mean)
    assert 0 < earned < K1 + 1
    assert weight(frequency + 1, length, mean) > earned
    assert weight(frequency, length + 1, mean) < earned


def test_once_in_a_passage_of_mean_length_earns_one() -> None:
    assert weight(1, 50, 50.0) == pytest.approx(1.0)


def test_the_engine_s_idf_never_sinks_to_nothing() -> None:
    assert engine_idf(10, 9) == 1e-6
    assert engine_idf(10, 1) == pytest.approx(math.log(9.5 / 1.5))


def test_a_hit_that_is_linked_to_the_best_gains_and_one_that_is_not_does_not() -> None:
    assert fused([10.0, 5.0, 5.0], [[], [0], []]) == pytest.approx([0.7, 0.65, 0.35])
    assert fused([], []) == []
    assert fused([0.0], [[]]) == [0.0]


@given(st.lists(st.floats(0.001, 100), min_size=1, max_size=10))
def test_without_links_the_order_stays(scores: list[float]) -> None:
    shares = fused(scores, [[] for _ in scores])
    assert sorted(range(len(scores)), key=scores.__getitem__) == sorted(range(len(scores)), key=shares.__getitem__)
    assert all(0 <= share <= 1 for share in shares)
