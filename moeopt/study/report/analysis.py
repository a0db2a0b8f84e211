"""The numbers behind a report: profiles, times to proof, dependences, restrictions' prices."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
import pandas as pd

from moeopt.core.envelope import InstanceEnvelope
from moeopt.core.objective import Objective, relative
from moeopt.problems.registry import get_problem


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


OPTIONS = {
    "batch": "batch",
    "dimms": "DIMMs",
    "ndp_units": "NDP units",
    "threads": "CPU threads",
    "cores": "CPU cores",
    "cpu_scale": "CPU scale",
}
"""Field of the instance, or option of its generator -> what it is called."""

SKEW = "skew"

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


def dependences(
    solves: pd.DataFrame, instances: Mapping[str, InstanceEnvelope]
) -> list[Dependence]:
    """Return a method's excess against every field that is known and that varies."""
    points: dict[str, list[tuple[float, float]]] = {}
    known = solves[solves.excess.notna() & solves.instance_hash.isin(list(instances))]
    for digest, excess in zip(known.instance_hash, known.excess, strict=True):
        for name, value in fields(instances[digest]):
            points.setdefault(name, []).append((value, excess))
    return [
        Dependence(name, sorted(found))
        for name, found in points.items()
        if len({value for value, _ in found}) > 1
    ]


def fields(instance: InstanceEnvelope) -> Iterator[tuple[str, float]]:
    """Yield the names and values of the fields that an instance has.

    Provenance is untrusted: anything that is not a number is left out.
    """
    options = (instance.provenance or {}).get("options")
    for key, name in OPTIONS.items():
        value = getattr(instance, key, options.get(key) if isinstance(options, dict) else None)
        if isinstance(value, int | float) and not isinstance(value, bool) and np.isfinite(value):
            yield name, float(value)
    if (found := skew(instance)) is not None:
        yield SKEW, found


def skew(instance: InstanceEnvelope) -> float | None:
    """Return most tokens over mean tokens of the experts that have any; None without tokens."""
    tokens = [count for count in _tokens(instance) if count > 0]
    return max(tokens) / (sum(tokens) / len(tokens)) if tokens else None


def _tokens(instance: object) -> list[int]:
    """Return the tokens of every expert of a layer, added up over trace windows."""
    if hasattr(instance, "scenarios"):
        return [sum(of) for of in zip(*(s.tokens for s in instance.scenarios), strict=True)]
    experts = getattr(instance, "experts", ())
    if not isinstance(experts, Sequence):  # a number where experts have no data of their own
        return []
    return [expert.tokens for expert in experts if hasattr(expert, "tokens")]


@dataclass(frozen=True)
class Price:
    """How much more an optimum costs than without a restriction, by first entries.

    `restriction` is the field and its value, `restricted` and `free` are the instances' names.
    """

    restriction: str
    restricted: str
    free: str
    price: float


def prices(
    problem: str, solves: pd.DataFrame, instances: Mapping[str, InstanceEnvelope]
) -> list[Price]:
    """Return the price of each restriction for which both optima of a pair are proven."""
    proven = solves[solves.optimum.notna()]
    optima = dict(zip(proven.instance_hash, proven.optimum, strict=True))
    here = {digest: instances[digest] for digest in optima if digest in instances}
    found = [
        price
        for name, free in get_problem(problem).restrictions.items()
        for price in _of_field(name, free, here, optima)
    ]
    return sorted(found, key=lambda price: (price.restriction, price.restricted))


def _of_field(
    name: str,
    free: object,
    instances: Mapping[str, InstanceEnvelope],
    optima: Mapping[str, Objective],
) -> list[Price]:
    values = {digest: getattr(instance, name) for digest, instance in instances.items()}
    if all(value == free for value in values.values()):
        return []
    twins = {_rest(instances[d], name): d for d, value in values.items() if value == free}
    found = []
    for digest, value in values.items():
        if value == free or (twin := twins.get(_rest(instances[digest], name))) is None:
            continue
        price = relative(optima[digest], optima[twin], optima[twin])
        if price is not None:
            words = f"{name.replace('_', ' ')} = {_plain(value)}"
            found.append(Price(words, instances[digest].name, instances[twin].name, price))
    return found


def _rest(instance: InstanceEnvelope, name: str) -> str:
    """Return everything but what it is called, where it is from and the restriction."""
    return instance.model_dump_json(exclude={"name", "provenance", name})


def _plain(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}: {of}" for key, of in value.items())
    return value if isinstance(value, str) else json.dumps(value)
