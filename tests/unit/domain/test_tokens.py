import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crux.domain.tokens import of_json, of_size, of_text, utf8_size


@given(st.text())
def test_size_is_what_the_text_takes_in_utf8(text: str) -> None:
    assert utf8_size(text) == len(text.encode())


@given(st.text())
def test_a_value_costs_a_token_for_each_four_bytes_begun(text: str) -> None:
    assert of_text(text) == math.ceil(len(text.encode()) / 4)


@pytest.mark.parametrize(("text", "tokens"), [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("éé", 1), ("日本", 2)])
def test_known_values_cost(text: str, tokens: int) -> None:
    assert of_text(text) == tokens


@pytest.mark.parametrize(("size", "tokens"), [(0, 1), (4, 1), (7, 1), (8, 2), (400, 100), (402, 100)])
def test_what_is_sent_costs_a_token_for_each_four_bytes_full_and_at_least_one(size: int, tokens: int) -> None:
    assert of_size(size) == tokens


@pytest.mark.parametrize(
    ("value", "tokens"),
    [(None, 1), ("a" * 400, 100), ("a" * 401, 100), ("a" * 402, 101), ({}, 1), ({"a": [1, 2]}, 2), ("é" * 7, 4)],
)
def test_a_json_value_costs_its_compact_form(value: object, tokens: int) -> None:
    assert of_json(value) == tokens
