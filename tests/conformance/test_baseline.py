"""A run is as expected where the excluded scenarios fail as the baseline says, and nothing else fails."""

from __future__ import annotations

import pytest

from tests.conformance.baseline import BASELINE, excluded, surprises

TEXT = """
- why: it has no such method
  says: "not found: ping"
  scenarios: [ping, pong]
"""


def test_a_baseline_gives_each_scenario_its_words() -> None:
    assert excluded(TEXT) == {"ping": "not found: ping", "pong": "not found: ping"}
    assert excluded(BASELINE.read_text())["ping"] == "method not found: ping"


@pytest.mark.parametrize(
    ("results", "found"),
    [
        ({"tools": [], "ping": ["method not found: ping"]}, []),
        ({"tools": ["no content"], "ping": ["not found: ping"]}, ["tools failed: no content"]),
        ({"tools": [], "ping": []}, ["ping passed: take it out of the baseline"]),
        ({"tools": []}, ["ping is in the baseline and did not run"]),
        (
            {"ping": ["not found: ping", "socket hang up"]},
            ["ping failed, but not with 'not found: ping': socket hang up"],
        ),
    ],
    ids=["as expected", "a failure", "a pass", "no result", "another failure"],
)
def test_whatever_is_not_as_the_baseline_says_is_told(results: dict[str, list[str]], found: list[str]) -> None:
    assert list(surprises(results, {"ping": "not found: ping"})) == found
