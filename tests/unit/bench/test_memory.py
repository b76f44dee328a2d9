"""What follows from a server's resident sizes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.memory import Footprint

# Opened, used, again, closed: above a start of 1,000 KiB, with 100 streams.
SIZES = [
    ((1_900, 2_000, 2_000, 1_000), 9.0, 1.0, 1.0),
    ((2_000, 2_000, 2_100, 2_100), 10.0, 1.1, 0.0),
    ((2_000, 3_000, 2_000, 1_500), 10.0, 0.5, 0.5),
]


@pytest.mark.parametrize(("sizes", "each", "second_round", "returned"), SIZES)
def test_a_stream_costs_what_the_first_round_added(
    sizes: tuple[float, float, float, float], each: float, second_round: float, returned: float
) -> None:
    footprint = Footprint(100, 1_000, *sizes)
    assert (footprint.each, footprint.second_round, footprint.returned) == (each, second_round, returned)


@given(st.integers(1, 1_000), st.integers(1, 1_000), st.integers(0, 1_000))
def test_a_server_that_uses_its_freed_memory_again_has_not_grown_whatever_the_system_got_back(
    count: int, cost: int, kept: int
) -> None:
    footprint = Footprint(count, 500, 500 + cost, 500 + cost, 500 + cost, 500 + min(kept, cost))
    assert footprint.second_round == 1.0
    assert 0.0 <= footprint.returned <= 1.0
