"""What the bench remarks about its own figures."""

import pytest

from bench.measure import Row
from bench.report import Report, remarks
from bench.settings import Settings


def report(**rates: float) -> Report:
    """A run with these rates; `R` stands for the reference, and `_` for a dash."""
    rows = tuple(
        Row(
            name="hypercorn" if name == "R" else name.replace("_", "-"),
            title=name,
            section="http",
            rate=rate,
            ratio=None,
            latency=None,
            rounds=(),
        )
        for name, rate in rates.items()
    )
    return Report("2026-11-30", {}, {}, Settings(rounds=1, seconds=1.0), "pinned", rows)


@pytest.mark.parametrize(
    ("rates", "said"),
    [
        ({"R": 1000, "crux_query": 2000}, ["crux_query reaches 2.00 R: the target of 2 is met"]),
        ({"R": 1000, "crux_query": 1990}, ["crux_query reaches 1.99 R: the target of 2 is MISSED"]),
        (
            {"R": 1000, "store_1": 40, "store_64": 700},
            ["store_fact reaches 0.04 R with 1 at once, 0.70 R with 64 at once: the target of 0.5 is met"],
        ),
        ({"R": 1000, "store_64": 499}, ["store_fact reaches 0.50 R with 64 at once: the target of 0.5 is MISSED"]),
        ({"R": 1000, "store_1": 40}, ["store_fact reaches 0.04 R with 1 at once"]),
        ({"R": 1000}, []),
        ({"crux_query": 600, "store_64": 700}, []),
    ],
)
def test_what_is_aimed_at_is_held_against_r(rates: dict[str, float], said: list[str]) -> None:
    pinned, *others = remarks(report(**rates), None)
    assert pinned == "pinned; 1 rounds of 1 s, medians"
    assert others == said
