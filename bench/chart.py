"""A run as a picture: one panel a section, a bar a row."""

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bench.measure import Row
from bench.report import SECTIONS, Report

_CRUX, _REFERENCE, _OTHER = "#1b6ca8", "#b0b0b0", "#d9a441"


def draw(report: Report, path: Path) -> None:
    """Write the chart as a PNG. The generator's ceiling stands in a title: as a bar it would dwarf the others."""
    drawn = [row for row in report.rows if row.name != "ceiling"]
    panels = [(section, rows) for section in SECTIONS if (rows := [row for row in drawn if row.section == section])]
    heights = [len(rows) + 1.2 for _, rows in panels]
    figure = Figure(figsize=(10, 0.5 * sum(heights) + 0.4), layout="constrained")
    axes = figure.subplots(len(panels), 1, height_ratios=heights, squeeze=False)
    for axis, (section, rows) in zip(axes[:, 0], panels, strict=True):
        _draw_section(axis, section, rows)
    limit = next((f", generator's ceiling {row.rate:,.0f} calls/s" for row in report.rows if row.name == "ceiling"), "")
    title = f"Crux {report.versions['crux']}, {report.made_at[:10]}, {report.machine['processor']}{limit}"
    figure.suptitle(title, fontsize=10)
    figure.savefig(path, dpi=120)


def _draw_section(axis: Axes, section: str, rows: list[Row]) -> None:
    title, unit, reference = SECTIONS[section]
    bars = axis.barh([row.title for row in rows], [row.rate for row in rows], color=[_colour(row) for row in rows])
    axis.bar_label(bars, [_label(row, reference) for row in rows], padding=4, fontsize=9)
    axis.invert_yaxis()
    axis.set_title(f"{title}: {unit}", loc="left", fontsize=10)
    axis.margins(x=0.4)
    axis.spines[["top", "right"]].set_visible(False)
    axis.tick_params(labelsize=9)


def _label(row: Row, reference: str) -> str:
    return f"{row.rate:,.0f}" if row.ratio is None else f"{row.rate:,.0f}  ({row.ratio:.2f} of {reference})"


def _colour(row: Row) -> str:
    if row.title.startswith("Crux"):
        return _CRUX
    return _REFERENCE if row.ratio == 1 else _OTHER
