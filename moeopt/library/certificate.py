"""Certificates of lower bounds: a tree of bounds on columns, with dual multipliers at its leaves.

A certificate says "no solution costs less than B", and is checked in integers against the exact
model (`moeopt.library.exact_model`), whoever made it and however. Argument. Suppose a solution
costs less. It is a point x of the model that lies in one of the leaves, as a branch on a column of
whole numbers, ``x_j <= v`` or ``x_j >= v + 1``, leaves none out. For any multipliers y of the rows,
``c'x = y'(Ax) + (c - y'A)x``, and so, with d = c - y'A,

    c'x >= sum_i (y_i lower_i if y_i > 0 else y_i upper_i) + sum_j min(d_j l_j, d_j u_j).

If the right-hand side, rounded up to the problem's grid of objectives, is B or more, that is no x
of this leaf (Neumaier and Shcherbina, Safe
bounds in linear and mixed-integer linear programming, Math. Program. 99, 2004, eq. 6 and 9, there
with directed rounding). A leaf may also have ``"cost": 0``, with d = -y'A: if then the right-hand
side is above 0 there is no point in it at all (Farkas). A column without an upper bound has one
here that follows from the rows, or from costing less than B.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from moeopt.core.envelope import InstanceEnvelope
from moeopt.core.errors import InputError
from moeopt.core.json_files import read_object
from moeopt.core.objective import Objective, entries
from moeopt.core.wording import describe, shown
from moeopt.library.exact_model import ExactModel, Objects
from moeopt.library.limbs import product
from moeopt.problems.registry import get_problem

MAX_NODES = 2**16
"""Most nodes of a tree."""

MAX_NUMBER = 2**62
"""Largest multiplier, times the scale, and largest value of a branch."""

MAX_WORK = 2**33
"""Most leaves times nonzeros of the model: minutes of checking."""

MAX_DEPTH = 512
"""Most branches above a leaf."""

_Number = Annotated[int, Field(strict=True, ge=-MAX_NUMBER, le=MAX_NUMBER)]


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Branch(_Strict):
    """Two children follow: the column at most `at_most`, then at least one more."""

    column: str
    at_most: _Number


class Leaf(_Strict):
    """Multipliers of rows by name, in steps of 1/scale; rows that are not named have 0.

    With `cost` 0 they show that the leaf is empty.
    """

    duals: dict[str, _Number]
    cost: Annotated[int, Field(strict=True, ge=0, le=1)] = 1


class Certificate(_Strict):
    """A lower bound and its proof.

    Attributes
    ----------
    bound
        Of the checker's objective; a lexicographic one is a list.
    scale
        What the multipliers are divided by.
    tree
        Nodes in preorder: after a branch its first child with all that follows it, then the other.
    method
        In words, how it was found; nothing depends on it.
    """

    format: Literal["moeopt-certificate"]
    version: Annotated[int, Field(strict=True, ge=1, le=1)]
    problem: str
    instance: str
    bound: _Number | tuple[_Number, ...]
    scale: Annotated[int, Field(strict=True, ge=1, le=MAX_NUMBER)]
    tree: Annotated[list[Branch | Leaf], Field(min_length=1, max_length=MAX_NODES)]
    method: Annotated[str, Field(max_length=200)] = ""


def load_certificate(path: Path) -> Certificate:
    """Read a certificate from a ``.json`` or ``.json.gz`` file.

    Raises
    ------
    InputError
        If it is none; one line with file, field and reason.
    """
    data = read_object(path)
    if data.get("format") != "moeopt-certificate":
        raise InputError(f"{path}: format: must be moeopt-certificate")
    try:
        return Certificate.model_validate(data)
    except ValidationError as error:
        raise InputError(f"{path}: {describe(error)}") from None


@dataclass(frozen=True)
class Box:
    """Bounds of all columns, None where there is none."""

    lower: Objects
    upper: Objects


def verify(certificate: Certificate, instance: InstanceEnvelope, model: ExactModel) -> None:
    """Check that a certificate proves its bound.

    Parameters
    ----------
    instance
        What it is about.
    model
        Of the instance.

    Raises
    ------
    InputError
        If it is about another instance, or does not prove its bound; the message says where.
    """
    if certificate.problem != instance.problem:
        raise InputError(f"problem: is {shown(certificate.problem)}, not {instance.problem!r}")
    if certificate.instance != instance.name:
        raise InputError(f"instance: is {shown(certificate.instance)}, not {instance.name!r}")
    bound = packed_bound(certificate.bound, instance)
    leaves = sum(isinstance(node, Leaf) for node in certificate.tree)
    if leaves * model.rows.nnz > MAX_WORK:
        raise InputError(f"tree: {leaves} leaves are too many for a model of this size")
    columns = {name: number for number, name in enumerate(model.columns)}
    rows = {name: number for number, name in enumerate(model.row_names)}
    start = with_upper_bounds(model, bound)
    pending: list[tuple[Box, int]] = [(start, 0)]
    for number, node in enumerate(certificate.tree):
        where = f"tree[{number}]"
        if not pending:
            raise InputError(f"{where}: stands after the tree's end")
        box, depth = pending.pop()
        if isinstance(node, Branch):
            column = columns.get(node.column)
            if column is None or not model.integer[column]:
                reason = f"{shown(node.column)} is no column of whole numbers"
                raise InputError(f"{where}: column: {reason}")
            if depth == MAX_DEPTH:
                raise InputError(f"{where}: more than {MAX_DEPTH} branches below each other")
            low, high = halves(box, column, node.at_most)
            pending += [(high, depth + 1), (low, depth + 1)]
            continue
        found = leaf_bound(model, box, _of_rows(node, rows, where), certificate.scale, node.cost)
        if not _proves(model, found, node.cost, bound):
            raise InputError(f"{where}: {_too_little(model, found, node.cost, bound)}")
    if pending:
        raise InputError(f"tree: ends {len(pending)} nodes too early")


@dataclass(frozen=True)
class LeafBound:
    """What a leaf proves: ``numerator / denominator`` in the model's units, None if nothing."""

    numerator: int | None
    denominator: int

    def in_steps(self, model: ExactModel) -> int | None:
        """Return it in steps of the packed objective, rounded up to what an objective can be."""
        if self.numerator is None:
            return None
        parts = self.denominator * model.grid
        return -(-self.numerator * model.objective_unit // parts) * model.grid


def leaf_bound(
    model: ExactModel, box: Box, duals: Mapping[int, int], scale: int, cost: int = 1
) -> LeafBound:
    """Return what multipliers prove of the points in a box.

    Parameters
    ----------
    duals
        Multiplier of rows by number, times `scale`. Those of a row's side that is missing, or of a
        row without exact numbers, prove nothing.
    cost
        1 for a bound on the cost, 0 for one on zero.
    """
    used = {row: value for row, value in duals.items() if value}
    of = {row: int(model.row_denominator[row]) for row in used}
    if 0 in of.values():
        return LeafBound(None, 1)
    common = math.lcm(model.denominator, *of.values())
    weights = np.zeros(len(model.row_names), dtype=object)
    total = cost * scale * (common // model.denominator) * model.constant
    for row, value in used.items():
        weights[row] = value * (common // of[row])
        side = model.row_lower[row] if value > 0 else model.row_upper[row]
        if side is None:
            return LeafBound(None, 1)
        total += weights[row] * side
    price = cost * scale * (common // model.denominator)
    reduced = model.cost.astype(object) * price - product(model.rows, weights)
    at = np.where(reduced > 0, box.lower, box.upper)
    counted = np.flatnonzero(reduced != 0)
    sides = at[counted]
    if any(side is None for side in sides):
        return LeafBound(None, 1)
    return LeafBound(int(total + (reduced[counted] * sides).sum()), scale * common)


def halves(box: Box, column: int, at_most: int) -> tuple[Box, Box]:
    """Return the two boxes of a branch."""
    lower, upper = box.lower.copy(), box.upper.copy()
    upper[column] = at_most if upper[column] is None else min(upper[column], at_most)
    lower[column] = at_most + 1 if lower[column] is None else max(lower[column], at_most + 1)
    return Box(box.lower, upper), Box(lower, box.upper)


def packed_bound(bound: Objective, instance: InstanceEnvelope) -> int:
    """Return a bound as the one integer that models minimise.

    Raises
    ------
    InputError
        If it is not of the form of the problem's objective.
    """
    problem = get_problem(instance.problem)
    names = problem.check.OBJECTIVE
    if len(entries(bound)) != len(names) or isinstance(bound, tuple) != (len(names) > 1):
        raise InputError(f"bound: must be {' and '.join(names)}")
    try:
        return problem.packing(instance).pack(bound)
    except ValueError:
        raise InputError("bound: the second entry is out of its range") from None


def with_upper_bounds(model: ExactModel, bound: int) -> Box:
    """Return the columns' bounds, with upper ones for solutions that cost less than `bound`."""
    lower, upper = model.lower.copy(), model.upper.copy()
    open_ended = [j for j, value in enumerate(upper) if value is None]
    if not open_ended:
        return Box(lower, upper)
    _bound_by_cost(model, bound, lower, upper, open_ended)
    for _ in range(2):
        _bound_by_rows(model, lower, upper)
    return Box(lower, upper)


def _bound_by_cost(
    model: ExactModel, bound: int, lower: Objects, upper: Objects, columns: list[int]
) -> None:
    """Bound what costs something, where no column can lower the cost without limit."""
    if (model.cost < 0).any() or any(lower[j] is None for j in np.flatnonzero(model.cost)):
        return
    least = model.constant + sum(int(model.cost[j]) * lower[j] for j in np.flatnonzero(model.cost))
    left = -(-bound * model.denominator // model.objective_unit) - least
    for j in columns:
        if model.cost[j] > 0:
            upper[j] = lower[j] + max(0, -(-left // int(model.cost[j])))


def _bound_by_rows(model: ExactModel, lower: Objects, upper: Objects) -> None:
    """Bound columns that have no upper bound by what the other columns of a row can sum to."""
    missing = np.array([value is None for value in upper])
    if not missing.any():
        return
    rows = model.rows
    touched = np.unique(
        np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))[missing[rows.indices]]
    )
    for row in touched[model.row_denominator[touched] > 0]:
        part = slice(rows.indptr[row], rows.indptr[row + 1])
        index, entry = rows.indices[part].tolist(), rows.data[part].tolist()
        for sign, side in ((1, model.row_upper[row]), (-1, model.row_lower[row])):
            if side is not None:
                _bound_by_row([sign * a for a in entry], index, sign * side, lower, upper)


def _bound_by_row(
    entry: list[int], index: list[int], side: int, lower: Objects, upper: Objects
) -> None:
    """Use ``sum_j entry_j x_j <= side`` for its one column without an upper bound, if it is one."""
    least, alone = 0, None
    for a, j in zip(entry, index, strict=True):
        at = lower[j] if a > 0 else upper[j]
        if a > 0 and upper[j] is None and alone is None:
            alone = (a, j)
        elif a and at is None:
            return
        elif a:
            least += a * at
    if alone is not None:
        a, j = alone
        upper[j] = max((side - least) // a + 1, lower[j] if lower[j] is not None else 0)


def _of_rows(leaf: Leaf, rows: Mapping[str, int], where: str) -> dict[int, int]:
    for name in leaf.duals:
        if name not in rows:
            raise InputError(f"{where}: duals: {shown(name)} is no row of the model")
    return {rows[name]: value for name, value in leaf.duals.items()}


def _proves(model: ExactModel, found: LeafBound, cost: int, bound: int) -> bool:
    if cost == 0:
        return found.numerator is not None and found.numerator > 0
    steps = found.in_steps(model)
    return steps is not None and steps >= bound


def _too_little(model: ExactModel, found: LeafBound, cost: int, bound: int) -> str:
    if found.numerator is None:
        return "proves nothing: a multiplier or a column has no bound on that side"
    if cost == 0:
        return "is not shown to be empty"
    return f"proves {found.in_steps(model)}, not {bound}"
