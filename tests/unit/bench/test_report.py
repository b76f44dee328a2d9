"""What the bench remarks about its own figures."""

import pytest

from bench.measure import Latency, Row
from bench.report import Report, remarks
from bench.sessions import SessionFigures
from bench.settings import Settings
from bench.streams import StreamFigures


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


def streams(row: Row, daemon: SessionFigures | None = None) -> list[str]:
    """What is said of streams that cost 10 KiB each on the bare listener."""
    calm = Row("calm", "calm", "streams", 1.0, 1.0, Latency(1, 1, 1), ())
    figures = StreamFigures(10_000, 10.0, daemon)
    run = Report("2026-11-30", {}, {}, Settings(rounds=1, seconds=1.0), "pinned", (calm, row), figures)
    _, cost, *others = remarks(run, None)
    assert cost == "an idle stream costs 10.0 KiB on the bare listener, at most 12 are meant"
    return others


def test_the_bare_streams_are_held_against_none_at_all() -> None:
    busy = Row("streams", "busy", "streams", 1.0, 1.0, Latency(1.2, 3, 4), ())
    assert streams(busy) == ["with 10,000 of them a call takes 1.20 times as long, 1.5 at most"]


@pytest.mark.parametrize(
    ("figures", "p50_ms", "said"),
    [
        (
            SessionFigures(
                kib_each=13.0, after_answer_ms=-0.25, second_round=1.05, returned=0.4, abandoned=2_000, left=0
            ),
            20.0,
            [
                "a stream of the daemon costs 13.0 KiB, 1.30 bare ones, within the target of 1.3",
                "as many opened again take 1.05 times the memory, within the target of 1.05; the system has 40% back",
                "after those and 2,000 abandoned ones the daemon counts 0 streams and connections",
                "a push comes 0.25 ms before the answer to its call",
                "a push comes 20.0 ms after its call was sent, within the target of 20",
            ],
        ),
        (
            SessionFigures(
                kib_each=13.1, after_answer_ms=0.5, second_round=1.06, returned=-0.01, abandoned=2_000, left=3
            ),
            20.1,
            [
                "a stream of the daemon costs 13.1 KiB, 1.31 bare ones, ABOVE the target of 1.3",
                "as many opened again take 1.06 times the memory, ABOVE the target of 1.05; the system has -1% back",
                "after those and 2,000 abandoned ones the daemon counts 3 streams and connections",
                "a push comes 0.50 ms after the answer to its call",
                "a push comes 20.1 ms after its call was sent, ABOVE the target of 20",
            ],
        ),
    ],
)
def test_the_daemons_streams_are_held_against_the_bare_ones_and_the_targets(
    figures: SessionFigures, p50_ms: float, said: list[str]
) -> None:
    assert streams(Row("push", "push", "streams", 1.0, None, Latency(p50_ms, 30, 40), ()), figures) == said


@pytest.mark.parametrize(
    ("name", "ratio", "said"),
    [
        ("stuck", 0.95, "while 200 calls are stuck, others keep 0.95 of their rate: the target of 0.95 is met"),
        ("stuck", 0.94, "while 200 calls are stuck, others keep 0.94 of their rate: the target of 0.95 is MISSED"),
        ("invoke-200", 200 / 3, "x take 3.00 times as long as one, within the target of 3"),
        ("invoke-200", 50, "x take 4.00 times as long as one, ABOVE the target of 3"),
        ("invoke-200-http", 50, "x take 4.00 times as long as one"),
    ],
)
def test_calls_of_external_tools_are_held_against_one_and_none(name: str, ratio: float, said: str) -> None:
    run = Report(
        "2026-12-01", {}, {}, Settings(rounds=1, seconds=1.0), "pinned", (Row(name, "x", "s", 1, ratio, None, ()),)
    )
    assert remarks(run, None)[1:] == [said]
