"""The overview: every rule of every problem in one line, with its median, range and information."""

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass

from moeopt.study.report.study import is_exact
from moeopt.study.table import MEANING, Knew, Summary, percent

MOST_LINES = 12
"""Of a problem; the published rule and rules of one's own come first."""


@dataclass(frozen=True)
class Line:
    """One rule's excess over the instances of a problem with a proven optimum.

    A rule that knew different things on different instances has a line for each kind, and one more
    for those that are made under other settlements than the defaults.

    Attributes
    ----------
    label
        As tables call it; with an asterisk for other settlements than the defaults.
    knew
        By which information about loads it decided.
    least, median, most
        Its excess.
    interval
        Of the median, 95 %; None where there are too few traces.
    optimal
        Share of its solves that reach the optimum.
    is_published
        Whether it is the rule of the problem's paper, or one of one's own.
    """

    label: str
    knew: Knew
    least: float
    median: float
    most: float
    optimal: float
    is_published: bool
    is_settled: bool = False
    interval: tuple[float, float] | None = None

    @property
    def words(self) -> str:
        """What a screen reader says."""
        return (
            f"{self.label}: median {percent(self.median)}, from {percent(self.least)} to "
            f"{percent(self.most)}, optimal on {percent(self.optimal)}, knew {MEANING[self.knew]}"
            f"{', other settlements' * self.is_settled}"
        )


def lines(summaries: Sequence[Summary], first: Container[str]) -> list[Line]:
    """Return the rules of one problem, the best first, those that no table can compare left out.

    Parameters
    ----------
    summaries
        Of one problem, over all its families.
    first
        Labels of the published rule and of rules of one's own: they are shown in any case.
    """
    found = sorted(_lines(summaries, first), key=lambda line: (line.median, line.most, line.label))
    kept = sorted(found, key=lambda line: not line.is_published)[:MOST_LINES]
    return [line for line in found if line in kept]


def _lines(summaries: Sequence[Summary], first: Container[str]) -> Iterator[Line]:
    for s in summaries:
        least, middle, most = s.excess_min, s.excess_median, s.excess_max
        if least is None or middle is None or most is None or s.optimal is None:
            continue
        if not is_exact(s.problem, s.method.partition(" ")[0]):
            name, bracket, said = s.method.partition(" (")
            label = f"{name} *{bracket}{said}" if s.settled else s.method
            published = s.method in first
            shares = (least, middle, most, s.optimal)
            yield Line(label, s.kind or "none", *shares, published, s.settled, s.interval)
