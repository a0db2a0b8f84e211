"""What is drawn beside the table: curves with the published values marked, and schedules.

A paper's charts come from one function that takes nothing and returns a tuple of `Chart`; the
registry names it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from benchmarks.rooms.core import Lane

Ys = tuple[float | None, ...]


@dataclass(frozen=True)
class Curve:
    """One or more series over the same places on the x axis.

    Attributes
    ----------
    title, source
        What is shown, and the paper's figure that shows the same, e.g. "TriMoE Fig. 9(a)".
    x_label, y_label
        With the unit.
    x
        Numbers, or names where there is no scale.
    series
        Name -> one value per place; None leaves a gap.
    published
        The paper's own values, likewise; drawn as marks without a line.
    marked_x
        Places on the axis that the paper names, such as a knee; drawn as dashed lines.
    kind
        "line", or "bar" for groups of bars.
    """

    title: str
    source: str
    x_label: str
    y_label: str
    x: tuple[float | str, ...]
    series: Mapping[str, Ys]
    published: Mapping[str, Ys] = field(default_factory=dict)
    marked_x: tuple[float, ...] = ()
    kind: Literal["line", "bar"] = "line"

    def __post_init__(self) -> None:
        for name, values in [*self.series.items(), *self.published.items()]:
            if len(values) != len(self.x):
                raise ValueError(f"{self.title}: {name}: {len(values)} values at {len(self.x)}")


@dataclass(frozen=True)
class Schedule:
    """What runs where and when; panels are drawn below each other on the same time axis.

    Attributes
    ----------
    panels
        Title -> lanes, e.g. one panel with and one without deferral.
    """

    title: str
    source: str
    panels: Mapping[str, Sequence[Lane]]


Chart = Curve | Schedule
