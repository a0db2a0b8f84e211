"""Pictures of schedules and of Pareto fronts, as matplotlib figures and as files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from moeopt.problems.view import Kind, Lane

COLOURS: dict[Kind, str] = {
    "work": "#4477aa",
    "deferred": "#66ccee",
    "transfer": "#ccbb44",
    "read": "#bbbbbb",
}
"""Told apart by colour-blind readers, and on paper by their brightness."""

MEANING: dict[Kind, str] = {
    "work": "work",
    "deferred": "deferred work",
    "transfer": "transfer",
    "read": "a host reads",
}

INK: dict[Kind, str] = {"work": "white", "deferred": "black", "transfer": "black", "read": "black"}

WIDTH_IN, LANE_IN, PANEL_IN = 9.0, 0.26, 0.75
SMALLEST_LABELLED = 0.012
"""Bars shorter than this share of the axis stay without a label."""

MS = 1e-6


@dataclass(frozen=True)
class Panel:
    """One schedule and the line above it."""

    title: str
    lanes: Sequence[Lane]


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure as SVG, PNG or PDF, by the file's suffix; the same figure, the same bytes."""
    dates = {".svg": "Date", ".pdf": "CreationDate"}
    undated = {dates[path.suffix]: None} if path.suffix in dates else {}
    with mpl.rc_context({"svg.hashsalt": "moeopt", "svg.fonttype": "none"}):
        figure.savefig(path, dpi=150, metadata=undated)


def save_gantt(panels: Sequence[Panel], path: Path) -> None:
    """Draw the panels below each other and write them as SVG, PNG or PDF, by the file's suffix.

    The same schedules give the same SVG byte for byte.
    """
    save_figure(draw_gantt(panels), path)


def draw_gantt(panels: Sequence[Panel]) -> Figure:
    """Return the panels below each other, with one time axis."""
    rows = [max(len(panel.lanes), 1) for panel in panels]
    heights = [PANEL_IN + LANE_IN * count for count in rows]
    figure = Figure(figsize=(WIDTH_IN, sum(heights) + 0.5), layout="constrained")
    axes = figure.subplots(
        len(panels), 1, sharex=True, squeeze=False, gridspec_kw={"height_ratios": heights}
    )
    horizon_ns = max((lane.end_ns for panel in panels for lane in panel.lanes), default=0) or 1
    for panel, axis in zip(panels, axes[:, 0], strict=True):
        _draw(panel, axis, horizon_ns)
    axes[-1, 0].set_xlabel("time in ms")
    axes[-1, 0].set_xlim(0, horizon_ns * MS)
    used = {bar.kind for panel in panels for lane in panel.lanes for bar in lane.bars}
    patches = [Patch(color=COLOURS[k], label=MEANING[k]) for k in COLOURS if k in used]
    figure.legend(handles=patches, loc="outside lower right", ncols=len(patches), frameon=False)
    return figure


def _draw(panel: Panel, axis: Any, horizon_ns: int) -> None:
    axis.set_title(panel.title, loc="left", fontsize="medium", parse_math=False)
    axis.set_yticks(range(len(panel.lanes)), [lane.device for lane in panel.lanes])
    axis.set_ylim(len(panel.lanes) - 0.5, -0.5)
    axis.spines[["top", "right"]].set_visible(False)
    for row, lane in enumerate(panel.lanes):
        spans = [(bar.start_ns * MS, (bar.end_ns - bar.start_ns) * MS) for bar in lane.bars]
        colours = [COLOURS[bar.kind] for bar in lane.bars]
        axis.broken_barh(
            spans, (row - 0.4, 0.8), facecolors=colours, edgecolors="white", linewidth=0.5
        )
        for bar in lane.bars:
            if bar.kind != "read" and bar.end_ns - bar.start_ns > SMALLEST_LABELLED * horizon_ns:
                middle = (bar.start_ns + bar.end_ns) / 2 * MS
                text = axis.text(
                    middle, row, bar.label, ha="center", va="center", fontsize="x-small"
                )
                text.set(parse_math=False, color=INK[bar.kind])
                text.set_clip_on(True)
                text.set_in_layout(False)  # it lies in its bar; measuring hundreds takes seconds
    end_ns = max((lane.end_ns for lane in panel.lanes), default=0)
    axis.axvline(end_ns * MS, color="#cc3311", linewidth=1)


SIZE_IN = (6.5, 4.0)

FRONT, HEURISTIC = "#4477aa", "#cc3311"
"""Told apart by colour-blind readers; the markers differ as well."""

MARKERS = "sD^vPX"


def save_front(
    title: str,
    names: Sequence[str],
    points: Sequence[tuple[int, int]],
    heuristics: Mapping[str, tuple[int, int]],
    path: Path,
) -> None:
    """Draw undominated pairs and write them as SVG, PNG or PDF, by the file's suffix.

    Between two points the staircase shows what is reached: the second entry of the one on the left.
    The same front gives the same SVG byte for byte.

    Parameters
    ----------
    title, names
        The line above, and what the two entries are called; a time's name ends with ``_ns``.
    points
        The front by rising first entry.
    heuristics
        Names and objectives of what is shown beside it.
    """
    figure = Figure(figsize=SIZE_IN, layout="constrained")
    axis = figure.subplots()
    axis.set_title(title, loc="left", fontsize="medium", parse_math=False)
    units = [MS if name.endswith("_ns") else 1.0 for name in names]
    axis.step(*_scaled(points, units), where="post", color=FRONT, marker=".", label="Pareto front")
    for number, (name, objective) in enumerate(heuristics.items()):
        marker = MARKERS[number % len(MARKERS)]
        axis.plot(
            *_scaled([objective], units), marker, color=HEURISTIC, fillstyle="none", label=name
        )
    axis.set_xlabel(_label(names[0]))
    axis.set_ylabel(_label(names[1]))
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False)
    save_figure(figure, path)


def _scaled(points: Sequence[tuple[int, int]], units: Sequence[float]) -> list[list[float]]:
    return [[point[entry] * unit for point in points] for entry, unit in enumerate(units)]


def _label(name: str) -> str:
    plain = name.removesuffix("_ns").replace("_", " ")
    return f"{plain} in ms" if name.endswith("_ns") else plain
