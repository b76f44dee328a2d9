"""The picture: how long a search takes, by the size of the index."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bench.retrieval.measure import Figures


def draw(found: Sequence[Figures], path: Path) -> None:
    """Latency over size, on logarithmic axes, with the bare index beside."""
    import matplotlib as mpl  # noqa: PLC0415 - takes a second, which a refused option need not cost

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    sizes = [figures.size for figures in found]
    figure, axes = plt.subplots(figsize=(8, 5))
    for label, style, values in (
        ("Crux p50, over HTTP", "o-", [figures.p50_ms for figures in found]),
        ("Crux p95, over HTTP", "o--", [figures.p95_ms for figures in found]),
        ("bare FTS5 p50, in process", "s-", [figures.raw_p50_ms for figures in found]),
        ("bare FTS5 p95, in process", "s--", [figures.raw_p95_ms for figures in found]),
    ):
        axes.plot(sizes, values, style, label=label)
    axes.set(xscale="log", yscale="log", xlabel="documents", ylabel="milliseconds", title="Time of a search")
    axes.grid(visible=True, which="both", alpha=0.3)
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)
