"""`python -m bench`: measure, show, keep."""

import os
import signal
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import click
import trio
from rich.console import Console

from bench import chart, report
from bench.durable import durable_rows
from bench.extensions import extension_rows
from bench.failure import BenchFailed
from bench.http import http_rows
from bench.mailbox import mailbox_rows
from bench.measure import Row
from bench.servers import Cores
from bench.settings import NAMES, Settings
from bench.streams import StreamFigures, stream_rows

HERE = Path(__file__).parent
OUT = HERE / "out"
BASELINE = HERE / "baseline.json"


@click.command()
@click.option("--quick", is_flag=True, help="Three rounds of 0.4 s instead of five of 1.5 s.")
@click.option("--rounds", type=click.IntRange(min=1), help="How often each row has its turn.")
@click.option("--seconds", type=click.FloatRange(min=0.05), help="How long one turn is.")
@click.option(
    "--only", type=click.Choice(NAMES), multiple=True, help="Measure this row (may be repeated); default: all."
)
@click.option("--save-baseline", is_flag=True, help="Keep this run as baseline.json, to compare later runs with.")
def main(quick: bool, rounds: int | None, seconds: float | None, only: tuple[str, ...], save_baseline: bool) -> None:
    """Measure Crux beside the frameworks and peers it could have been built with. See bench/README.md."""
    settings = Settings(
        rounds=rounds or (3 if quick else 5), seconds=seconds or (0.4 if quick else 1.5), only=only or NAMES
    )
    core_count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    cores = Cores.choose()
    console = Console()
    try:
        stored = report.read(BASELINE) if BASELINE.exists() else None
        measured = trio.run(_measure, settings, cores, console)
    except BenchFailed as failure:
        raise click.ClickException(str(failure)) from failure
    if measured is None:
        sys.exit(130)
    made = report.make_report(settings, cores, core_count, *measured)
    report.write(made, OUT / "bench.json")
    chart.draw(made, OUT / "bench.png")
    report.show(made, stored, console)
    if save_baseline:
        report.write(made, BASELINE)


async def _measure(settings: Settings, cores: Cores, console: Console) -> tuple[list[Row], StreamFigures | None] | None:
    """All chosen rows; None when a signal ended the run. Raises the `BenchFailed` that came first."""
    cores.pin_generator()
    OUT.mkdir(exist_ok=True)
    rows: list[Row] = []
    figures: StreamFigures | None = None
    interrupted = True
    under_way = ""

    def tell(text: str) -> None:
        nonlocal under_way
        under_way = text
        status.update(text)

    try:
        # Not under the system's temporary directory: that may be memory, where a sync costs nothing.
        with TemporaryDirectory(dir=OUT, prefix="run-") as work_dir, console.status("starting") as status:
            async with trio.open_nursery() as nursery:
                await nursery.start(_cancel_on_signal, nursery.cancel_scope)
                rows += await http_rows(settings, cores, Path(work_dir), tell)
                rows += await durable_rows(settings, cores, Path(work_dir), tell)
                more, figures = await stream_rows(settings, cores, Path(work_dir), tell)
                rows += more
                rows += await mailbox_rows(settings, tell)
                rows += await extension_rows(settings, cores, Path(work_dir), tell)
                interrupted = False
                nursery.cancel_scope.cancel()
    except* BenchFailed as failures:
        reason = _first(failures)
    else:
        return None if interrupted else (rows, figures)
    raise BenchFailed(f"{under_way}: {reason}") from reason


async def _cancel_on_signal(scope: trio.CancelScope, *, task_status: trio.TaskStatus[None]) -> None:
    """Turn Ctrl-C and SIGTERM into a cancellation, so that the servers are ended on the way out."""
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        task_status.started()
        async for _ in signals:
            scope.cancel()


def _first(failures: BaseExceptionGroup[BenchFailed]) -> BenchFailed:
    first = failures.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first


if __name__ == "__main__":
    main()
