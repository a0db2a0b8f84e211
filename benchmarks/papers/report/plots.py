"""Pictures of the reproduction as SVG: ours over published per paper, and the papers' curves."""

import math
from collections.abc import Sequence
from io import StringIO
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure as Picture
from matplotlib.patches import Patch

from benchmarks.papers.charts import Chart, Curve, Schedule
from benchmarks.papers.figure import Figure
from benchmarks.rooms.core import Kind, Lane

OURS, THEIRS, OPTIMUM = "#4477aa", "#cc3311", "#228833"
SERIES = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#777777")
"""Told apart by colour-blind readers; the markers differ as well."""

MARKERS = "osD^vPX"

PUBLISHED = "published"

BARS: dict[Kind, str] = {
    "work": "#4477aa",
    "deferred": "#66ccee",
    "transfer": "#ccbb44",
    "read": "#bbbbbb",
}

MEANING: dict[Kind, str] = {
    "work": "work",
    "deferred": "deferred work",
    "transfer": "transfer",
    "read": "a host reads",
}

BAND = 0.05
"""The share within which a figure counts as reproduced; shaded."""

FARTHEST = 4.0
"""Ratios beyond this factor are drawn at the edge."""

WIDTH_IN, ROW_IN, PANEL_IN = 7.5, 0.24, 1.2
MS = 1e-6


def ratios_svg(figures: Sequence[Figure]) -> str | None:
    """Draw ours / published for every known value of a paper, 1 marked; None without any."""
    rows = [row for figure in figures for row in _ratios(figure)]
    if not rows:
        return None
    picture = Picture(figsize=(WIDTH_IN, PANEL_IN + ROW_IN * len(rows)), layout="constrained")
    axis = picture.subplots()
    axis.axvspan(1 - BAND, 1 + BAND, color="#dddddd", linewidth=0)
    axis.axvline(1, color=THEIRS, linewidth=1, label=PUBLISHED)
    at = range(len(rows))
    axis.plot([ours for _, ours, _ in rows], at, "o", color=OURS, label="ours")
    best = [(row, value) for row, (_, _, value) in enumerate(rows) if value is not None]
    if best:
        ys, xs = zip(*best, strict=True)
        axis.plot(xs, ys, "D", color=OPTIMUM, fillstyle="none", label="the optimum")
    axis.set_xscale("log")
    axis.set_xlim(1 / FARTHEST / 1.1, FARTHEST * 1.1)
    ticks = (0.25, 0.5, 0.8, 1, 1.25, 2, 4)
    axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.minorticks_off()
    axis.set_yticks(at, [name for name, _, _ in rows])
    axis.set_ylim(len(rows) - 0.5, -0.5)
    axis.set_xlabel("times the published value")
    return _svg(picture, axis)


def chart_svg(chart: Chart) -> str:
    """Draw a chart."""
    return _curve_svg(chart) if isinstance(chart, Curve) else _schedule_svg(chart)


def _ratios(figure: Figure) -> list[tuple[str, float, float | None]]:
    """Return name, ratio and the optimum's ratio of each value that has one."""
    rows = []
    values, published = figure.ours.values, figure.published.values
    best = figure.ours.optimum or (None,) * len(values)
    for number, (there, ours, optimum) in enumerate(zip(published, values, best, strict=True), 1):
        if ours is None or ours <= 0 or there.low <= 0:
            continue
        name = figure.published.id + (f".{number}" if len(values) > 1 else "")
        ideal = None if optimum is None or optimum <= 0 else _within(1 + there.error(optimum))
        rows.append((name, _within(1 + there.error(ours)), ideal))
    return rows


def _within(ratio: float) -> float:
    return math.exp(max(-math.log(FARTHEST), min(math.log(FARTHEST), math.log(ratio))))


def _curve_svg(curve: Curve) -> str:
    picture = Picture(figsize=(WIDTH_IN, 3.6), layout="constrained")
    axis = picture.subplots()
    axis.set_title(f"{curve.title} ({curve.source})", loc="left", fontsize=10, parse_math=False)
    places: Sequence[Any] = curve.x
    if curve.kind == "bar" or any(isinstance(x, str) for x in curve.x):
        places = range(len(curve.x))
        axis.set_xticks(places, [str(x) for x in curve.x])
    width = 0.8 / max(len(curve.series), 1)
    for number, (name, values) in enumerate(curve.series.items()):
        colour = SERIES[number % len(SERIES)]
        ys = [math.nan if value is None else value for value in values]
        if curve.kind == "bar":
            left = [at + (number - (len(curve.series) - 1) / 2) * width for at in places]
            axis.bar(left, ys, width * 0.95, color=colour, label=name)
        else:
            marker = MARKERS[number % len(MARKERS)]
            axis.plot(places, ys, marker=marker, color=colour, label=name)
    for number, (name, values) in enumerate(curve.published.items()):
        ys = [math.nan if value is None else value for value in values]
        label = name if name == PUBLISHED else f"{name}, {PUBLISHED}"
        if curve.kind == "bar":
            ends = [at - 0.45 for at in places], [at + 0.45 for at in places]
            axis.hlines(ys, *ends, color=THEIRS, linestyle="dashed", label=label)
        else:
            axis.plot(places, ys, "xP*D"[number % 4], color=THEIRS, markersize=9, label=label)
    for number, x in enumerate(curve.marked_x):
        once = None if number else PUBLISHED
        axis.axvline(x, color=THEIRS, linewidth=1, linestyle="dashed", label=once)
    axis.set_ylim(bottom=0)
    axis.set_xlabel(curve.x_label, parse_math=False)
    axis.set_ylabel(curve.y_label, parse_math=False)
    return _svg(picture, axis)


def _schedule_svg(schedule: Schedule) -> str:
    panels = list(schedule.panels.items())
    heights = [PANEL_IN + ROW_IN * len(lanes) for _, lanes in panels]
    picture = Picture(figsize=(WIDTH_IN, sum(heights)), layout="constrained")
    picture.suptitle(f"{schedule.title} ({schedule.source})", fontsize=10, parse_math=False)
    axes = picture.subplots(
        len(panels), 1, sharex=True, squeeze=False, gridspec_kw={"height_ratios": heights}
    )[:, 0]
    for axis, (title, lanes) in zip(axes, panels, strict=True):
        axis.set_title(title, loc="left", fontsize=9, parse_math=False)
        _draw_lanes(axis, lanes)
    axes[-1].set_xlabel("time in ms")
    used = {bar.kind for _, lanes in panels for lane in lanes for bar in lane.bars}
    patches = [Patch(color=BARS[kind], label=MEANING[kind]) for kind in BARS if kind in used]
    picture.legend(handles=patches, loc="outside lower right", ncols=4, frameon=False, fontsize=8)
    return _svg(picture, None)


def _draw_lanes(axis: Any, lanes: Sequence[Lane]) -> None:
    for row, lane in enumerate(lanes):
        spans = [(bar.start_ns * MS, (bar.end_ns - bar.start_ns) * MS) for bar in lane.bars]
        colours = [BARS[bar.kind] for bar in lane.bars]
        axis.broken_barh(
            spans, (row - 0.4, 0.8), facecolors=colours, edgecolors="white", linewidth=0.5
        )
    axis.set_yticks(range(len(lanes)), [lane.device for lane in lanes])
    axis.set_ylim(len(lanes) - 0.5, -0.5)


def _svg(picture: Picture, axis: Any) -> str:
    """Return the picture as an SVG element, the same bytes each time."""
    if axis is not None:
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(frameon=False, fontsize=8)
    text = StringIO()
    with mpl.rc_context({"svg.hashsalt": "moeopt", "svg.fonttype": "none"}):
        picture.savefig(text, format="svg", metadata={"Date": None})
    whole = text.getvalue()
    return whole[whole.index("<svg") :]
