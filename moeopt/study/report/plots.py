"""The report's charts, drawn small: a telephone shows them at their full size."""

import warnings
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from statistics import median
from typing import Any
from xml.etree import ElementTree as Xml

import matplotlib as mpl
from markupsafe import Markup
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter, PercentFormatter

from moeopt.study.pictures import save_figure
from moeopt.study.report.analysis import Curve, Dependence

SERIES = ("#4477aa", "#ee6677", "#228833", "#aa3377", "#ccbb44", "#66ccee", "#777777", "#222222")
"""Told apart by colour-blind readers; the line styles differ as well."""

STYLES = ("solid", "dashed", "dashdot", "dotted")

WIDTH_IN, HEIGHT_IN, LEGEND_LINE_IN, PANEL_IN = 4.4, 2.6, 0.19, 1.9
"""Sizes; a chart is as high as its legend makes it."""

LEFT_IN, RIGHT_IN, TOP_IN, BOTTOM_IN = 0.72, 0.12, 0.08, 0.5
"""Margins; measuring the texts instead would take longer than all else."""

LEGEND_PT = 9.0

LONGEST_BESIDE = 22
"""Most characters of a name that leaves room for another one beside it in the legend."""

LINEAR_UP_TO = 2.0
"""Factors above this are drawn on a logarithmic axis."""

FACTORS = (1, 1.5, 2, 3, 5, 10, 20, 50, *(10**power for power in range(2, 13)))

OWN, OTHERS = 2.6, 1.3
"""Line widths of the published heuristic and of the others."""


def profile_chart(curves: Sequence[Curve], own: Container[str], unit: str) -> Figure:
    """Draw the share of instances within a factor of the optimum; those in `own` are thick."""
    figure, axis = _chart(curves)
    most = max((curve.x[-1] for curve in curves if curve.x), default=1.0)
    end = max(1.02, 1 + 1.05 * (most - 1))
    if most > LINEAR_UP_TO:
        axis.set_xscale("log")
        ticks = [tick for tick in FACTORS if tick <= end]
        axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axis.minorticks_off()
    for number, curve in enumerate(curves):
        xs = [1.0, *curve.x, end]
        ys = [0.0, *curve.y, curve.y[-1] if curve.y else 0.0]
        _step(axis, curve, xs, ys, number, own)
    axis.set_xlim(1, end)
    axis.set_ylim(0, 1.03)
    axis.yaxis.set_major_formatter(PercentFormatter(1))
    axis.set_xlabel("cost, in multiples of the optimum")
    axis.set_ylabel(f"share of {unit}")
    return _finished(figure, curves)


def proof_chart(curves: Sequence[Curve]) -> Figure:
    """Draw how many instances each method proves within a time."""
    figure, axis = _chart(curves)
    shortest = min(curve.x[0] for curve in curves)
    longest = max(curve.x[-1] for curve in curves)
    start, end = max(shortest, 1e-4) / 1.3, max(longest, 1e-4) * 1.3
    axis.set_xscale("log")
    for number, curve in enumerate(curves):
        xs, ys = [start, *curve.x, end], [0.0, *curve.y, curve.y[-1]]
        _step(axis, curve, xs, ys, number, ())
    axis.set_xlim(start, end)
    axis.set_ylim(0, None)
    axis.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    axis.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    axis.xaxis.set_minor_formatter(NullFormatter())
    axis.set_xlabel("seconds for building and solving")
    axis.set_ylabel("optima proven")
    return _finished(figure, curves)


def dependence_chart(found: Sequence[Dependence]) -> Figure:
    """Draw excess against each field below each other: a point per solve, medians joined."""
    figure = Figure(figsize=(WIDTH_IN, PANEL_IN * len(found)))
    _margins(figure, 0, PANEL_IN)
    axes = figure.subplots(len(found), 1, squeeze=False)[:, 0]
    for axis, one in zip(axes, found, strict=True):
        groups = one.by_value
        if one.is_discrete:
            places = {value: float(at) for at, value in enumerate(groups)}
            axis.set_xticks(list(places.values()), [f"{value:g}" for value in places])
            axis.set_xlim(-0.5, len(places) - 0.5)
            middles = [median(of) for of in groups.values()]
            axis.plot(list(places.values()), middles, color=SERIES[1], marker="_", markersize=16)
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


def _chart(curves: Sequence[Curve]) -> tuple[Figure, Any]:
    legend_in = LEGEND_LINE_IN * -(-len(curves) // _columns(curves)) + 0.1
    figure = Figure(figsize=(WIDTH_IN, HEIGHT_IN + legend_in))
    _margins(figure, legend_in, HEIGHT_IN)
    return figure, figure.subplots()


def _margins(figure: Figure, legend_in: float, panel_in: float) -> None:
    """Leave room for labels around panels of one height, and for a legend at the bottom."""
    high = figure.get_figheight()
    inside = panel_in - TOP_IN - BOTTOM_IN
    figure.subplots_adjust(
        left=LEFT_IN / WIDTH_IN,
        right=1 - RIGHT_IN / WIDTH_IN,
        top=1 - TOP_IN / high,
        bottom=(BOTTOM_IN + legend_in) / high,
        hspace=(TOP_IN + BOTTOM_IN) / inside,
    )


def _step(
    axis: Any,
    curve: Curve,
    xs: Sequence[float],
    ys: Sequence[float],
    number: int,
    own: Container[str],
) -> None:
    axis.step(
        xs,
        ys,
        where="post",
        color=SERIES[number % len(SERIES)],
        linestyle=STYLES[(number + number // len(STYLES)) % len(STYLES)],
        linewidth=OWN if curve.name in own else OTHERS,
        label=plain(curve.name),
    )


def _columns(curves: Sequence[Curve]) -> int:
    """Return how many names stand side by side in the legend."""
    return 2 if all(len(curve.name) <= LONGEST_BESIDE for curve in curves) else 1


def _finished(figure: Figure, curves: Sequence[Curve]) -> Figure:
    [axis] = figure.axes
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(color="#dddddd", linewidth=0.5)
    figure.legend(
        loc="lower center",
        ncols=_columns(curves),
        frameon=False,
        fontsize=LEGEND_PT,
        borderaxespad=0,
        labelspacing=0.3,
    )
    return figure


SVG, XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"

Xml.register_namespace("", SVG)
Xml.register_namespace("xlink", XLINK)

FONT_PT = 9.5

LONGEST = 48
"""Most characters of a label."""


def plain(label: str) -> str:
    """Return a label that fits and that XML can hold; it may come from an untrusted store."""
    text = "".join(sign if sign.isprintable() else "?" for sign in label)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


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
    with _plain_text():
        text = StringIO()
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        draw().savefig(text, format="svg", transparent=True, metadata=nothing)
    whole = text.getvalue()
    root = Xml.fromstring(whole[whole.index("<svg") :])  # noqa: S314 - written three lines above
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    for defs in root.findall(f"{{{SVG}}}defs"):
        for style in defs.findall(f"{{{SVG}}}style"):
            defs.remove(style)  # a rule for "*" would be one for the whole page
    _own_ids(root, key)
    root.set("role", "img")
    root.set("aria-labelledby", f"{key}-title {key}-desc")
    for number, (tag, words) in enumerate((("title", title), ("desc", description))):
        element = Xml.Element(f"{{{SVG}}}{tag}", {"id": f"{key}-{tag}"})
        element.text = words
        root.insert(number, element)
    return Markup(Xml.tostring(root, encoding="unicode"))  # noqa: S704 - Xml escapes texts


def save(draw: Callable[[], Figure], folder: Path, name: str) -> list[Path]:
    """Write a figure as a PDF and an SVG, with the texts as texts, and return the files."""
    files = [folder / f"{name}.pdf", folder / f"{name}.svg"]
    with _plain_text():
        figure = draw()
        for file in files:
            save_figure(figure, file)
    return files


@contextmanager
def _plain_text() -> Iterator[None]:
    """Draw texts as they are; a font that lacks a sign is no matter, since texts stay texts."""
    texts = mpl.rc_context(
        {
            "svg.hashsalt": "moeopt",
            "svg.fonttype": "none",
            "pdf.fonttype": 42,
            "text.parse_math": False,
            "font.size": FONT_PT,
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
