"""What a restriction costs: pairs of instances that differ in nothing else."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from moeopt.problems.envelope import InstanceEnvelope
from moeopt.problems.objective import Objective, relative
from moeopt.problems.registry import get_problem
from moeopt.study.rows import Row


@dataclass(frozen=True)
class Price:
    """Two instances of which one has a restriction more.

    Attributes
    ----------
    restriction
        The field and its value.
    restricted, free
        Names of the instances.
    price
        How much more the restricted one's optimum costs, by the first entries.
    """

    restriction: str
    restricted: str
    free: str
    price: float


def prices(
    problem: str, rows: Sequence[Row], instances: Mapping[str, InstanceEnvelope]
) -> list[Price]:
    """Return the price of each restriction for which both optima of a pair are proven."""
    optima = {row.key.instance: row.optimum for row in rows if row.optimum is not None}
    here = {digest: instances[digest] for digest in optima if digest in instances}
    found = [
        price
        for name, free in (get_problem(problem).info.restrictions or {}).items()
        for price in _of_field(name, free, here, optima)
    ]
    return sorted(found, key=lambda price: (price.restriction, price.restricted))


def _of_field(
    name: str, free: Any, instances: Mapping[str, InstanceEnvelope], optima: Mapping[str, Objective]
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


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key}: {of}" for key, of in value.items())
    return value if isinstance(value, str) else json.dumps(value)
