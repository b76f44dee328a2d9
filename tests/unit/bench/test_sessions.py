"""The pure parts of measuring a daemon's streams."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.failure import BenchFailed
from bench.sessions import gauge, spread

EXPOSITION = """\
# HELP crux_wire_streams The lean listener's streams
# TYPE crux_wire_streams gauge
crux_wire_streams{listener="mcp"} 2.0
crux_wire_streams{listener="other"} 40.0
crux_wire_streams_total 900.0
up 1e3
"""


@given(st.lists(st.integers(), min_size=1, max_size=300, unique=True), st.integers(1, 300))
def test_pushes_go_to_as_many_different_streams_as_there_are_or_are_wanted(streams: list[int], count: int) -> None:
    chosen = list(spread(streams, count))
    assert len(chosen) == min(count, len(streams))
    places = [streams.index(each) for each in chosen]
    assert places == sorted(set(places))


def test_the_chosen_streams_lie_evenly_among_all() -> None:
    assert list(spread(range(10_000), 4)) == [0, 2_500, 5_000, 7_500]


@pytest.mark.parametrize(("name", "value"), [("crux_wire_streams", 42.0), ("up", 1_000.0)])
def test_a_gauge_is_the_sum_of_its_samples(name: str, value: float) -> None:
    assert gauge(EXPOSITION, name) == value


@pytest.mark.parametrize("name", ["crux_wire", "crux_wire_stream.", "streams"])
def test_a_gauge_that_the_daemon_does_not_have_fails_the_bench(name: str) -> None:
    with pytest.raises(BenchFailed, match="no metric"):
        gauge(EXPOSITION, name)
