"""Making a certificate: linear relaxations by HiGHS, branch and bound, multipliers in integers.

Nothing here is trusted: what comes out is checked by `moeopt.library.certificate.verify`.
"""

import heapq
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import csr_array, hstack, vstack

from moeopt.core.clock import solving_clock
from moeopt.core.envelope import InstanceEnvelope
from moeopt.core.errors import InputError
from moeopt.library.certificate import (
    MAX_DEPTH,
    Box,
    Branch,
    Certificate,
    Leaf,
    halves,
    leaf_bound,
    verify,
    with_upper_bounds,
)
from moeopt.library.exact_model import ExactModel, exact_model
from moeopt.problems.registry import get_problem
from moeopt.solvers.verdict import check

SCALE = 2**44
"""Multipliers are rounded to its inverse, which costs far less than a nanosecond of the bound."""

WHOLE = 1e-6
"""A value nearer than this to a whole number is not branched on."""

EMPTY = 1 << 200
"""The bound of an empty leaf."""

Vector = NDArray[np.float64]


@dataclass
class _Node:
    """A part of the tree: a leaf until it has children."""

    box: Box
    depth: int
    duals: dict[int, int]
    cost: int
    bound: int
    values: Vector | None
    branch: tuple[int, int] | None = None
    children: "list[_Node]" = field(default_factory=list)


def certify(
    instance: InstanceEnvelope, upper: int | None, limit_s: float, max_nodes: int
) -> Certificate:
    """Return a certificate of the best bound that linear relaxations prove within the limits.

    Parameters
    ----------
    upper
        The packed objective of a known solution; nothing above it can be proven. By default a
        heuristic's.
    limit_s, max_nodes
        When to stop branching. The root's relaxation is solved in any case.

    Raises
    ------
    InputError
        If HiGHS ends without multipliers at the root.
    """
    clock = solving_clock()
    end = clock.now() + limit_s
    model = exact_model(instance)
    upper = _heuristic(instance) if upper is None else upper
    relaxation = _Relaxation(model)
    root = relaxation.node(with_upper_bounds(model, upper), 0, None)
    if not root.duals and root.values is None:
        raise InputError(f"{instance.name}: HiGHS has no multipliers for the linear relaxation")
    _branch(root, relaxation, upper, max_nodes, lambda: clock.now() < end)
    leaves = [node for node in _preorder(root) if node.branch is None]
    bound = min(upper, min(leaf.bound for leaf in leaves))
    certificate = Certificate(
        format="moeopt-certificate",
        version=1,
        problem=instance.problem,
        instance=instance.name,
        bound=get_problem(instance.problem).packing(instance).unpack(bound),
        scale=SCALE,
        tree=[_written(node, model) for node in _preorder(root)],
        method=f"linear relaxations by HiGHS, {len(leaves)} leaves",
    )
    verify(certificate, instance, model)
    return certificate


def _heuristic(instance: InstanceEnvelope) -> int:
    problem = get_problem(instance.problem)
    solution = problem.heuristics.WARM_START(instance)
    objective = None if solution is None else check(instance, solution).objective
    if objective is None:
        raise InputError(f"{instance.name}: no solution is known that a bound could be held to")
    return problem.packing(instance).pack(objective)


def _branch(
    root: _Node,
    relaxation: "_Relaxation",
    upper: int,
    max_nodes: int,
    go_on: Callable[[], bool],
) -> None:
    """Branch where the bound is least, on the column that is furthest from a whole number."""
    number = count()
    heap = [(root.bound, next(number), root)]
    nodes = 1
    while heap and nodes + 2 <= max_nodes and go_on():
        bound, _, node = heapq.heappop(heap)
        column = relaxation.fractional(node)
        if node.values is None or column is None or bound >= upper or node.depth == MAX_DEPTH:
            return  # the least bound of all: no other leaf raises it
        at_most = int(np.floor(node.values[column]))
        node.branch = (column, at_most)
        for box in halves(node.box, column, at_most):
            child = relaxation.node(box, node.depth + 1, node)
            node.children.append(child)
            heapq.heappush(heap, (child.bound, next(number), child))
        nodes += 2


def _preorder(root: _Node) -> list[_Node]:
    found, pending = [], [root]
    while pending:
        node = pending.pop()
        found.append(node)
        pending += reversed(node.children)
    return found


def _written(node: _Node, model: ExactModel) -> Branch | Leaf:
    if node.branch is not None:
        column, at_most = node.branch
        return Branch(column=model.columns[column], at_most=at_most)
    duals = {model.row_names[row]: value for row, value in sorted(node.duals.items())}
    return Leaf(duals=duals, cost=node.cost)


class _Relaxation:
    """Solves the linear relaxation over boxes."""

    def __init__(self, model: ExactModel) -> None:
        self.model = model
        p = model.program
        same = p.row_lower == p.row_upper
        least, most = np.isfinite(p.row_lower) & ~same, np.isfinite(p.row_upper) & ~same
        self.most, self.least, self.same = map(np.flatnonzero, (most, least, same))
        self.at_most = vstack([p.rows[self.most], -p.rows[self.least]], format="csr")
        self.sides = np.concatenate([p.row_upper[self.most], -p.row_lower[self.least]])
        self.equal, self.values = p.rows[self.same], p.row_lower[self.same]

    def node(self, box: Box, depth: int, parent: _Node | None) -> _Node:
        """Return the leaf of a box, with the better of its own multipliers and its parent's."""
        bounds = [
            (-np.inf if low is None else float(low), np.inf if high is None else float(high))
            for low, high in zip(box.lower, box.upper, strict=True)
        ]
        p = self.model.program
        duals: dict[int, int] = {}
        values = None
        if all(low <= high for low, high in bounds):
            found = self._solved(p.cost, self.at_most, self.equal, bounds)
            if found.status == 2:
                return self._empty(box, depth, bounds, parent)
            if found.status == 0:
                duals, values = self._multipliers(found), found.x
        tried = [duals] if parent is None or parent.cost == 0 else [duals, parent.duals]
        proven = [(self._steps(box, one), one) for one in tried]
        bound, duals = max(proven, key=lambda pair: pair[0])
        return _Node(box, depth, duals, 1, bound, values)

    def fractional(self, node: _Node) -> int | None:
        """Return the column of whole numbers that is furthest from one, if any is."""
        if node.values is None:
            return None
        off = np.abs(node.values - np.rint(node.values)) * self.model.integer
        column = int(off.argmax())
        return column if off[column] > WHOLE else None

    def _steps(self, box: Box, duals: dict[int, int]) -> int:
        found = leaf_bound(self.model, box, duals, SCALE).in_steps(self.model)
        return -EMPTY if found is None else found

    def _empty(self, box: Box, depth: int, bounds: Any, parent: _Node | None) -> _Node:
        """Return the leaf of a box without a point: multipliers of the least sum of violations."""
        rows, equal = self.at_most.shape[0], self.equal.shape[0]
        columns = self.at_most.shape[1]
        cost = np.concatenate([np.zeros(columns), np.ones(rows + 2 * equal)])
        eye = _eye(rows)
        none = csr_array((rows, 2 * equal))
        at_most = hstack([self.at_most, -eye, none], format="csr")
        both = [self.equal, csr_array((equal, rows)), _eye(equal), -_eye(equal)]
        more = [(0.0, np.inf)] * (rows + 2 * equal)
        found = self._solved(cost, at_most, hstack(both, format="csr"), [*bounds, *more])
        if found.status == 0:
            duals = self._multipliers(found)
            proven = leaf_bound(self.model, box, duals, SCALE, cost=0).numerator
            if proven is not None and proven > 0:
                return _Node(box, depth, duals, 0, EMPTY, None)
        duals = {} if parent is None or parent.cost == 0 else parent.duals
        return _Node(box, depth, duals, 1, self._steps(box, duals), None)

    def _solved(self, cost: Vector, at_most: Any, equal: Any, bounds: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of columns without an upper bound, say
            return linprog(
                cost,
                A_ub=at_most if at_most.shape[0] else None,
                b_ub=self.sides if at_most.shape[0] else None,
                A_eq=equal if equal.shape[0] else None,
                b_eq=self.values if equal.shape[0] else None,
                bounds=bounds,
                method="highs",
            )

    def _multipliers(self, found: Any) -> dict[int, int]:
        """Return a multiplier per row, with the sign that its side asks for."""
        total = np.zeros(len(self.model.row_names))
        if len(self.sides):
            sided = np.minimum(found.ineqlin.marginals, 0)
            total[self.most] += sided[: len(self.most)]
            total[self.least] -= sided[len(self.most) :]
        if len(self.values):
            total[self.same] += found.eqlin.marginals
        total[self.model.row_denominator == 0] = 0
        scaled = [int(value) for value in np.rint(total * float(SCALE))]
        return {row: value for row, value in enumerate(scaled) if value}


def _eye(size: int) -> csr_array:
    return csr_array((np.ones(size), (np.arange(size), np.arange(size))), shape=(size, size))
