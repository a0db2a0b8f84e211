"""The report's charts, drawn small for telephones, as elements of a page."""

import re
import warnings
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import StringIO
from math import isnan
from statistics import median
from typing import Any
from xml.etree import ElementTree as Xml

import matplotlib as mpl
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter, PercentFormatter

from moeopt.study.frame import is_exact
from moeopt.study.table import MEANING, Knew, percent

from .analysis import Curve, Dependence

SVG, XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"

Xml.register_namespace("", SVG)
Xml.register_namespace("xlink", XLINK)

DECIMALS = re.compile(r"-?[0-9]+\.[0-9]+")

FONT_PT = 9.5


def inline(draw: Callable[[], Figure], key: str, title: str, description: str) -> Markup:
    """Return a figure as an SVG element, the same bytes each time.

    Parameters
    ----------
    draw
        Makes the figure; every text in it is shown as it is, `$` included.
    key
        Starts the element's ids, so that no two figures of a page share one.
    title, description
        What screen readers say.
    """
    with plain_text():
        text = StringIO()
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        # Figure.savefig would draw a figure that is laid out twice.
        FigureCanvasSVG(draw()).print_svg(text, metadata=nothing)  # type: ignore[no-untyped-call]
    whole = text.getvalue()
    root = Xml.fromstring(whole[whole.index("<svg") :])  # noqa: S314 - written three lines above
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    for element in root.iter(f"{{{SVG}}}path"):
        element.set("d", DECIMALS.sub(_tenth, " ".join(element.get("d", "").split())))
    for defs in root.findall(f"{{{SVG}}}defs"):
        for style in defs.findall(f"{{{SVG}}}style"):
            defs.remove(style)  # a rule for "*" would be one for the whole page
    for element in list(root.iter(f"{{{SVG}}}g")):
        if element.get("id", "").startswith(HOVER):
            shown = Xml.Element(f"{{{SVG}}}title")
            shown.text = plain(element.attrib.pop("id").removeprefix(HOVER), LONGEST_HOVER)
            element.insert(0, shown)
    _own_ids(root, key)
    root.set("role", "img")
    root.set("aria-labelledby", f"{key}-title {key}-desc")
    for number, (tag, words) in enumerate((("title", title), ("desc", description))):
        element = Xml.Element(f"{{{SVG}}}{tag}", {"id": f"{key}-{tag}"})
        element.text = words
        root.insert(number, element)
    return Markup(Xml.tostring(root, encoding="unicode"))  # noqa: S704 - Xml escapes texts


def _tenth(number: re.Match[str]) -> str:
    """Return a coordinate to a tenth of a point: a third of the page's size otherwise."""
    return f"{float(number[0]):.1f}".removesuffix(".0")


@contextmanager
def plain_text() -> Iterator[None]:
    """Draw texts as they are; a font that lacks a sign is no matter, since texts stay texts."""
    texts = mpl.rc_context(
        {
            "svg.hashsalt": "moeopt",
            "svg.fonttype": "none",
            "text.parse_math": False,
            "font.size": FONT_PT,
            "axes.titley": 1.0,  # where titles are anyway; else all ticks are measured for it
            **dict.fromkeys(("figure.facecolor", "figure.edgecolor", "axes.facecolor"), "none"),
        }
    )
    with texts, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph", category=UserWarning)
        yield


def _own_ids(root: Xml.Element, key: str) -> None:
    """Put `key` before the ids that are referred to, and drop the others."""
    elements = list(root.iter())
    referred = set()
    for element in elements:
        for name, value in element.attrib.items():
            target = _target(name, value)
            if target is not None:
                referred.add(target)
                element.set(name, value.replace(f"#{target}", f"#{key}-{target}"))
    for element in elements:
        own = element.attrib.pop("id", None)
        if own in referred:
            element.set("id", f"{key}-{own}")


def _target(name: str, value: str) -> str | None:
    """Return the id that an attribute refers to."""
    if name == f"{{{XLINK}}}href" and value.startswith("#"):
        return value[1:]
    if value.startswith("url(#"):
        return value[len("url(#") : -1]
    return None


OWN = "#cc3311"
"""Of custom heuristics, whose marker is a star."""

HOVER = "hover:"
"""How the id of a mark begins that shows the rest of its id under the pointer."""

SERIES = ("#4477aa", "#ee6677", "#228833", "#aa3377", "#997700", "#007a99", "#666666", "#222222")
"""Told apart by colour-blind readers; the line styles differ as well."""

STYLES = ("solid", "dashed", "dashdot", "dotted")

WIDTH_IN = 4.4
LEFT_IN, RIGHT_IN, TOP_IN, BOTTOM_IN = 0.72, 0.12, 0.08, 0.5
"""Margins; measuring the texts instead would take longer than all else."""

PROOF_IN, PANEL_IN, SMALL_IN = 2.6, 1.9, 1.25
"""Heights: of the chart of proofs, of a field's panel, of a rule's small panel."""

SMALL_COLUMNS = 3

LABELS_IN, SHARES_IN, LINE_IN, TITLE_IN = 1.75, 0.5, 0.19, 0.3
"""Of a chart of ranges: room for names on the left, for shares on the right, height of a line and
of a title."""

MOST_STEPS = 40
"""Of a curve that only stands behind another one."""

GREY, RULE, GRID = "#b8b8b8", "#222222", "#dddddd"

LINEAR_UP_TO = 2.0
"""Factors above this are drawn on a logarithmic axis."""

FACTORS = (1, 1.5, 2, 3, 5, 10, 20, 50, *(10**power for power in range(2, 13)))

LOG_FROM = 0.01
"""Excesses above it are drawn on a logarithmic axis, with as much room for those below as a power
of ten has."""

LEAST_PROOF_S = 1e-4
"""The shortest time that the axis of proofs shows; shorter ones stand at its left end."""

MARKERS = {"none": "s", "before": "^", "step": "o", "hindsight": "D"}
"""What a rule knew of the loads -> its marker; see `moeopt.study.report.plots`."""


@dataclass(frozen=True)
class Line:
    """One rule's excess over the instances of a problem with a proven optimum.

    A rule that knew different things on different instances has a line for each kind, and one more
    for those that are made under other assumptions than the defaults.

    `label` has an asterisk for other assumptions than the defaults; `interval` is that of the
    median, None where there are too few traces; `optimal` is the share of its solves that reach the
    optimum; `is_published` marks the rule of the problem's paper, `is_own` a custom heuristic.
    """

    label: str
    knew: Knew
    least: float
    median: float
    most: float
    optimal: float
    is_published: bool
    is_assumed: bool = False
    interval: tuple[float, float] | None = None
    is_own: bool = False

    @property
    def words(self) -> str:
        """What a screen reader says."""
        return (
            f"{self.label}: median {percent(self.median)}, from {percent(self.least)} to "
            f"{percent(self.most)}, optimal on {percent(self.optimal)}"
            f"{f', information: {MEANING[self.knew]}' if self.knew else ''}"
            f"{', other assumptions' * self.is_assumed}"
        )


def range_chart(lines: Sequence[Line]) -> Figure:
    """Draw each rule's median excess with interval and range, and how often it is optimal.

    Hollow markers are medians over instances under other assumptions than the defaults.
    The axis is linear up to 1 % and logarithmic above, and says so.
    """
    return overview_chart([("", lines)], columns=1)


def overview_chart(panels: Sequence[tuple[str, Sequence[Line]]], columns: int = 2) -> Figure:
    """Draw a chart of ranges for each problem, with its title, in columns."""
    rows = [panels[at : at + columns] for at in range(0, len(panels), columns)]
    titled = TITLE_IN if any(title for title, _ in panels) else 0.0
    heights = [
        TOP_IN + titled + LINE_IN * (1 + max(len(lines) for _, lines in row)) + BOTTOM_IN
        for row in rows
    ]
    wide, high = WIDTH_IN * columns, sum(heights)
    figure = Figure(figsize=(wide, high))
    for number, row in enumerate(rows):
        top = high - sum(heights[:number]) - TOP_IN - titled - LINE_IN
        for column, (title, lines) in enumerate(row):
            inside = LINE_IN * len(lines)
            left = column * WIDTH_IN + LABELS_IN
            place = (left, top - inside, WIDTH_IN - LABELS_IN - SHARES_IN, inside)
            whole = (wide, high, wide, high)
            axis = figure.add_axes(
                tuple(part / of for part, of in zip(place, whole, strict=True))  # type: ignore[arg-type]
            )
            _ranges(axis, lines)
            if title:
                at = ((column * WIDTH_IN + 0.1) / wide, (top + LINE_IN + 0.05) / high)
                figure.text(*at, plain(title, 60), fontweight="bold", fontsize=9, va="bottom")
    return figure


def _ranges(axis: Axes, lines: Sequence[Line]) -> None:
    most = max((line.most for line in lines), default=0.0)
    axis.set_xscale("symlog", linthresh=LOG_FROM, linscale=1)
    ticks = [0.0, *(10.0**power for power in range(-2, 12))]
    end = next((tick for tick in ticks if tick >= max(most, 0.1)), ticks[-1])
    ticks = [tick for tick in ticks if tick <= end]
    axis.set_xticks(ticks, [f"{100 * tick:g}" for tick in ticks], fontsize=8)
    axis.set_xticks([], minor=True)
    axis.set_xlim(-0.0015, end * 1.1)
    axis.set_ylim(len(lines) - 0.5, -0.5)
    axis.set_yticks(range(len(lines)), [short(line.label, NAME_SIGNS) for line in lines])
    for text, line in zip(axis.get_yticklabels(), lines, strict=True):
        bold = line.is_published or line.is_own
        text.set(fontweight="bold" if bold else "normal", fontsize=8.5)
    for row, line in enumerate(lines):
        colour = OWN if line.is_own else SERIES[0] if line.is_published else SERIES[6]
        axis.plot([line.least, line.most], [row, row], color=colour, linewidth=1.0, alpha=0.6)
        if line.interval is not None:
            axis.plot(line.interval, [row, row], color=colour, linewidth=3.5, alpha=0.5)
        axis.plot([line.most], [row], "|", color=colour, markersize=6)
        inside = "white" if line.is_assumed else colour
        marker, size = ("*", 9.0) if line.is_own else (MARKERS[line.knew or "none"], 5.5)
        [mark] = axis.plot([line.median], [row], marker, color=colour, mfc=inside, markersize=size)
        mark.set_gid(f"{HOVER}{line.words}")
        share = f"{100 * line.optimal:.0f} %"
        axis.text(1.02, row, share, transform=axis.get_yaxis_transform(), va="center", fontsize=8.5)
    axis.text(1.02, 1.02, "optimal", transform=axis.transAxes, va="bottom", fontsize=8)
    axis.set_xlabel("excess in % (logarithmic above 1)", fontsize=8.5)
    axis.grid(axis="x", color=GRID, linewidth=0.5)
    axis.set_axisbelow(True)
    axis.tick_params(axis="y", length=0)
    axis.spines[["top", "right", "left"]].set_visible(False)


def profile_chart(curves: Sequence[Curve], own: Mapping[str, str], unit: str) -> Figure:
    """Draw the share of instances within a factor of the optimum: a small panel per method.

    `own` has the colours of the published rule and of custom heuristics.

    The method's own curve is dark, the others' stand behind it in grey.
    """
    rows = -(-len(curves) // SMALL_COLUMNS)
    figure = Figure(figsize=(WIDTH_IN, SMALL_IN * rows + BOTTOM_IN))
    high = figure.get_figheight()
    figure.subplots_adjust(
        left=0.55 / WIDTH_IN,
        right=1 - RIGHT_IN / WIDTH_IN,
        top=1 - 0.25 / high,
        bottom=BOTTOM_IN / high,
        wspace=0.12,
        hspace=0.32,
    )
    axes = figure.subplots(rows, SMALL_COLUMNS, squeeze=False, sharex=True, sharey=True).flat
    most = max((curve.x[-1] for curve in curves if curve.x), default=1.0)
    end = max(1.02, 1 + 1.05 * (most - 1))
    steps = [
        ([1.0, *curve.x, end], [0.0, *curve.y, curve.y[-1] if curve.y else 0.0]) for curve in curves
    ]
    for number, axis in enumerate(axes):
        if number >= len(curves):
            axis.set_visible(False)
            continue
        curve = curves[number]
        for xs, ys in steps:
            axis.step(*_thinned(xs, ys), where="post", color=GREY, linewidth=0.7)
        colour = own.get(curve.name, RULE)
        [drawn] = axis.step(*steps[number], where="post", color=colour, linewidth=2)
        drawn.set_gid(f"{HOVER}{curve.name}: optimal on {percent(curve.at(1.0))}")
        weight = "bold" if curve.name in own else "normal"
        title = short(curve.name, TITLE_SIGNS)
        axis.set_title(title, loc="left", fontsize=8, fontweight=weight, pad=3)
        axis.grid(color=GRID, linewidth=0.5)
        axis.spines[["top", "right"]].set_visible(False)
        below = number + SMALL_COLUMNS >= len(curves)
        axis.tick_params(labelbottom=below, labelsize=8)
    first = axes[0]
    is_log = most > LINEAR_UP_TO
    if is_log:
        first.set_xscale("log")
        ticks = _spread([tick for tick in FACTORS if tick <= end])
        first.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        first.xaxis.set_minor_formatter(NullFormatter())
    else:
        first.xaxis.set_major_locator(MaxNLocator(3))
    first.set_xlim(1, end)
    first.set_ylim(0, 1.03)
    first.yaxis.set_major_formatter(PercentFormatter(1))
    scale = " (logarithmic)" if is_log else ""
    figure.supxlabel(f"cost in multiples of the optimum{scale}", fontsize=9, y=0.02)
    figure.supylabel(f"share of {unit}", fontsize=9, x=0.005)
    return figure


def _thinned(xs: Sequence[float], ys: Sequence[float]) -> tuple[Sequence[float], Sequence[float]]:
    """Return at most `MOST_STEPS` of a curve's steps, the first and the last among them."""
    every = -(-len(xs) // MOST_STEPS)
    kept = sorted({*range(0, len(xs), every), len(xs) - 1})
    return [xs[at] for at in kept], [ys[at] for at in kept]


def _spread(ticks: Sequence[float]) -> Sequence[float]:
    """Return at most four of the ticks, the first and the last among them."""
    if len(ticks) <= SMALL_COLUMNS + 1:
        return ticks
    return [ticks[round(at * (len(ticks) - 1) / SMALL_COLUMNS)] for at in range(SMALL_COLUMNS + 1)]


def proof_chart(curves: Sequence[Curve], asked: Mapping[str, int]) -> Figure:
    """Draw how many instances each method proves within a time, each with its name at the end.

    Parameters
    ----------
    curves
        Of the methods that have proven something.
    asked
        Method -> how many instances it was asked to prove, also of those that proved nothing.
    """
    figure = Figure(figsize=(WIDTH_IN, PROOF_IN))
    names = 1.95
    figure.subplots_adjust(
        left=0.55 / WIDTH_IN,
        right=1 - names / WIDTH_IN,
        top=1 - TOP_IN / PROOF_IN,
        bottom=BOTTOM_IN / PROOF_IN,
    )
    axis = figure.subplots()
    shortest = min((curve.x[0] for curve in curves), default=0.1)
    longest = max((curve.x[-1] for curve in curves), default=1.0)
    start = max(shortest / 1.3, LEAST_PROOF_S)
    end = max(longest * 1.3, 2 * start)
    axis.set_xscale("log")
    most = max(asked.values(), default=1)
    ends: list[tuple[float, str, str]] = []
    for number, (name, count) in enumerate(asked.items()):
        colour = SERIES[number % len(SERIES)]
        curve = next((one for one in curves if one.name == name), None)
        proven = len(curve.x) if curve else 0
        if curve:
            style = STYLES[(number + number // len(STYLES)) % len(STYLES)]
            xs = [start, *(max(time, start) for time in curve.x), end]
            ys = [0.0, *curve.y, curve.y[-1]]
            [drawn] = axis.step(xs, ys, where="post", color=colour, linestyle=style, linewidth=1.5)
            drawn.set_gid(f"{HOVER}{name}: {proven} of {count} proven")
        ends.append((proven, f"{short(name, TITLE_SIGNS)}: {proven} of {count}", colour))
    heights = _apart([at for at, _, _ in ends], most)
    for high, (_, text, colour) in zip(heights, ends, strict=True):
        at = axis.get_yaxis_transform()
        axis.text(1.03, high, text, transform=at, color=colour, va="center", fontsize=8.5)
    axis.set_xlim(start, end)
    axis.set_ylim(0, 1.03 * most)
    axis.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    axis.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    axis.xaxis.set_minor_formatter(NullFormatter())
    axis.set_xlabel("seconds for building and solving (logarithmic)", fontsize=9)
    axis.set_ylabel("optima proven", fontsize=9)
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(color=GRID, linewidth=0.5)
    return figure


def _apart(places: Sequence[float], most: float) -> list[float]:
    """Return heights for labels, each as near to its place as lines of text permit."""
    line = most * 0.075
    found = [0.0] * len(places)
    lowest = 0.0
    for at in sorted(range(len(places)), key=places.__getitem__):
        found[at] = max(places[at], lowest)
        lowest = found[at] + line
    too_high = max(found, default=0.0) - 1.03 * most
    return [high - max(0.0, too_high) for high in found]


def dependence_chart(found: Sequence[Dependence]) -> Figure:
    """Draw excess against each field below each other: a point per solve, a dash per median.

    Medians are not joined: groups of instances that differ in a field may differ in more.
    """
    figure = Figure(figsize=(WIDTH_IN, PANEL_IN * len(found)))
    high = figure.get_figheight()
    figure.subplots_adjust(
        left=LEFT_IN / WIDTH_IN,
        right=1 - RIGHT_IN / WIDTH_IN,
        top=1 - TOP_IN / high,
        bottom=BOTTOM_IN / high,
        hspace=(TOP_IN + BOTTOM_IN) / (PANEL_IN - TOP_IN - BOTTOM_IN),
    )
    axes = figure.subplots(len(found), 1, squeeze=False)[:, 0]
    for axis, one in zip(axes, found, strict=True):
        groups = one.by_value
        if one.is_discrete:
            places = {value: float(at) for at, value in enumerate(groups)}
            axis.set_xticks(list(places.values()), [f"{value:g}" for value in places])
            axis.set_xlim(-0.5, len(places) - 0.5)
            middles = [median(of) for of in groups.values()]
            axis.plot(list(places.values()), middles, "_", color=SERIES[1], markersize=18, mew=2)
        else:
            places = {value: value for value in groups}
        xs = [places[value] for value, _ in one.points]
        ys = [excess for _, excess in one.points]
        axis.plot(xs, ys, "o", color=SERIES[0], alpha=0.5, markersize=4, linestyle="none")
        axis.yaxis.set_major_formatter(PercentFormatter(1))
        axis.yaxis.set_major_locator(MaxNLocator(4))
        axis.set_ylim(bottom=0)
        axis.set_xlabel(one.name)
        axis.set_ylabel("excess")
        axis.spines[["top", "right"]].set_visible(False)
    return figure


LONGEST, NAME_SIGNS, TITLE_SIGNS, LONGEST_HOVER = 48, 27, 20, 300
"""Most characters of a label, of one beside a chart and of one above a small panel."""


def plain(label: str, longest: int = LONGEST) -> str:
    """Return a label that fits and that XML can hold; it may come from an untrusted store."""
    text = "".join(sign if sign.isprintable() else "?" for sign in label)
    return text if len(text) <= longest else text[: longest - 1] + "…"


def short(label: str, longest: int) -> str:
    """Return a method's label without what stands beside the name in brackets."""
    return plain(label.partition(" (")[0], longest)


MOST_LINES = 12
"""Of a problem; the published rule and custom heuristics come first."""


def lines(summaries: Sequence[Any], first: Container[str], own: Container[str] = ()) -> list[Line]:
    """Return the rules of one problem, the best first, those that no table can compare left out.

    Parameters
    ----------
    summaries
        Rows of `moeopt.study.table.summarise`, of one problem over all its families.
    first
        Labels of the published rule and of custom heuristics: they are shown in any case.
    own
        Labels of custom heuristics.
    """
    found = sorted(
        _lines(summaries, first, own), key=lambda line: (line.median, line.most, line.label)
    )
    kept = sorted(found, key=lambda line: not (line.is_published or line.is_own))[:MOST_LINES]
    return [line for line in found if line in kept]


def _lines(summaries: Sequence[Any], first: Container[str], own: Container[str]) -> Iterator[Line]:
    for s in summaries:
        if isnan(s.excess_median) or is_exact(s.problem, s.method.partition(" ")[0]):
            continue
        name, bracket, said = s.method.partition(" (")
        label = f"{name} *{bracket}{said}" if s.assumed else s.method
        shares = (s.excess_min, s.excess_median, s.excess_max, s.optimal)
        known = None if isnan(s.interval_low) else (s.interval_low, s.interval_high)
        mine = s.method in own
        published = s.method in first and not mine
        yield Line(label, s.kind, *shares, published, s.assumed, known, mine)
