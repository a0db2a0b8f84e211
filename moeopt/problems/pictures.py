"""Pictures of schedules and of Pareto fronts, as matplotlib figures and as files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from moeopt.core.view import Bar, Kind, Lane

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
LETTER_IN, DEVICE_LETTER_IN = 0.064, 0.095
"""Width of a letter in bars and of one in a device's name; digits of one font are equally wide."""

MOST_LETTERS = 85
"""How many letters of a title and a caption fit into one line."""

CRITICAL = "#cc3311"
"""A critical path, and when all is done."""

MS = 1e-6


@dataclass(frozen=True)
class Panel:
    """One schedule, the line above it, and one in smaller letters after it."""

    title: str
    lanes: Sequence[Lane]
    caption: str = ""


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure as SVG, PNG or PDF, by the file's suffix; the same figure, the same bytes."""
    dates = {".svg": "Date", ".pdf": "CreationDate"}
    undated = {dates[path.suffix]: None} if path.suffix in dates else {}
    with mpl.rc_context({"svg.hashsalt": "moeopt", "svg.fonttype": "none"}):
        figure.savefig(path, dpi=150, metadata=undated)


def draw_gantt(panels: Sequence[Panel]) -> Figure:
    """Return the panels below each other, with one time axis."""
    rows = [max(len(panel.lanes), 1) for panel in panels]
    heights = [PANEL_IN + LANE_IN * count for count in rows]
    figure = Figure(figsize=(WIDTH_IN, sum(heights) + 0.5), layout="constrained")
    axes = figure.subplots(
        len(panels), 1, sharex=True, squeeze=False, gridspec_kw={"height_ratios": heights}
    )
    horizon_ns = max((lane.end_ns for panel in panels for lane in panel.lanes), default=0) or 1
    names = [len(lane.device) for panel in panels for lane in panel.lanes]
    inch_ns = horizon_ns / (WIDTH_IN - 0.4 - DEVICE_LETTER_IN * max(names, default=0))
    for panel, axis in zip(panels, axes[:, 0], strict=True):
        _draw(panel, axis, inch_ns)
    axes[-1, 0].set_xlabel("time in ms")
    axes[-1, 0].set_xlim(0, horizon_ns * MS)
    used = {bar.kind for panel in panels for lane in panel.lanes for bar in lane.bars}
    patches = [Patch(color=COLOURS[k], label=MEANING[k]) for k in COLOURS if k in used]
    if any(bar.critical for panel in panels for lane in panel.lanes for bar in lane.bars):
        patches.append(Patch(color=CRITICAL, label="no slack"))
    figure.legend(handles=patches, loc="outside lower right", ncols=len(patches), frameon=False)
    return figure


def _draw(panel: Panel, axis: Axes, inch_ns: float) -> None:
    """Draw a schedule; `inch_ns` is the time that an inch stands for. Labels that do not fit go."""
    title, caption = panel.title, panel.caption
    if len(title) + len(caption) > MOST_LETTERS:
        title, caption = f"{title}\n{caption}", ""
    axis.set_title(title, loc="left", fontsize="medium", parse_math=False)
    axis.set_title(caption, loc="right", fontsize="small", parse_math=False)
    axis.set_yticks(range(len(panel.lanes)), [lane.device for lane in panel.lanes])
    axis.set_ylim(len(panel.lanes) - 0.5, -0.5)
    axis.spines[["top", "right"]].set_visible(False)
    lanes = [joined(lane.bars) for lane in panel.lanes]
    every = [(row, bar) for row, bars in enumerate(lanes) for bar in bars]
    colours = [COLOURS[bar.kind] for _, bar in every]
    boxes = [_box(bar, row - 0.4, 0.8) for row, bar in every]
    axis.add_collection(
        PolyCollection(boxes, facecolors=colours, edgecolors="white", linewidth=0.5)
    )
    critical = [_box(bar, row + 0.28, 0.16) for row, bar in every if bar.critical]
    axis.add_collection(PolyCollection(critical, facecolors=CRITICAL))
    for row, bars in enumerate(lanes):
        for bar in bars:
            room_in = (bar.end_ns - bar.start_ns) / inch_ns
            if bar.kind != "read" and LETTER_IN * (len(bar.label) + 0.5) < room_in:
                middle = (bar.start_ns + bar.end_ns) / 2 * MS
                text = axis.text(
                    middle, row, bar.label, ha="center", va="center", fontsize="x-small"
                )
                text.set(parse_math=False, color=INK[bar.kind])
                text.set_clip_on(True)
                text.set_in_layout(False)  # it lies in its bar; measuring hundreds takes seconds
    end_ns = max((lane.end_ns for lane in panel.lanes), default=0)
    axis.axvline(end_ns * MS, color=CRITICAL, linewidth=1)


def _box(bar: Bar, low: float, high: float) -> list[tuple[float, float]]:
    """Return the corners of a bar that begins at a height and is so high."""
    start, end = bar.start_ns * MS, bar.end_ns * MS
    return [(start, low), (start, low + high), (end, low + high), (end, low)]


def joined(bars: Sequence[Bar]) -> list[Bar]:
    """Make one bar of reads without a pause between them, which carry no labels."""
    found: list[Bar] = []
    for bar in bars:
        if found and bar.kind == found[-1].kind == "read" and bar.start_ns == found[-1].end_ns:
            bar = replace(found.pop(), end_ns=bar.end_ns)
        found.append(bar)
    return found


SIZE_IN = (6.5, 4.0)

FRONT = "#4477aa"

HEURISTICS = ("#cc3311", "#117733", "#882255", "#aa6600", "#332288", "#555555")
"""Told apart by colour-blind readers, 4.5 to 1 or more on white; the markers differ as well."""

MARKERS = "sD^vPX"

LINE = 0.055
"""How far lines of labels are apart, as a share of the height of a front's axes."""


def draw_front(
    title: str,
    names: Sequence[str],
    points: Sequence[tuple[int, int]],
    heuristics: Mapping[str, tuple[int, int]],
) -> Figure:
    """Return undominated pairs as a figure.

    Between two points the staircase shows what is reached: the second entry of the one on the left.

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
    _mark(axis, {name: _scaled([at], units) for name, at in heuristics.items()})
    axis.set_xlabel(_label(names[0]))
    axis.set_ylabel(_label(names[1]))
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False)
    return figure


def _mark(axis: Axes, heuristics: Mapping[str, Sequence[Sequence[float]]]) -> None:
    """Draw a marker of its own for each heuristic, with its name beside it.

    Markers in one place lie around each other, the first one innermost. Names that would overlap
    are moved away from the front, which falls: up on the left, down on the right.
    """
    axis.margins(0.08, 0.12)
    sizes: dict[tuple[float, float], int] = {}
    for number, ((x,), (y,)) in enumerate(heuristics.values()):
        sizes[x, y] = sizes.get((x, y), 2) + 4
        axis.plot(
            x, y, MARKERS[number % len(MARKERS)], markersize=sizes[x, y], fillstyle="none",
            color=HEURISTICS[number % len(HEURISTICS)],
        )  # fmt: skip
    axis.autoscale_view()
    axis.autoscale(False)
    to_axes = axis.transData + axis.transAxes.inverted()
    taken: list[tuple[float, float]] = []
    for number, (name, ((x,), (y,))) in enumerate(heuristics.items()):
        left, top = to_axes.transform((x, y))
        right = left > 0.5
        at = top
        while any(abs(at - other) < LINE and abs(left - near) < 0.4 for near, other in taken):
            at += -LINE if right else LINE
        taken.append((left, at))
        text = axis.annotate(
            name, (left, top), (left + (-0.035 if right else 0.035), at),
            xycoords="axes fraction", ha="right" if right else "left", va="center",
            fontsize="small", color=HEURISTICS[number % len(HEURISTICS)],
            arrowprops={"arrowstyle": "-", "linewidth": 0.5, "color": "#777777"},
        )  # fmt: skip
        text.set_parse_math(False)


def _scaled(points: Sequence[tuple[int, int]], units: Sequence[float]) -> list[list[float]]:
    return [[point[entry] * unit for point in points] for entry, unit in enumerate(units)]


def _label(name: str) -> str:
    plain = name.removesuffix("_ns").replace("_", " ")
    return f"{plain} in ms" if name.endswith("_ns") else plain
