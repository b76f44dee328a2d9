"""`python -m bench.retrieval`: measure, show, draw."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import attrs
import click
import msgspec
import trio
from rich.console import Console
from rich.table import Table

from bench.failure import BenchFailed
from bench.retrieval import chart
from bench.retrieval.corpus import KINDS
from bench.retrieval.measure import Figures, measure
from bench.servers import Cores

OUT = Path(__file__).parent.parent / "out"
SIZES = (1_000, 10_000, 100_000, 1_000_000)


@click.command()
@click.option(
    "--size", "sizes", type=int, multiple=True, help="Documents; may be repeated.  [default: 1000 to 1000000]"
)
def main(sizes: tuple[int, ...]) -> None:
    """Measure how well and how fast Crux finds what is known, by the size of the index. See bench/README.md."""
    console = Console()
    cores = Cores(None, None)  # the daemon searches beside its event loop, and is to have a core for that
    try:
        found = trio.run(_measure, sorted(sizes or SIZES), cores, console)
    except* BenchFailed as failures:
        raise click.ClickException("; ".join(map(str, failures.exceptions))) from failures
    (OUT / "retrieval.json").write_bytes(msgspec.json.format(msgspec.json.encode([attrs.asdict(f) for f in found])))
    chart.draw(found, OUT / "retrieval.png")
    _show(found, console)


async def _measure(sizes: list[int], cores: Cores, console: Console) -> list[Figures]:
    OUT.mkdir(exist_ok=True)
    found: list[Figures] = []
    for size in sizes:
        # Not under the system's temporary directory: that may be memory, where a sync costs nothing.
        with TemporaryDirectory(dir=OUT, prefix="run-") as work_dir, console.status("starting") as status:
            found.append(await measure(size, cores, Path(work_dir), status.update))
    return found


def _show(found: list[Figures], console: Console) -> None:
    speed = Table(
        "documents",
        "p50",
        "p95",
        "took p50",
        "raw p50",
        "x raw",
        "docs/s",
        "x raw",
        "bytes/doc",
        "store p95",
        "in storm",
        "x",
    )
    for figures in found:
        speed.add_row(
            f"{figures.size:,}",
            f"{figures.p50_ms:.1f} ms",
            f"{figures.p95_ms:.1f} ms",
            f"{figures.took_p50_ms:.1f} ms",
            f"{figures.raw_p50_ms:.1f} ms",
            f"{figures.took_p50_ms / figures.raw_p50_ms:.2f}",
            f"{figures.docs_per_s:,.0f}",
            f"{figures.docs_per_s / figures.raw_docs_per_s:.2f}",
            f"{figures.bytes_per_doc:,.0f}",
            f"{figures.store_p95_ms:.1f} ms",
            f"{figures.store_p95_in_storm_ms:.1f} ms",
            f"{figures.store_p95_in_storm_ms / figures.store_p95_ms:.2f}",
        )
    quality = Table("documents", *KINDS, "replaced facts shown", title="recall@10 / MRR")
    for figures in found:
        answers = (f"{q.recall:.2f} / {q.mrr:.2f}" for q in (figures.quality[kind] for kind in KINDS))
        quality.add_row(f"{figures.size:,}", *answers, str(figures.stale_shown))
    console.print(speed)
    console.print(quality)


if __name__ == "__main__":
    main()
