"""The numbers behind a report: profiles, times to proof, dependences, restrictions' prices."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
import pandas as pd

from moeopt.core.objective import relative
from moeopt.problems.registry import get_problem
from moeopt.study.traits import SKEW, Traits


@dataclass(frozen=True)
class Curve:
    """A staircase: at `x[i]` it rises to `y[i]` and stays there. Both are sorted."""

    name: str
    x: Sequence[float]
    y: Sequence[float]

    def at(self, x: float) -> float:
        """Return the height at `x`."""
        return max((y for at, y in zip(self.x, self.y, strict=True) if at <= x), default=0.0)


def profiles(solves: pd.DataFrame) -> list[Curve]:
    """Return for each label the share of solves that cost at most x times the optimum.

    Counted are the solves of instances with a proven optimum, failed ones and those without a
    solution as well: they are never within any factor. (Dolan and Moré, Math. Program. 91, 2002,
    with the optimum in place of the best method.)
    """
    found = []
    for name, of in solves[solves.optimum.notna()].groupby("label", sort=False):
        factors = sorted(1 + of.excess.dropna())
        found.append(Curve(str(name), factors, [(i + 1) / len(of) for i in range(len(factors))]))
    return found


def proof_times(solves: pd.DataFrame) -> list[Curve]:
    """Return for each label the number of solves that it proved optimal itself within x seconds."""
    proven = solves[solves.status == "optimal"]
    return [
        Curve(str(name), sorted(of.seconds), [float(i + 1) for i in range(len(of))])
        for name, of in proven.groupby("label", sort=False)
    ]


FEW, PARTS = 8, 4
"""A field with at most so many values is shown value by value; others are cut into parts."""


@dataclass(frozen=True)
class Dependence:
    """The excess of one method against one field: (value, excess) of each solve, by value."""

    name: str
    points: Sequence[tuple[float, float]]

    @property
    def by_value(self) -> dict[float, list[float]]:
        """The excesses at each value."""
        found: dict[float, list[float]] = {}
        for value, excess in self.points:
            found.setdefault(value, []).append(excess)
        return found

    @property
    def is_discrete(self) -> bool:
        """Whether the values are few, and chosen: a skew comes as it comes."""
        return self.name != SKEW and len(self.by_value) <= FEW

    @property
    def table(self) -> list[tuple[str, int, float, float]]:
        """Value or range of values, solves, median and largest excess.

        What is not discrete is cut into at most four parts of about equal size.
        """
        if self.is_discrete:
            groups = {f"{value:g}": excesses for value, excesses in self.by_value.items()}
        else:
            parts = np.array_split(np.array(self.points), min(PARTS, len(self.points)))
            groups = {
                f"{part[0, 0]:.3g} to {part[-1, 0]:.3g}": part[:, 1].tolist() for part in parts
            }
        return [(name, len(of), median(of), max(of)) for name, of in groups.items()]


def dependences(solves: pd.DataFrame, traits: Mapping[str, Traits]) -> list[Dependence]:
    """Return a method's excess against every field that is known and that varies."""
    points: dict[str, list[tuple[float, float]]] = {}
    known = solves[solves.excess.notna() & solves.instance_hash.isin(list(traits))]
    for digest, excess in zip(known.instance_hash, known.excess, strict=True):
        for name, value in traits[digest].numbers.items():
            points.setdefault(name, []).append((value, excess))
    return [
        Dependence(name, sorted(found))
        for name, found in points.items()
        if len({value for value, _ in found}) > 1
    ]


@dataclass(frozen=True)
class Price:
    """How much more an optimum costs than without a restriction, by first entries.

    `restriction` is the field and its value, `restricted` and `free` are the instances' names.
    """

    restriction: str
    restricted: str
    free: str
    price: float


def prices(problem: str, solves: pd.DataFrame, traits: Mapping[str, Traits]) -> list[Price]:
    """Return the price of each restriction for which both optima of a pair are proven."""
    proven = solves[solves.optimum.notna()].drop_duplicates("instance_hash")
    optima = {row.instance_hash: row for row in proven.itertuples() if row.instance_hash in traits}
    found = []
    for name in get_problem(problem).restrictions:
        said = {digest: traits[digest].restrictions for digest in optima}
        of = {digest: one[name] for digest, one in said.items() if name in one}
        free = {one.rest: optima[digest] for digest, one in of.items() if not one.words}
        for digest, one in of.items():
            twin, mine = free.get(one.rest), optima[digest]
            if one.words and twin is not None:
                price = relative(mine.optimum, twin.optimum, twin.optimum)
                if price is not None:
                    found.append(Price(one.words, mine.instance, twin.instance, price))
    return sorted(found, key=lambda price: (price.restriction, price.restricted))
