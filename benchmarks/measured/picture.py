"""Measured against predicted speeds as a picture; needs the extra `report`."""

import numpy as np
from matplotlib.figure import Figure

from benchmarks.measured.comparison import Comparison
from benchmarks.measured.crossvalidation import factor_holding
from benchmarks.papers.report.plots import MARKERS, SERIES, THEIRS

SIZE_IN = (7.5, 5.2)

ROOM = 1.25
"""How far the axes go beyond the points, as a factor."""


def draw(comparison: Comparison) -> Figure:
    """Return measured against predicted tokens/s, a marker per machine, the 80 % band shaded."""
    figure = Figure(figsize=SIZE_IN, layout="constrained")
    axis = figure.subplots()
    held = comparison.cross_validated.machines
    speeds = [s for one in held for s in (one.tokens_per_s, one.point.tokens_per_s)]
    ends = np.array([min(speeds) / ROOM, max(speeds) * ROOM])
    factor = factor_holding(held)
    label = f"80 % of the points: within a factor of {factor:.2f}"
    axis.fill_between(
        ends, ends / factor, ends * factor, color="#dddddd", linewidth=0, zorder=0, label=label
    )
    axis.plot(ends, ends, color=THEIRS, linewidth=1, label="as measured")
    for number, (machine, rows) in enumerate(comparison.by(lambda r: r.point.machine).items()):
        axis.plot(
            [row.point.tokens_per_s for row in rows],
            [row.held_out.tokens_per_s for row in rows],
            MARKERS[number % len(MARKERS)],
            color=SERIES[number % len(SERIES)],
            fillstyle="full" if number < len(MARKERS) else "none",
            markersize=5,
            label=machine,
        )
    for limit, scale in ((axis.set_xlim, axis.set_xscale), (axis.set_ylim, axis.set_yscale)):
        scale("log")
        limit(*ends)
    ticks = [t for t in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000) if ends[0] <= t <= ends[1]]
    axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.minorticks_off()
    axis.set_xlabel("measured, tokens/s")
    axis.set_ylabel("predicted with the machine held out, tokens/s")
    axis.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside right upper", frameon=False, fontsize=8)
    return figure
