"""A run as a record: what was measured, where and with what. Kept as JSON, shown as a table."""

import json
import platform
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import attrs
import msgspec
from attrs import frozen
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

import crux
from bench import durable, extensions, http
from bench.failure import BenchFailed
from bench.mailbox import TARGET_COST
from bench.measure import Row, against
from bench.servers import Cores
from bench.sessions import TARGET_PUSH_MS, TARGET_RATIO, TARGET_SECOND_ROUND, SessionFigures
from bench.settings import HTTP_REFERENCE, Settings
from bench.streams import TARGET_KIB, TARGET_SLOWDOWN, StreamFigures

CEILING_FLOOR = 8_000
"""Calls per second that the generator must be able to make for its figures to be about the servers."""

SECTIONS = {
    "http": ("HTTP", "calls/s", "R"),
    "durable": ("Durable writes", "writes/s", "fdatasync"),
    "streams": ("Idle streams", "calls/s", "no streams"),
    "mailbox": ("Mailbox", "trips/s", "the channel"),
    "stuck": ("Stuck endpoints", "calls/s", "none stuck"),
    "invokes": ("Calls of external tools", "calls/s", "one at a time"),
    "instant": ("An endpoint that answers at once", "calls/s", "as many of the bare client"),
}
"""Title, unit of the rate, and the name of the reference."""

_PACKAGES = ("hypercorn", "quart-trio", "trio", "mcp", "fastmcp", "uvicorn", "msgspec")


@frozen
class Report:
    """One run, as it stands in `bench.json` and `baseline.json`."""

    made_at: str
    machine: dict[str, str]
    versions: dict[str, str]
    settings: Settings
    cores: str
    rows: tuple[Row, ...]
    streams: StreamFigures | None = None


def make_report(
    settings: Settings, cores: Cores, core_count: int, rows: Sequence[Row], streams: StreamFigures | None
) -> Report:
    """The record of a run that ends now on this machine."""
    return Report(
        made_at=datetime.now(UTC).isoformat(timespec="seconds"),
        machine={
            "system": f"{platform.system()} {platform.release()}",
            "processor": _processor(),
            "cores": str(core_count),
            "python": f"{platform.python_implementation()} {platform.python_version()}",
        },
        versions={"crux": crux.__version__} | {name: version(name) for name in _PACKAGES},
        settings=settings,
        cores=str(cores),
        rows=tuple(rows),
        streams=streams,
    )


def write(report: Report, path: Path) -> None:
    """Write the record as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(attrs.asdict(report), indent=2) + "\n")


def read(path: Path) -> Report:
    """A record that `write` wrote; raises `BenchFailed` for anything else."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Report)
    except msgspec.DecodeError as broken:
        raise BenchFailed(f"{path} is no report of this bench ({broken}); renew it with --save-baseline") from broken


def show(report: Report, stored: Report | None, console: Console) -> None:
    """Print one table a section and what a reader should know before trusting it."""
    for section in SECTIONS:
        rows = [row for row in report.rows if row.section == section]
        if rows:
            console.print(_table(section, rows, () if stored is None else stored.rows))
    for line in remarks(report, stored):
        console.print(f"- {line}")


def remarks(report: Report, stored: Report | None) -> list[str]:
    """What qualifies the figures: pinning, the generator's limits, the targets, the stored run."""
    rows = {row.name: row for row in report.rows}
    lines = [f"{report.cores}; {report.settings.rounds} rounds of {report.settings.seconds:g} s, medians"]
    if (ceiling := rows.get("ceiling")) is not None:
        if ceiling.rate < CEILING_FLOOR:
            lines.append(
                f"the generator made {ceiling.rate:,.0f} calls/s at most, under {CEILING_FLOOR:,}: a busy machine"
            )
        lines += [
            f"{row.title} is near the generator's ceiling: it may be faster than shown"
            for row in report.rows
            if row.section == "http" and row is not ceiling and row.rate > 0.7 * ceiling.rate
        ]
    lines += _beside_r(rows)
    lines += _of_streams(rows, report.streams)
    if (ask := rows.get("ask")) is not None and ask.ratio is not None:
        lines.append(f"an ask costs {1 / ask.ratio:.2f} bare round trips, {_at_most(1 / ask.ratio, TARGET_COST)}")
    lines += _of_extensions(rows)
    if stored is not None:
        lines.append(f"'then' compares ratios with the run stored at {stored.made_at}: above 1 is better than then")
        if stored.machine != report.machine:
            lines.append("that run was made on another machine or Python")
    return lines


def _beside_r(rows: Mapping[str, Row]) -> list[str]:
    """How Crux stands to R, its writes too, whose own reference is the disk; nothing where R was not measured."""
    if (reference := rows.get(HTTP_REFERENCE)) is None:
        return []
    shares = {name: row.rate / reference.rate for name, row in rows.items()}
    lines = [
        f"{rows[name].title} reaches {shares[name]:.2f} R: {_verdict(shares[name], target)}"
        for name, target in http.TARGETS_OF_R.items()
        if name in rows
    ]
    lines += [
        f"{rows[name].title} reaches {rows[name].rate / rows[other].rate:.2f} of {rows[other].title}: "
        f"{_verdict(rows[name].rate / rows[other].rate, target)}"
        for (name, other), target in http.TARGETS_BESIDE.items()
        if name in rows and other in rows
    ]
    if stores := {name.removeprefix("store-"): share for name, share in shares.items() if name.startswith("store-")}:
        listed = ", ".join(f"{share:.2f} R with {concurrency} at once" for concurrency, share in stores.items())
        judged = f": {_verdict(stores['64'], durable.TARGET_SHARE)}" if "64" in stores else ""
        lines.append(f"store_fact reaches {listed}{judged}")
    return lines


def _of_streams(rows: Mapping[str, Row], figures: StreamFigures | None) -> list[str]:
    if figures is None:
        return []
    lines = [f"an idle stream costs {figures.kib_each:.1f} KiB on the bare listener, at most {TARGET_KIB:g} are meant"]
    calm, busy = rows["calm"].latency, rows["streams"].latency if "streams" in rows else None
    if calm is not None and busy is not None:
        slowdown = busy.p50_ms / calm.p50_ms
        lines.append(
            f"with {figures.count:,} of them a call takes {slowdown:.2f} times as long, {TARGET_SLOWDOWN:g} at most"
        )
    if figures.daemon is not None:
        lines += _of_sessions(figures, figures.daemon)
    if "push" in rows and (push := rows["push"].latency) is not None:
        lines.append(
            f"a push comes {push.p50_ms:.1f} ms after its call was sent, {_at_most(push.p50_ms, TARGET_PUSH_MS)}"
        )
    return lines


def _of_extensions(rows: Mapping[str, Row]) -> list[str]:
    lines = []
    if (stuck := rows.get("stuck")) is not None and stuck.ratio is not None:
        verdict = _verdict(stuck.ratio, extensions.TARGET_UNSLOWED)
        lines.append(
            f"while {extensions.AT_ONCE} calls are stuck, others keep {stuck.ratio:.2f} of their rate: {verdict}"
        )
    for name in ("invoke-200", "invoke-200-http"):
        if (row := rows.get(name)) is not None and row.ratio is not None:
            times = extensions.AT_ONCE / row.ratio
            verdict = f", {_at_most(times, extensions.TARGET_BURST)}" if name == "invoke-200" else ""
            lines.append(f"{row.title} take {times:.2f} times as long as one{verdict}")
    return lines


def _of_sessions(figures: StreamFigures, daemon: SessionFigures) -> list[str]:
    ratio = daemon.kib_each / figures.kib_each
    when = f"{abs(daemon.after_answer_ms):.2f} ms {'after' if daemon.after_answer_ms > 0 else 'before'}"
    cost = f"a stream of the daemon costs {daemon.kib_each:.1f} KiB, {ratio:.2f} bare ones"
    again = f"as many opened again take {daemon.second_round:.2f} times the memory"
    return [
        f"{cost}, {_at_most(ratio, TARGET_RATIO)}",
        f"{again}, {_at_most(daemon.second_round, TARGET_SECOND_ROUND)}; the system has {daemon.returned:.0%} back",
        f"after those and {daemon.abandoned:,} abandoned ones the daemon counts {daemon.left} streams and connections",
        f"a push comes {when} the answer to its call",
    ]


def _at_most(value: float, target: float) -> str:
    return f"{'within' if value <= target else 'ABOVE'} the target of {target:g}"


def _verdict(share: float, target: float) -> str:
    return f"the target of {target:g} is {'met' if share >= target else 'MISSED'}"


def _table(section: str, rows: Sequence[Row], stored: Sequence[Row]) -> Table:
    title, unit, reference = SECTIONS[section]
    table = Table(
        title=f"{title}: {unit}, ratio to {reference}",
        title_justify="left",
        box=SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
    )
    table.add_column("what", min_width=33)
    for heading in ("rate", "ratio", "p50 ms", "p95 ms", "p99 ms", "then"):
        table.add_column(heading, justify="right")
    for row in rows:
        latency = row.latency
        times = (None, None, None) if latency is None else (latency.p50_ms, latency.p95_ms, latency.p99_ms)
        table.add_row(row.title, f"{row.rate:,.0f}", *map(_number, (row.ratio, *times, against(row, stored))))
    return table


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _processor() -> str:
    if sys.platform == "linux":
        for line in Path("/proc/cpuinfo").read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
