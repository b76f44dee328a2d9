"""The arithmetic of the bench: percentiles, medians, ratios, turns."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.measure import (
    Contender,
    Latency,
    Round,
    Row,
    against,
    alternate,
    median_latency,
    percentile,
    round_of,
    rows_of,
)

TIMES = st.lists(st.floats(0, 1e3), min_size=1)


def contender(name: str, log: list[str] | None = None, rates: tuple[float, ...] = (1.0,)) -> Contender:
    answers = iter(rates)

    async def measure() -> Round:
        if log is not None:
            log.append(name)
        return Round(rate=next(answers))

    return Contender(name, name.upper(), measure)


def row(name: str, ratio: float | None) -> Row:
    return Row(name=name, title=name, section="http", rate=10.0, ratio=ratio, latency=None, rounds=(Round(10.0),))


@pytest.mark.parametrize(
    ("count", "share", "expected"),
    [
        (1, 0.5, 1),
        (2, 0.5, 1),
        (3, 0.5, 2),
        (20, 0.95, 19),
        (100, 0.07, 7),
        (100, 0.99, 99),
        (10, 0.99, 10),
        (5, 1.0, 5),
    ],
)
def test_a_percentile_is_the_nearest_rank(count: int, share: float, expected: int) -> None:
    assert percentile(list(range(1, count + 1)), share) == expected


@given(TIMES, st.integers(1, 100))
def test_a_percentile_is_the_smallest_value_that_its_share_does_not_exceed(times: list[float], percent: int) -> None:
    ordered = sorted(times)
    value = percentile(ordered, percent / 100)
    # Compared in whole numbers: count/len >= percent/100.
    assert sum(each <= value for each in ordered) * 100 >= percent * len(ordered)
    assert sum(each < value for each in ordered) * 100 < percent * len(ordered)


@given(TIMES)
def test_a_rounds_percentiles_ascend_and_ignore_the_order_of_completion(times: list[float]) -> None:
    measured = round_of(times, 2.0)
    assert measured == round_of(times[::-1], 2.0)
    assert measured.rate == len(times) / 2
    assert measured.latency is not None
    assert all(
        low <= high
        for low, high in pairwise([measured.latency.p50_ms, measured.latency.p95_ms, measured.latency.p99_ms])
    )


def test_latencies_are_reported_in_milliseconds() -> None:
    assert round_of([0.25], 1.0).latency == Latency(250, 250, 250)


def test_each_percentile_has_a_median_of_its_own() -> None:
    rounds = [Round(1, Latency(*each)) for each in ((1, 50, 60), (2, 10, 90), (3, 20, 30))]
    assert median_latency(rounds) == Latency(2, 20, 60)


@pytest.mark.parametrize("rounds", [[], [Round(1)], [Round(1, Latency(1, 1, 1)), Round(1)]])
def test_rounds_without_latencies_have_no_median_latency(rounds: list[Round]) -> None:
    assert median_latency(rounds) is None


async def test_contenders_take_turns() -> None:
    log: list[str] = []
    told: list[str] = []
    contenders = [contender("r", log, (1, 2)), contender("crux", log, (3, 4))]
    assert await alternate(contenders, 2, told.append) == {
        "r": (Round(1), Round(2)),
        "crux": (Round(3), Round(4)),
    }
    assert log == ["r", "crux", "r", "crux"]
    assert told == ["round 1 of 2: R", "round 1 of 2: CRUX", "round 2 of 2: R", "round 2 of 2: CRUX"]


def test_a_ratio_is_the_median_rate_over_the_references_median_rate() -> None:
    measured = {
        "r": (Round(100), Round(400), Round(200)),
        "crux": (Round(900), Round(500), Round(100)),
    }
    reference, crux = rows_of("http", "r", [contender("r"), contender("crux")], measured)
    assert (reference.rate, reference.ratio) == (200, 1.0)
    assert (crux.rate, crux.ratio) == (500, 2.5)
    assert crux.rounds == measured["crux"]


def test_without_its_reference_a_row_has_no_ratio() -> None:
    [alone] = rows_of("http", "r", [contender("crux")], {"crux": (Round(5),)})
    assert (alone.rate, alone.ratio) == (5, None)


@pytest.mark.parametrize(
    ("now", "then", "expected"),
    [(3.0, 2.0, 1.5), (1.0, 2.0, 0.5), (None, 2.0, None), (3.0, None, None), (3.0, 0.0, None)],
)
def test_a_row_is_compared_with_its_stored_self_by_ratio(
    now: float | None, then: float | None, expected: float | None
) -> None:
    assert against(row("crux", now), [row("r", 1.0), row("crux", then)]) == expected


def test_a_row_that_was_not_stored_is_not_compared() -> None:
    assert against(row("crux", 3.0), [row("r", 1.0)]) is None
