import pytest
from hypothesis import given
from hypothesis import strategies as st

from crux.domain.usage import MOST, Usage, declared_budget

amounts = st.integers(0, 2000) | st.integers(MOST - 1000, MOST) | st.integers(0, MOST)


@given(st.lists(st.tuples(amounts, amounts, amounts), max_size=20))
def test_totals_are_sums_up_to_the_largest_64_bit_number(calls: list[tuple[int, int, int]]) -> None:
    usage = Usage()
    for tokens_in, tokens_out, budget in calls:
        usage = usage.plus(tokens_in=tokens_in, tokens_out=tokens_out, declared_budget=budget)
    sums = [min(sum(call[place] for call in calls), 2**64 - 1) for place in range(3)]
    assert usage == Usage(len(calls), *sums)


def test_the_number_of_calls_stops_there_too() -> None:
    usage = Usage(calls=MOST - 1)
    for _ in range(2):
        usage = usage.plus(tokens_in=1, tokens_out=1, declared_budget=0)
    assert usage.calls == MOST


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
