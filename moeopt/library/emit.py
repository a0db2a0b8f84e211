"""Making a certificate: linear relaxations by HiGHS, branch and bound, multipliers in integers.

Nothing here is trusted: what comes out is checked by `moeopt.library.certificate.verify`.
"""

import heapq
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import csr_array, hstack, vstack

from moeopt.core.clock import solving_clock, spend
from moeopt.core.envelope import InstanceEnvelope
from moeopt.core.errors import InputError
from moeopt.library.certificate import Box, Model, RefusedError, Steps, contradicts, verify
from moeopt.library.model import neutral_model
from moeopt.problems.registry import get_problem

SCALES = (2**16, 2**32, 2**44)
"""Multipliers are rounded to the inverse of the first that still proves what they prove."""

WHOLE = 1e-6
"""A value nearer than this to a whole number is not branched on."""

PROPAGATION = 2_000
"""Most rows that tighten the bounds at a node."""

NODES_PER_UNIT = 40
"""Nodes in a second of one core, at a hundred columns; a thousand take ten times as long."""

Vector = NDArray[np.float64]
Leaf = tuple[int, tuple[tuple[int, int], ...]]


@dataclass
class _Node:
    """A part of the tree: open, or with a leaf that closes it, or with two children.

    Attributes
    ----------
    branches
        From the root: variable, least, largest.
    least
        What the relaxation costs there, in floats, only to choose by.
    leaf
        None while it is open or has children; `EMPTY` if tightening the bounds leaves nothing.
    """

    branches: tuple[tuple[int, int | None, int | None], ...]
    least: float = 0.0
    values: Vector | None = None
    duals: Vector | None = None
    leaf: Leaf | None = None
    children: "tuple[int, int, _Node, _Node] | None" = None


EMPTY: Leaf = (0, ())


class Certificate(dict[str, Any]):
    """A certificate's JSON object, as `certificate` reads it."""

    @property
    def bound(self) -> int:
        """What it proves, in steps of the objective."""
        return int(self["bound"])


def certify(
    instance: InstanceEnvelope, upper: int | None, limit_s: float, max_nodes: int
) -> Certificate:
    """Return a certificate of the best bound that linear relaxations prove within the limits.

    Parameters
    ----------
    upper
        The objective of a known solution, in steps; nothing above it can be proven. None: that of
        the problem's heuristic that models start from.
    limit_s, max_nodes
        When to stop branching. The root's relaxation is solved in any case.

    Raises
    ------
    InputError
        If HiGHS ends without multipliers at the root.
    """
    neutral = neutral_model(instance)
    model = Model(neutral.data)
    clock = solving_clock()
    end = clock.now() + limit_s
    if upper is None:
        problem = get_problem(instance.problem)
        known = problem.check.objective(instance, problem.heuristics.WARM_START(instance))
        upper = problem.packing(instance).pack(known)
    search = _Search(model, upper, first=neutral.first)
    root = search.run(max_nodes, lambda: clock.now() < end)
    bound = upper if search.closed else search.reached()
    tree, leaves = search.written(root, bound)
    certificate = Certificate(
        {
            "format": "moeopt-certificate",
            "version": 2,
            "problem": instance.problem,
            "instance": instance.name,
            "instance_sha256": neutral.data["instance_sha256"],
            "model_sha256": model.sha256,
            "bound": bound,
            "method": "linear relaxations by HiGHS, branch and bound",
            "propagation": PROPAGATION,
            "tree": tree,
            "leaves": leaves,
        }
    )
    try:
        verify(model, certificate)
    except RefusedError as error:
        raise InputError(f"{instance.name}: no certificate was found: {error}") from None
    return certificate


class _Search:
    """Branch and bound for the proof that nothing costs less than `upper`."""

    def __init__(self, model: Model, upper: int, first: list[int]) -> None:
        self.model, self.upper, self.first = model, upper, first
        self.cutoff = model.cutoff(upper)
        self.relaxation = _Relaxation(model)
        self.box = Box(model, self.cutoff, Steps(10**15), PROPAGATION)
        self.box.tighten(range(len(self.box.rows)))
        self.root_mark, self.root_empty = len(self.box.trail), self.box.empty
        self.heap: list[tuple[float, int, _Node]] = []
        self.closed = False

    def run(self, max_nodes: int, go_on: Callable[[], bool]) -> _Node:
        """Branch where the relaxation costs least; return the root."""
        number, nodes = count(), 1
        root = _Node(())
        self._look(root, None)
        if root.leaf is None:
            self.heap.append((root.least, next(number), root))
        while self.heap and nodes + 2 <= max_nodes and go_on():
            node = self.heap[0][2]
            column = self._fractional(node)
            if node.values is None or column is None:
                return root
            heapq.heappop(self.heap)
            at_most = self._middle(node, column)
            low = _Node((*node.branches, (column, None, at_most)))
            high = _Node((*node.branches, (column, at_most + 1, None)))
            node.children = (column, at_most, low, high)
            for child in (low, high):
                self._look(child, node)
                if child.leaf is None:
                    heapq.heappush(self.heap, (child.least, next(number), child))
            nodes += 2
            spend(2 * len(self.model.whole) / 100 / NODES_PER_UNIT)
        self.closed = not self.heap
        return root

    def reached(self) -> int:
        """Return what the open nodes' relaxations prove, in steps."""
        steps = [self._proven(node) for _, _, node in self.heap]
        return min([self.upper, *steps])

    def written(self, root: _Node, bound: int) -> tuple[list[Any], list[Any]]:
        """Return tree and leaves; leaves with the same multipliers share them."""
        tree: list[Any] = []
        number: dict[Leaf, int] = {}
        pending = [root]
        while pending:
            node = pending.pop()
            if node.children is not None:
                column, at_most, low, high = node.children
                tree.append([column, at_most])
                pending += [high, low]
                continue
            leaf = node.leaf or self._scaled(node.duals, SCALES[-1], 1)
            if leaf == EMPTY:
                tree.append(-1)
            else:
                tree.append(number.setdefault(leaf, len(number)))
        return tree, [[weight, [list(pair) for pair in pairs]] for weight, pairs in number]

    def _enter(self, node: _Node) -> None:
        self.box.restore(self.root_mark, self.root_empty)
        for branch in node.branches:
            self.box.branch(*branch)

    def _look(self, node: _Node, parent: _Node | None) -> None:
        """Close a node, or solve its relaxation."""
        self._enter(node)
        if self.box.empty:
            node.leaf = EMPTY
            return
        if parent is not None and parent.duals is not None:
            node.leaf = self._closing(parent.duals, 1)
            if node.leaf is not None:
                return
        found = self.relaxation.solved(self.box)
        node.least, node.values = found.least, found.values
        node.duals = found.duals if found.weight else None
        if found.duals is not None:
            node.leaf = self._closing(found.duals, found.weight)
        if node.duals is None and parent is not None:
            node.duals, node.least = parent.duals, parent.least

    def _closing(self, duals: Vector, weight: int) -> Leaf | None:
        """Return multipliers in integers that close the node that is entered, if they do."""
        for scale in SCALES:
            leaf = self._scaled(duals, scale, weight)
            if contradicts(
                self.model, self.box, self.cutoff, [leaf[0], list(map(list, leaf[1]))], ""
            ):
                return leaf
        return None

    def _scaled(self, duals: Vector | None, scale: int, weight: int) -> Leaf:
        if duals is None:
            return (scale, ())
        whole = np.rint(duals * float(scale))
        return (weight * scale, tuple((int(row), int(whole[row])) for row in np.flatnonzero(whole)))

    def _proven(self, node: _Node) -> int:
        """Return what an open node's multipliers prove: the largest bound that they contradict."""
        self._enter(node)
        leaf = self._scaled(node.duals, SCALES[-1], 1)
        plain = [leaf[0], [list(pair) for pair in leaf[1]]]
        low, high = 0, self.upper // self.model.grid
        while low < high:
            middle = (low + high + 1) // 2
            at = self.model.cutoff(middle * self.model.grid)
            if contradicts(self.model, self.box, at, plain, ""):
                low = middle
            else:
                high = middle - 1
        return low * self.model.grid

    def _middle(self, node: _Node, column: int) -> int:
        """Return where to cut a column's interval in two: where the relaxation stands."""
        at = 0.0 if node.values is None else node.values[column]
        least, most = self.box.lower[column], self.box.upper[column]
        at_most = int(np.floor(at + WHOLE))
        if most is not None and at_most >= most:
            at_most = most - 1
        return at_most if least is None else max(at_most, least)

    def _fractional(self, node: _Node) -> int | None:
        """Return a column to branch on: of those that sums fix, else the furthest from whole."""
        if node.values is None:
            return None
        self._enter(node)
        for column in self.first:
            if self.box.lower[column] != self.box.upper[column]:
                return column
        off = np.abs(node.values - np.rint(node.values)) * self.relaxation.whole
        column = int(off.argmax())
        return column if off[column] > WHOLE else None


@dataclass(frozen=True)
class _Relaxed:
    """A relaxation's answer: multipliers that bound the cost (weight 1) or show emptiness (0)."""

    least: float = 0.0
    values: Vector | None = None
    duals: Vector | None = None
    weight: int = 1


class _Relaxation:
    """Solves the linear relaxation over boxes."""

    def __init__(self, model: Model) -> None:
        columns = len(model.whole)
        self.whole = np.array(model.whole)
        self.cost = np.zeros(columns)
        for variable, factor in model.objective:
            self.cost[variable] = factor
        rows = [
            csr_array(
                ([float(c) for _, c in terms], ([0] * len(terms), [j for j, _ in terms])),
                shape=(1, columns),
            )
            for terms in model.terms
        ]
        equal = [r for r in range(len(rows)) if model.least[r] == model.most[r]]
        most = [r for r in range(len(rows)) if model.least[r] is None]
        least = [r for r in range(len(rows)) if model.most[r] is None]
        self.order = np.array([*most, *least]), np.array(equal, dtype=int)
        self.at_most = vstack([*(rows[r] for r in most), *(-rows[r] for r in least)], format="csr")
        self.sides = np.array(
            [*(model.most[r] for r in most), *(-(model.least[r] or 0) for r in least)], float
        )
        self.signs = np.array([1.0] * len(most) + [-1.0] * len(least))
        self.equal = vstack([rows[r] for r in equal], format="csr") if equal else None
        self.values = np.array([model.least[r] for r in equal], float)
        self.count = len(rows)

    def solved(self, box: Box) -> _Relaxed:
        """Return the relaxation's cost and multipliers over a box."""
        bounds = [
            (-np.inf if low is None else float(low), np.inf if high is None else float(high))
            for low, high in zip(box.lower, box.upper, strict=True)
        ]
        found = self._linprog(self.cost, self.at_most, self.equal, bounds)
        if found.status == 0:
            return _Relaxed(float(found.fun), found.x, self._multipliers(found))
        return self._empty(bounds) if found.status == 2 else _Relaxed()

    def _empty(self, bounds: Any) -> _Relaxed:
        """Return multipliers of the least sum of violations: they show that nothing is there."""
        rows, columns = self.at_most.shape
        equal = 0 if self.equal is None else self.equal.shape[0]
        cost = np.concatenate([np.zeros(columns), np.ones(rows + 2 * equal)])
        none = csr_array((rows, 2 * equal))
        at_most = hstack([self.at_most, -_eye(rows), none], format="csr")
        both = None
        if self.equal is not None:
            parts = [self.equal, csr_array((equal, rows)), _eye(equal), -_eye(equal)]
            both = hstack(parts, format="csr")
        more = [(0.0, np.inf)] * (rows + 2 * equal)
        found = self._linprog(cost, at_most, both, [*bounds, *more])
        if found.status != 0:
            return _Relaxed()
        return _Relaxed(np.inf, None, self._multipliers(found), weight=0)

    def _linprog(self, cost: Vector, at_most: Any, equal: Any, bounds: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of columns without an upper bound, say
            return linprog(
                cost,
                A_ub=at_most,
                b_ub=self.sides,
                A_eq=equal,
                b_eq=None if equal is None else self.values,
                bounds=bounds,
                method="highs",
            )

    def _multipliers(self, found: Any) -> Vector:
        """Return a multiplier per row, with the sign that its side asks for."""
        total = np.zeros(self.count)
        sided, equal = self.order
        if len(sided):
            total[sided] = np.minimum(found.ineqlin.marginals, 0) * self.signs
        if len(equal):
            total[equal] = found.eqlin.marginals
        return total


def _eye(size: int) -> csr_array:
    return csr_array((np.ones(size), (np.arange(size), np.arange(size))), shape=(size, size))
