"""The token bucket: so many at once, so many a second, never more."""

from hypothesis import given
from hypothesis import strategies as st

from crux.domain.allowance import Allowance


def spent(allowance: Allowance, now_s: float) -> tuple[Allowance, int]:
    """What is left when everything is spent at one instant, and how much that was."""
    count = 0
    while (left := allowance.spend(now_s)) is not None:
        allowance, count = left, count + 1
    return allowance, count


def test_a_burst_is_followed_by_the_rate() -> None:
    allowance, count = spent(Allowance.full(3, 2, 10.0), 10.0)
    assert count == 3
    assert allowance.spend(10.25) is None
    allowance, count = spent(allowance, 10.5)
    assert count == 1
    assert spent(allowance, 1000.0)[1] == 3, "time without use saves up no more than a burst"


def test_what_was_not_used_can_be_spent_again_and_adds_nothing_to_a_full_one() -> None:
    empty, _ = spent(Allowance.full(2, 1, 0.0), 0.0)
    assert spent(empty.give_back(), 0.0)[1] == 1
    assert spent(Allowance.full(2, 1, 0.0).give_back(), 0.0)[1] == 2


@given(st.lists(st.integers(0, 400), max_size=30))
def test_no_pattern_of_use_gets_more_than_a_burst_and_the_rate(pauses: list[int]) -> None:
    allowance, total, quarters = Allowance.full(5, 2, 0.0), 0, 0
    for pause in pauses:
        quarters += pause
        allowance, count = spent(allowance, quarters / 4)
        total += count
    assert total <= 5 + 2 * quarters / 4
