"""A Pareto front as a picture: a staircase, and where the heuristics are."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

SIZE_IN = (6.5, 4.0)

FRONT, HEURISTIC = "#4477aa", "#cc3311"
"""Told apart by colour-blind readers; the markers differ as well."""

MARKERS = "sD^vPX"

MS = 1e-6


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
    with mpl.rc_context({"svg.hashsalt": "moeopt", "svg.fonttype": "none"}):
        undated: dict[str, str | None] = {"Date": None} if path.suffix == ".svg" else {}
        figure.savefig(path, dpi=150, metadata=undated)


def _scaled(points: Sequence[tuple[int, int]], units: Sequence[float]) -> list[list[float]]:
    return [[point[entry] * unit for point in points] for entry, unit in enumerate(units)]


def _label(name: str) -> str:
    plain = name.removesuffix("_ns").replace("_", " ")
    return f"{plain} in ms" if name.endswith("_ns") else plain
