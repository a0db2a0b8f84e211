"""Everything that a report shows, whatever its format."""

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.papers.charts import Chart
from benchmarks.papers.contradictions import Contradiction
from benchmarks.papers.figure import Figure
from benchmarks.papers.registry import CHARTS, CONTRADICTIONS, resolve
from benchmarks.papers.sweep import Sweep


@dataclass(frozen=True)
class Document:
    """What there is to show.

    Attributes
    ----------
    figures
        In the order of the table.
    sweeps
        Name -> sweep.
    contradictions, charts
        By paper, only those with figures in the table.
    """

    figures: Sequence[Figure]
    sweeps: dict[str, Sweep]
    contradictions: dict[str, Sequence[Contradiction]]
    charts: dict[str, Sequence[Chart]]

    @classmethod
    def of(
        cls, figures: Sequence[Figure], sweeps: dict[str, Sweep], *, charts: bool = True
    ) -> "Document":
        """Add to figures what belongs to their papers; charts are computed if they are wanted."""
        papers = dict.fromkeys(figure.published.paper for figure in figures)
        return cls(
            figures,
            sweeps,
            {name: resolve(CONTRADICTIONS[name])() for name in papers if name in CONTRADICTIONS},
            {name: resolve(CHARTS[name])() for name in papers if charts and name in CHARTS},
        )
