"""The scenarios that are known to fail, and a run's results held against them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import yaml

BASELINE = Path(__file__).parent / "baseline.yaml"


def excluded(text: str) -> dict[str, str]:
    """The scenarios of a baseline file, each with words that are in the suite's complaint about it."""
    return {name: group["says"] for group in yaml.safe_load(text) for name in group["scenarios"]}


def surprises(results: Mapping[str, Sequence[str]], baseline: Mapping[str, str]) -> Iterator[str]:
    """What is not as the baseline says. `results` has the complaints about every scenario that ran."""
    for scenario, complaints in results.items():
        says = baseline.get(scenario)
        if says is None:
            yield from (f"{scenario} failed: {complaint}" for complaint in complaints)
        elif not complaints:
            yield f"{scenario} passed: take it out of the baseline"
        else:
            unlike = (complaint for complaint in complaints if says not in complaint)
            yield from (f"{scenario} failed, but not with {says!r}: {complaint}" for complaint in unlike)
    yield from (f"{scenario} is in the baseline and did not run" for scenario in baseline if scenario not in results)
