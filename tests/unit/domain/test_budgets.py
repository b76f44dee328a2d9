"""Budgets of tokens: what they have room for, on both sides of the bound."""

from __future__ import annotations

import pytest

from crux.domain.budgets import MOST_VALUE_TOKENS, Room, within_budget
from crux.domain.facts import Fact


def facts(*tokens: int) -> list[Fact]:
    """Facts whose values have so many tokens."""
    return [Fact(f"f_{number}", "default", "e", "k", "", 1, 0, count) for number, count in enumerate(tokens)]


@pytest.mark.parametrize(
    ("tokens", "budget", "kept"),
    [
        ((), 0, 0),
        ((5, 5, 5), 0, 1),
        ((5, 5, 5), 9, 1),
        ((5, 5, 5), 10, 2),
        ((5, 5, 5), 15, 3),
        ((5, 0, 0), 1, 1),
        ((0, 0, 1), 0, 2),
        ((MOST_VALUE_TOKENS, 1), None, 1),
        ((MOST_VALUE_TOKENS - 1, 1), None, 2),
        ((MOST_VALUE_TOKENS, 1), 2 * MOST_VALUE_TOKENS, 1),
        ((2 * MOST_VALUE_TOKENS,), None, 1),
    ],
)
def test_values_are_taken_in_order_while_they_fit_the_first_in_any_case(
    tokens: tuple[int, ...], budget: int | None, kept: int
) -> None:
    stored = facts(*tokens)
    assert list(within_budget(stored, budget)) == stored[:kept]


def test_a_room_takes_its_first_thing_in_any_case_and_then_what_fits() -> None:
    room = Room(4)
    assert room.takes("x" * 40)
    assert not room.takes("x")
    assert room.spent == 10
    room = Room(4)
    assert [room.takes("xx", 1234) for _ in range(3)] == [True, True, False]
    assert Room(None).takes("x" * 40)
