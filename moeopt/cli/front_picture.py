"""The fronts of a plan as a picture: one panel each, one scale of tokens per second."""

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from moeopt.core.units import GIB
from moeopt.planner.fronts import Front, Point
from moeopt.problems.pictures import COLOURS, save_figure

LABELS = {
    "loss": "expected loss, in units of the table",
    "memory": "GPU memory in GiB",
}


def save_fronts(title: str, fronts: tuple[Front, ...], memory_bytes: int, path: Path) -> None:
    """Draw fronts beside each other and write them as SVG, PNG or PDF, by the file's suffix.

    Parameters
    ----------
    memory_bytes
        What the machine's GPU has, which the panel of memory marks.
    """
    save_figure(draw_fronts(title, fronts, memory_bytes), path)


def draw_fronts(title: str, fronts: tuple[Front, ...], memory_bytes: int) -> Figure:
    """Return the panels; points off a front are hollow."""
    figure = Figure(figsize=(4.8 * len(fronts), 3.6), layout="constrained")
    figure.suptitle(title, parse_math=False, fontsize="medium")
    axes = figure.subplots(1, len(fronts), sharey=True, squeeze=False)[0]
    for front, axis in zip(fronts, axes, strict=True):
        _draw(front, axis)
        if front.axis == "memory":
            axis.axvline(memory_bytes / GIB, color="black", linestyle=":", label="this machine")
        axis.legend(frameon=False, fontsize="small")
    axes[0].set_ylabel("tokens/s, steps not decided on")
    axes[0].set_ylim(bottom=0)
    return figure


def _draw(front: Front, axis: Axes) -> None:
    scale = GIB if front.axis == "memory" else 1
    axis.set_xlabel(LABELS[front.axis])
    axis.spines[["top", "right"]].set_visible(False)
    if front.axis == "loss" and all(point.cost > 0 for point in front.points):
        axis.set_xscale("log")
    costs = [point.cost / scale for point in front.points]
    shown = [(cost, point) for cost, point in zip(costs, front.points, strict=True)]
    axis.plot(costs, [point.later for point in front.points], color=COLOURS["work"], label="plan")
    for on, fill in ((True, COLOURS["work"]), (False, "white")):
        chosen = [(cost, point) for cost, point in shown if front.holds(point) == on]
        axis.scatter(
            [cost for cost, _ in chosen],
            [point.later for _, point in chosen],
            facecolor=fill,
            edgecolor=COLOURS["work"],
            zorder=3,
        )
    others = [(cost, point.default) for cost, point in shown if point.default is not None]
    axis.plot(
        [cost for cost, _ in others],
        [rate for _, rate in others],
        color=COLOURS["transfer"],
        linestyle="--",
        label="best default",
    )
    for cost, point in shown:
        axis.annotate(
            _label(front, point),
            (cost, point.later),
            xytext=(0, 6),
            textcoords="offset points",
            ha="center",
            fontsize="x-small",
        )


def _label(front: Front, point: Point) -> str:
    if front.axis == "loss":
        return f"{point.average_bits:g} bits"
    return str(sum(map(len, point.planned.chosen.plan.resident or ())))
