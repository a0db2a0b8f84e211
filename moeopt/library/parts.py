"""Certificates of models that fall apart: a tree for each part, so that trees add, not multiply.

Nothing here is trusted: what comes out is checked by `moeopt.library.certificate.verify`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components

from moeopt.library.certificate import Model, Terms


@dataclass(frozen=True)
class Part:
    """Variables that no row joins with others, and the model of them alone, numbered anew."""

    variables: list[int]
    model: Model

    def named(self, tree: list[Any]) -> list[Any]:
        """Return a tree with the whole model's variables."""
        own = self.variables
        return [
            [own[node[0]], node[1]] if isinstance(node, list) and len(node) == 2 else node
            for node in tree
        ]


def parts_of(model: Model) -> list[Part]:
    """Return the parts of a model that rows or costs are about."""
    size = len(model.whole)
    pairs = np.array([(terms[0][0], j) for terms in model.terms for j, _ in terms])
    joined = coo_array((np.ones(len(pairs)), pairs.reshape(-1, 2).T), shape=(size, size))
    count, labels = connected_components(joined, directed=False)
    own: list[list[int]] = [[] for _ in range(count)]
    place = [0] * size
    for j, label in enumerate(labels.tolist()):
        place[j] = len(own[label])
        own[label].append(j)
    rows: list[list[list[Any]]] = [[] for _ in range(count)]
    for terms, least, most in zip(model.terms, model.least, model.most, strict=True):
        if terms:
            sense, side = ("=", least) if least == most else ("<=", most)
            sense, side = (">=", least) if most is None else (sense, side)
            rows[labels[terms[0][0]]].append([_renamed(terms, place), sense, side, ""])
    costs: list[Terms] = [[] for _ in range(count)]
    for j, factor in model.objective:
        costs[labels[j]].append((place[j], factor))
    used = [n for n in range(count) if rows[n] or costs[n]]
    return [Part(own[n], _alone(model, own[n], rows[n], costs[n])) for n in used]


def _renamed(terms: Terms, place: list[int]) -> list[list[int]]:
    return [[place[j], factor] for j, factor in terms]


def _alone(model: Model, own: list[int], rows: list[list[Any]], costs: Terms) -> Model:
    """Return the model of some variables."""
    variables = [[model.lower[j], model.upper[j], model.whole[j]] for j in own]
    data = {
        "format": "moeopt-model", "vars": variables, "rows": rows, "lemmas": [],
        "objective": [list(term) for term in costs], "constant": 0, "denominator": 1, "grid": 1,
    }  # fmt: skip
    return Model(data)


def scaled(model: Model, scale: int) -> Model:
    """Return the model with larger costs, of which at most a bound, not below it, is refuted."""
    costs = [(j, scale * factor) for j, factor in model.objective]
    return model.part(list(range(len(model.terms))), costs)


def optimum(model: Model, limit_s: float) -> int | None:
    """Return what the best solution that HiGHS finds costs, in integers; None if it finds none."""
    size = len(model.whole)
    cost = np.zeros(size)
    for j, factor in model.objective:
        cost[j] = factor
    entries = list(_entries(model))
    rows, columns, factors = zip(*entries, strict=True) if entries else ((), (), ())
    matrix = csr_array((np.array(factors, float), (rows, columns)), (len(model.terms), size))
    least = [-np.inf if one is None else one for one in model.least]
    most = [np.inf if one is None else one for one in model.most]
    lower = [-np.inf if one is None else one for one in model.lower]
    upper = [np.inf if one is None else one for one in model.upper]
    found: Any = milp(
        cost,
        integrality=np.array(model.whole, int),
        bounds=Bounds(np.array(lower, float), np.array(upper, float)),
        constraints=LinearConstraint(matrix, np.array(least, float), np.array(most, float)),
        options={"time_limit": limit_s, "mip_rel_gap": 0.0},
    )
    if found.x is None:
        return None
    return sum(factor * round(float(found.x[j])) for j, factor in model.objective)


def _entries(model: Model) -> Iterator[tuple[int, int, float]]:
    for row, terms in enumerate(model.terms):
        for j, factor in terms:
            yield row, j, float(factor)
