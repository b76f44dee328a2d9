import pytest
from hypothesis import given
from hypothesis import strategies as st

from crux.domain.usage import MOST, Totals, Usage, declared_budget

amounts = st.integers(0, 2000) | st.integers(MOST - 1000, MOST) | st.integers(0, MOST)


@given(st.lists(st.tuples(amounts, amounts, amounts), max_size=20))
def test_totals_are_sums_up_to_the_largest_64_bit_number(calls: list[tuple[int, int, int]]) -> None:
    totals = Totals()
    for call in calls:
        totals.add(*call)
    sums = [min(sum(call[place] for call in calls), 2**64 - 1) for place in range(3)]
    assert totals.usage() == Usage(len(calls), *sums)


def test_the_number_of_calls_stops_there_too() -> None:
    totals = Totals(calls=MOST - 1)
    for _ in range(2):
        totals.add(1, 1, 0)
    assert totals.usage().calls == MOST


@pytest.mark.parametrize(
    ("arguments", "budget"),
    [
        ({"token_budget": 500}, 500),
        ({"token_budget": 0}, 0),
        ({"token_budget": -1}, None),
        ({"token_budget": 500.0}, None),
        ({"token_budget": True}, None),
        ({"token_budget": "500"}, None),
        ({"token_budget": None}, None),
        ({}, None),
        (None, None),
        ([500], None),
    ],
)
def test_a_budget_is_declared_by_a_whole_number(arguments: object, budget: int | None) -> None:
    assert declared_budget(arguments) == budget
