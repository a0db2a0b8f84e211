"""Picture of a comparison: a bar for each system, in stages."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class SystemBar(NamedTuple):
    """A system's mean decode step in ms: attention and the rest, experts, and by an oracle."""

    system: str
    rest_ms: float
    experts_ms: float
    oracle_ms: float | None


def draw(bars: Iterable[SystemBar], title: str) -> "Figure":
    """Draw the systems, the fastest on top; a mark shows the oracle's latency."""
    from matplotlib.figure import Figure

    rows = sorted(bars, key=lambda bar: -(bar.rest_ms + bar.experts_ms))
    figure = Figure(figsize=(7.5, 1.2 + 0.34 * len(rows)), layout="constrained")
    axes = figure.subplots()
    for place, row in enumerate(rows):
        rest, experts = row.rest_ms, row.experts_ms
        first = place == 0
        axes.barh(place, rest, color="#9aa0a6", label="attention, rest" if first else None)
        axes.barh(place, experts, left=rest, color="#4c78a8", label="experts" if first else None)
        if row.oracle_ms is not None:
            axes.plot([row.oracle_ms] * 2, [place - 0.4, place + 0.4], color="#d62728", linewidth=2)
    axes.set_yticks(range(len(rows)), [row.system for row in rows])
    axes.set_xlabel("decode step, ms (red: by an oracle)")
    axes.set_title(title)
    if rows:
        axes.legend(loc="lower right", frameon=False)
    return figure
