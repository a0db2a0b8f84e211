"""Picture of a comparison: a bar for each system, in stages."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from .compare import Comparison


def draw(found: "Comparison", path: Path | None = None) -> "Figure":
    """Draw the mean decode step of each system: attention and the rest, then experts.

    A mark shows the oracle's latency.
    """
    from matplotlib.figure import Figure

    rows = [row for row in found.rows if row.run is not None]
    rows.sort(key=lambda row: -(row.mean_ms or 0.0))
    figure = Figure(figsize=(7.5, 1.2 + 0.34 * len(rows)), layout="constrained")
    axes = figure.subplots()
    for place, row in enumerate(rows):
        assert row.run is not None  # noqa: S101
        experts = float(row.run.experts_ns.sum(axis=1).mean()) / 1e6
        rest = (row.mean_ms or 0.0) - experts
        first = place == 0
        axes.barh(place, rest, color="#9aa0a6", label="attention, rest" if first else None)
        axes.barh(place, experts, left=rest, color="#4c78a8", label="experts" if first else None)
        oracle = row.at_optimum_ms("oracle")
        if oracle is not None:
            axes.plot([oracle] * 2, [place - 0.4, place + 0.4], color="#d62728", linewidth=2)
    axes.set_yticks(range(len(rows)), [row.system for row in rows])
    axes.set_xlabel("decode step, ms (red: by an oracle)")
    axes.set_title(f"{found.model} on {found.machine}, {found.options.batch} requests")
    if rows:
        axes.legend(loc="lower right", frameon=False)
    if path is not None:
        figure.savefig(path)
    return figure
