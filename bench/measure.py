"""Rounds, medians and ratios. Nothing here touches a clock, a socket or a file.

A section is a few contenders that take turns, round after round, so that a machine which slows down slows them all. The
figure of a contender is the median of its rounds, and its ratio is to the section's reference in the same run.
"""

import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from statistics import median

from attrs import frozen


@frozen
class Latency:
    """Percentiles of the time from sending a request to having its whole answer, in milliseconds."""

    p50_ms: float
    p95_ms: float
    p99_ms: float


@frozen
class Round:
    """One stretch of measuring: completions per second, and their latencies where single ones were timed."""

    rate: float
    latency: Latency | None = None


@frozen
class Contender:
    """One thing to measure: `measure` runs it for one round."""

    name: str
    title: str
    measure: Callable[[], Awaitable[Round]]


@frozen
class Row:
    """What the report says of one contender: medians over its rounds, and `ratio` = rate over the reference's rate."""

    name: str
    title: str
    section: str
    rate: float
    ratio: float | None
    latency: Latency | None
    rounds: tuple[Round, ...]


def percentile(ordered: Sequence[float], share: float) -> float:
    """The smallest of the ascending values that a `share` of them (above 0, at most 1) do not exceed (nearest rank)."""
    # Rounded, because 0.07 * 100 is a little above 7 in binary.
    return ordered[math.ceil(round(share * len(ordered), 9)) - 1]


def round_of(latencies_s: Sequence[float], elapsed_s: float) -> Round:
    """The figures of one stretch in which calls took `latencies_s`, at least one."""
    ordered = sorted(latencies_s)
    p50, p95, p99 = (percentile(ordered, share) * 1_000 for share in (0.50, 0.95, 0.99))
    return Round(rate=len(ordered) / elapsed_s, latency=Latency(p50, p95, p99))


def median_latency(rounds: Sequence[Round]) -> Latency | None:
    """The median of each percentile; None when a round has no latencies."""
    latencies = [each.latency for each in rounds if each.latency is not None]
    if not latencies or len(latencies) < len(rounds):
        return None
    return Latency(
        p50_ms=median(each.p50_ms for each in latencies),
        p95_ms=median(each.p95_ms for each in latencies),
        p99_ms=median(each.p99_ms for each in latencies),
    )


async def alternate(
    contenders: Sequence[Contender], rounds: int, tell: Callable[[str], None]
) -> Mapping[str, tuple[Round, ...]]:
    """Measure every contender once, then all of them again, `rounds` times; `tell` hears what is under way."""
    measured: dict[str, list[Round]] = {contender.name: [] for contender in contenders}
    for number in range(1, rounds + 1):
        for contender in contenders:
            tell(f"round {number} of {rounds}: {contender.title}")
            measured[contender.name].append(await contender.measure())
    return {name: tuple(each) for name, each in measured.items()}


def rows_of(
    section: str, reference: str, contenders: Sequence[Contender], measured: Mapping[str, tuple[Round, ...]]
) -> list[Row]:
    """The section's rows in the order of its contenders; no ratios where the reference was not measured."""
    rates = {name: median(each.rate for each in rounds) for name, rounds in measured.items()}
    base = rates.get(reference)
    return [
        Row(
            name=contender.name,
            title=contender.title,
            section=section,
            rate=rates[contender.name],
            ratio=None if base is None else rates[contender.name] / base,
            latency=median_latency(measured[contender.name]),
            rounds=measured[contender.name],
        )
        for contender in contenders
    ]


def against(row: Row, stored: Sequence[Row]) -> float | None:
    """The row's ratio over the same row's ratio in a stored run: above 1 is better than then.

    Ratios are compared, not rates, because the reference takes the machine out of both. None where either has no ratio.
    """
    then = next((each.ratio for each in stored if each.name == row.name), None)
    return None if row.ratio is None or not then else row.ratio / then
