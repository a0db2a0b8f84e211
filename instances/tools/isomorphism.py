"""Which variable and row of one integer model is which of another, equal but for their order.

Colours first: those of variables follow from their bounds and costs, those of rows from their sides
and from coefficients and colours of their variables, those of variables from their rows, and so on
until nothing is told apart any more. What has one colour in both models goes together. Where
several have the same, as two experts with equal loads do, the first of the one model is taken for
the first of the other, and all is coloured anew. Colours are 64-bit sums and could coincide: what
comes out is compared entry by entry, and is None where it is not the very same model.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST_TIES = 2_000
"""Most variables that are taken for each other without being told apart."""

SAME = ("constant", "denominator", "grid", "below")
"""Fields that an order does not touch."""

Data = Mapping[str, Any]
Colours = NDArray[np.uint64]


@dataclass(frozen=True)
class Renumbering:
    """New numbers of an old model's variables and rows."""

    variables: list[int]
    rows: list[int]


def renumbering(old: Data, new: Data) -> Renumbering | None:
    """Return how to number an old model's variables and rows to get the new one; None if no way.

    Names, hashes and the rows' constraint IDs may differ.
    """
    shapes = [(len(one["vars"]), len(one["rows"])) for one in (old, new)]
    if shapes[0] != shapes[1] or any(old.get(name) != new.get(name) for name in SAME):
        return None
    same = list(range(shapes[0][0]))
    if (rows := _rows(old, new, same)) is not None:
        return Renumbering(same, rows)
    before, after = _Graph(old), _Graph(new)
    first, second = before.start(), after.start()
    for number in range(MOST_TIES):
        first, second = before.refined(first), after.refined(second)
        if not np.array_equal(np.sort(first), np.sort(second)):
            return None
        orders = [np.argsort(one, kind="stable") for one in (first, second)]
        tied = _first_tie(first[orders[0]])
        if number == 0 or tied is None:
            variables = np.empty(len(first), dtype=np.int64)
            variables[orders[0]] = orders[1]
            if (rows := _rows(old, new, variables.tolist())) is not None:
                return Renumbering(variables.tolist(), rows)
            if tied is None:
                return None
        for colours, order in zip((first, second), orders, strict=True):
            colours[order[tied]] = _label(f"tie {number}")
    return None


def _first_tie(colours: Colours) -> int | None:
    """Return the place of the first of sorted colours that is the next one's too."""
    ties = np.flatnonzero(colours[1:] == colours[:-1])
    return int(ties[0]) if len(ties) else None


def _rows(old: Data, new: Data, variables: Sequence[int]) -> list[int] | None:
    """Return the new numbers of rows, given those of variables; None if the models differ."""
    if any(list(old["vars"][v]) != list(new["vars"][n]) for v, n in enumerate(variables)):
        return None
    costs = {variables[v]: c for v, c in old["objective"] if c}
    if costs != {v: c for v, c in new["objective"] if c}:
        return None
    places: dict[Any, list[int]] = defaultdict(list)
    for number, row in enumerate(new["rows"]):
        places[_content(row, None)].append(number)
    found = []
    for row in old["rows"]:
        if not (alike := places.get(_content(row, variables))):
            return None
        found.append(alike.pop(0))
    return found


def _content(row: Sequence[Any], variables: Sequence[int] | None) -> Any:
    terms, sense, side, _ = row
    pairs = ((v if variables is None else variables[v], c) for v, c in terms if c)
    return frozenset(pairs), sense, side


def _label(value: Any) -> np.uint64:
    """Return a number that is another for another value, in every process."""
    digest = blake2b(repr(value).encode(), digest_size=8).digest()
    return np.uint64(int.from_bytes(digest, "little"))


def _labels(values: Iterable[Any]) -> Colours:
    known: dict[Any, np.uint64] = {}
    found = []
    for value in values:
        if value not in known:
            known[value] = _label(value)
        found.append(known[value])
    return np.array(found, dtype=np.uint64)


def _mixed(colours: Colours) -> Colours:
    """Return other numbers, whose sums say which they were (splitmix64)."""
    mixed = colours + np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


class _Graph:
    """A model's variables and rows, joined by coefficients."""

    def __init__(self, data: Data) -> None:
        entries = [
            (row, v, c) for row, (terms, *_) in enumerate(data["rows"]) for v, c in terms if c
        ]
        self.row = np.array([row for row, _, _ in entries], dtype=np.int64)
        self.variable = np.array([v for _, v, _ in entries], dtype=np.int64)
        self.coefficient = _labels(c for _, _, c in entries)
        self.sides = _labels((sense, side) for _, sense, side, _ in data["rows"])
        costs = dict(map(tuple, data["objective"]))
        self.kinds = _labels((*one, costs.get(v, 0)) for v, one in enumerate(data["vars"]))

    def start(self) -> Colours:
        """Return colours of variables by what they are alone."""
        return self.kinds.copy()

    def refined(self, colours: Colours) -> Colours:
        """Return colours that tell as much apart as these, and all that follows from it."""
        count = len(np.unique(colours))
        while True:
            ends = _mixed(self.coefficient ^ _mixed(colours)[self.variable])
            rows = self.sides.copy()
            np.add.at(rows, self.row, ends)
            ends = _mixed(self.coefficient ^ _mixed(_mixed(rows))[self.row])
            finer = _mixed(colours)
            np.add.at(finer, self.variable, ends)
            if (more := len(np.unique(finer))) == count:
                return colours
            colours, count = finer, more
