"""Making a certificate: linear relaxations by HiGHS, branching, multipliers in integers.

Nothing here is trusted: what comes out is checked by `moeopt.certificates.certificate.verify`.
"""

import warnings
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, linprog, milp
from scipy.sparse import coo_array, csr_array, eye_array, hstack, vstack
from scipy.sparse.csgraph import connected_components

from moeopt.certificates.certificate import (
    Box,
    Model,
    RefusedError,
    Steps,
    Terms,
    added,
    contradicts,
    sides,
    verify,
)
from moeopt.certificates.model import Form, NeutralModel, neutral_model
from moeopt.core.clock import TimeLimitError, counts_work, solving_clock, spend, told
from moeopt.core.envelope import InstanceEnvelope
from moeopt.core.errors import InputError

SCALES = tuple(2.0**power for power in (8, 16, 26, 36, 46))
"""Multipliers are rounded to the inverse of the first that still proves what they prove."""

WHOLE = 1e-6
"""A value nearer than this to a whole number is not branched on."""

ENDLESS = 10**15
"""Steps that no search takes."""

PROPAGATION = 2_000
"""Most rows that tighten the bounds at a node."""

MOST_TERMS = 20_000
"""Terms of the rows of a model up to which bounds are tightened at every node."""

RELAXATION_WORK, PIVOT_WORK, STEP_WORK = 2e-3, 5e-9, 1e-6
"""Units of work: of a relaxation; of a pivot, for each row and nonzero; of a step of `Steps`.

Measured on the largest instances of nine problems: a pivot takes 3e-9 to 7e-9 s for each.
"""

NODE_WORK, ROOT_NODES = 5e-7, 120
"""Units of work of a node of HiGHS's own tree, for each row and nonzero; nodes its root takes."""

MOST_NODES = 2**16
"""Of a tree for a solve; its limit comes first."""

BUILDING_SHARE = 0.5
"""Of a solve's limit: a model that takes longer to build leaves too little for a proof."""

Vector = NDArray[np.float64]
Leaf = tuple[int, tuple[tuple[int, int], ...]]
Branch = tuple[int, ...]
Tree = list[Any]
Proof = dict[str, Any]
"""A certificate's JSON object, or a part of it, as `certificate` reads it."""


def certify(
    instance: InstanceEnvelope,
    upper: int,
    limit_s: float,
    max_nodes: int,
    form: Form | None = None,
) -> Proof:
    """Return a certificate of the best bound that linear relaxations prove within the limits.

    Parameters
    ----------
    upper
        The objective of a known solution, in steps; nothing above it can be proven.
    limit_s, max_nodes
        When to stop branching. The root's relaxation is solved in any case.
    form
        Which of the instance's models; None: its exact one.

    Raises
    ------
    InputError
        If HiGHS ends without multipliers at the root.
    """
    neutral = neutral_model(instance, form)
    model = Model(neutral.data)
    clock = solving_clock()
    end = clock.now() + limit_s
    proof, search = _proof(model, neutral, upper, max_nodes, lambda: end - clock.now())
    if proof is None:
        search = search or _Search(model, upper, neutral)
        tree, bound = search.root()
        proof = {"bound": bound, **search.proof(tree)}
    certificate = _certificate(instance, neutral, model, form, proof)
    try:
        verify(model, certificate)
    except RefusedError as error:
        raise InputError(f"{instance.name}: no certificate was found: {error}") from None
    return certificate


def proven(
    instance: InstanceEnvelope, objective: int | None, limit: float, form: Form | None = None
) -> Proof | None:
    """Return a checked certificate that nothing costs less; None if there is none within a limit.

    It ends at its limit, or before where the model is too large to be built in half of it. Under a
    limit of work it reads no clock: the same call always gives the same answer.

    Parameters
    ----------
    objective
        The packed objective of a known solution. None: that there is no solution at all is to be
        certified, and the certificate's bound is above every objective that the model has.
    limit
        In the solving clock's unit: seconds, or units of work.
    form
        Which of the instance's models; None: its exact one.
    """
    clock = solving_clock()
    end = clock.now() + limit
    try:
        with told(end, gives_up=True):
            neutral = neutral_model(instance, form, BUILDING_SHARE * limit)
            model = Model(neutral.data)
            upper = _above_all(model) if objective is None else objective
            if upper is None:
                return None
            proof, _ = _proof(model, neutral, upper, MOST_NODES, lambda: end - clock.now(), True)
            if proof is None or proof["bound"] < upper:
                return None
            certificate = _certificate(instance, neutral, model, form, proof)
            verify(model, certificate)
    except (InputError, RefusedError, TimeLimitError):
        return None
    return certificate


def _above_all(model: Model) -> int | None:
    """Return a bound above every objective within the variables' bounds; None if there is none."""
    ends = [(f, (model.upper if f > 0 else model.lower)[j]) for j, f in model.objective]
    if any(at is None for _, at in ends):
        return None
    most = model.constant + sum(factor * (at or 0) for factor, at in ends)
    return (most // (model.denominator * model.grid) + 1) * model.grid


def _certificate(
    instance: InstanceEnvelope, neutral: NeutralModel, model: Model, form: Form | None, proof: Proof
) -> Proof:
    return {
        "format": "moeopt-certificate",
        "version": 2,
        "problem": instance.problem,
        "instance": instance.name,
        "instance_sha256": neutral.data["instance_sha256"],
        "model_sha256": model.sha256,
        **({} if form is None else {"form": dict(form)}),
        "method": "linear relaxations by HiGHS, branching",
        **proof,
    }


def _proof(
    model: Model,
    neutral: NeutralModel,
    upper: int,
    max_nodes: int,
    left: Callable[[], float],
    limited: bool = False,
) -> tuple[Proof | None, "_Search | None"]:
    """Return a proof: of parts or blocks where there are some; else, or if open, one search's.

    `limited`: relaxations, too, end when nothing is left.
    """
    within = left if limited else _endless
    proof = _of_parts(model, upper, max_nodes, left, within)
    proof = proof or _of_blocks(model, upper, neutral, max_nodes, left, within)
    if proof is not None:
        return proof, None
    search = _Search(model, upper, neutral, within)
    tree = search.run(max_nodes, left)
    return None if tree is None else {"bound": upper, **search.proof(tree)}, search


def _endless() -> float:
    return float("inf")


def _of_parts(
    model: Model, upper: int, max_nodes: int, left: Callable[[], float], within: Callable[[], float]
) -> Proof | None:
    """Return trees that prove the optima of a model's parts; None if it has one, or is open.

    A part are variables that rows join. Trees add up, where one for all would multiply them.
    """
    heads = [(terms[0][0], j) for terms in model.terms for j, _ in terms]
    joined = np.array([*heads, *((j, j) for j, _ in model.objective)]).reshape(-1, 2)
    graph = coo_array((np.ones(len(joined)), joined.T), shape=(len(model.whole),) * 2)
    labels = connected_components(graph, directed=False)[1]
    names = np.unique(labels[joined[:, 0]])
    scale, proofs = len(names) + 1, list[Proof]()  # the parts' sum, rounded up, loses nothing
    for name in names.tolist() if len(names) > 1 else ():
        own = np.flatnonzero(labels == name).tolist()
        place = {j: n for n, j in enumerate(own)}
        rows = [row for row, terms in enumerate(model.terms) if terms and terms[0][0] in place]
        part = _part(model, rows, own, [(j, scale * f) for j, f in model.objective if j in place])
        least = Relaxation(part).optimum(left()) if left() > 0 else None
        search = None if least is None else _Search(part, least - 1, NeutralModel({}, []), within)
        tree = None if search is None else search.run(max_nodes, left)
        if least is None or search is None or tree is None:
            return None
        proof = search.proof(_named(tree, own, range(len(rows))))
        proofs.append(proof | {"vars": own, "bound": least - 1})
    total = scale * model.constant + sum(proof["bound"] for proof in proofs)
    bound = min(upper, -(-total // (scale * model.denominator * model.grid)) * model.grid)
    return {"bound": bound, "scale": scale, "relaxed": [], "parts": proofs} if proofs else None


def _of_blocks(
    model: Model,
    upper: int,
    hints: NeutralModel,
    max_nodes: int,
    left: Callable[[], float],
    within: Callable[[], float],
) -> Proof | None:
    """Return a tree of trees, one for each block; None if there are no blocks, or one is open.

    A row chooses a flag; a block are variables of a row like "some = 5 flags", all 0 without it.
    """
    row = -1 if hints.choice is None else hints.choice
    flags = [j for j, _ in model.terms[row]] if row >= 0 else []
    blocks = {flag: set[int]() for flag in flags}
    for terms, least, most in zip(model.terms, model.least, model.most, strict=True):
        for flag in {j for j, factor in terms if factor < 0 and least == most == 0} & {*flags}:
            blocks[flag].update(j for j, factor in terms if factor > 0)
    tree, leaves = Tree(), Tree()
    for number, flag in enumerate(flags if all(blocks.values()) else (), 1):
        shut = set[int]().union(*(blocks[other] for other in flags if other != flag))
        rows = [n for n, terms in enumerate(model.terms) if shut.isdisjoint(j for j, _ in terms)]
        own = sorted({j for n in rows for j, _ in [*model.terms[n], *model.objective]})
        part = _part(model, rows, own, model.objective)
        part.upper = [0 if j in flags and j != flag else model.upper[j] for j in own]
        first = [own.index(j) for j in hints.first if j in own]
        of_part = NeutralModel({}, first, False, rows.index(row))
        search = _Search(part, model.cutoff(upper), of_part, within)
        found = search.run(max_nodes - len(tree), left)
        if found is None:
            return None
        proof = search.proof(found)
        tree += [[row, number, 1]] * (number < len(flags))
        tree += _named(proof["tree"], own, rows, len(leaves))
        leaves += [[weight, [[rows[n], y] for n, y in pairs]] for weight, pairs in proof["leaves"]]
    return {"bound": upper, "propagation": 0, "tree": tree, "leaves": leaves} if tree else None


def _named(tree: Tree, own: Sequence[int], rows: Sequence[int], leaves: int = 0) -> Tree:
    """Return a part's tree with the whole model's variables and rows, its leaves further on."""
    of = {2: own, 3: rows}
    return [
        [of[len(n)][n[0]], *n[1:]] if isinstance(n, list) else n + leaves * (n >= 0) for n in tree
    ]


def _part(model: Model, rows: list[int], own: list[int], objective: Terms) -> Model:
    """Return the model of some rows and of the variables in them, numbered anew."""
    place = {j: n for n, j in enumerate(own)}
    part = model.part(rows, [(place[j], factor) for j, factor in objective])
    part.terms = [[(place[j], factor) for j, factor in terms] for terms in part.terms]
    part.lower, part.upper = ([of[j] for j in own] for of in (model.lower, model.upper))
    part.whole = [model.whole[j] for j in own]
    return part


@dataclass
class _Pool:
    """Multipliers that were found, each with the row that they add up to."""

    columns: int
    leaves: list[Leaf] = field(default_factory=list)
    rows: list[tuple[Terms, int]] = field(default_factory=list)
    up: Vector = field(init=False)
    down: Vector = field(init=False)
    sides: Vector = field(init=False)

    def __post_init__(self) -> None:
        self.up, self.down = np.zeros((2, 64, self.columns))
        self.sides = np.zeros(64)

    def add(self, leaf: Leaf, row: tuple[Terms, int]) -> int:
        """Keep one; return its number."""
        number = len(self.leaves)
        if number == len(self.sides):
            self.up, self.down = (np.vstack([one, one * 0]) for one in (self.up, self.down))
            self.sides = np.append(self.sides, self.sides * 0)
        terms, side = row
        values = np.zeros(self.columns)
        values[[j for j, _ in terms]] = [float(factor) for _, factor in terms]
        self.up[number], self.down[number] = np.maximum(values, 0), np.minimum(values, 0)
        self.sides[number] = side
        self.leaves.append(leaf)
        self.rows.append(row)
        return number

    def contradicting(self, lower: Vector, upper: Vector) -> list[int]:
        """Return which contradict a box, as far as floats tell."""
        size = len(self.leaves)
        most = self.up[:size] @ upper + self.down[:size] @ lower
        return np.flatnonzero(most < self.sides[:size]).tolist()


@dataclass(frozen=True)
class Relaxed:
    """A relaxation's answer: multipliers that bound the cost (weight 1) or show emptiness (0)."""

    least: float = 0.0
    values: Vector | None = None
    duals: Vector | None = None
    weight: int = 1


class _Search:
    """The proof that nothing costs less than `upper`, in depth first order."""

    def __init__(
        self, model: Model, upper: int, hints: NeutralModel, within: Callable[[], float] = _endless
    ) -> None:
        self.model, self.upper, self.first = model, upper, hints.first
        self.cutoff = model.cutoff(upper)
        self.relaxation = Relaxation(model, within)
        self.groups = list(_groups(model, hints.choice is not None))
        self.choice = next((group for group in self.groups if group[0] == hints.choice), None)
        # Where groups are branched on, multipliers say all that tightening would, in less time.
        small = not self.groups and sum(map(len, model.terms)) <= MOST_TERMS
        small = small if hints.tighten is None else hints.tighten
        self.steps = Steps()
        self.steps.left = ENDLESS  # the certificate's own are counted when it is verified
        self.box = Box(model, self.cutoff, self.steps, PROPAGATION if small else 0)
        self.box.tighten(range(len(self.box.rows)))
        self.pool = _Pool(len(model.whole))
        self.found: Relaxed | None = None

    def run(self, max_nodes: int, left: Callable[[], float]) -> Tree | None:
        """Return a tree whose leaves all contradict; None if it was not found.

        What is left has to be enough for the certificate's verification, which takes its steps.
        """
        tree: Tree = []
        pending: list[tuple[int, bool, list[Any]]] = []
        told_of = ENDLESS
        while True:
            leaf, values = self._closed()
            spend((told_of - self.steps.left) * STEP_WORK)
            told_of = self.steps.left
            if leaf is None:
                branch = None if values is None else self._branch(values)
                late = left() <= (ENDLESS - told_of) * STEP_WORK
                if branch is None or len(tree) >= max_nodes or late:
                    return None
                tree.append(list(branch))
                low, high = sides(self.model, self.steps, list(branch), "")
                pending.append((len(self.box.trail), self.box.empty, high))
                self.box.branch(low)
                continue
            tree.append(leaf)
            if not pending:
                return tree
            mark, empty, high = pending.pop()
            self.box.restore(mark, empty)
            self.box.branch(high)

    def root(self) -> tuple[Tree, int]:
        """Return a tree of one leaf, and what the root's multipliers prove, in steps."""
        self.box.restore(0, empty=False)
        duals = None if self.found is None else self.found.duals
        leaf = self._scaled(duals, SCALES[-1], 1)
        box, grid, cutoff = self.box, self.model.grid, self.model.cutoff
        steps = range(1, self.upper // grid + 1)
        least = bisect_left(
            steps, True, key=lambda n: not contradicts(box, *self._row(leaf, cutoff(n * grid)))
        )
        return [self.pool.add(leaf, self._row(leaf, self.cutoff))], least * grid

    def proof(self, tree: Tree) -> Proof:
        """Return a certificate's part about a tree, whose leaves are numbered anew."""
        used: dict[int, int] = {}
        for place, node in enumerate(tree):
            if isinstance(node, int) and node >= 0:
                tree[place] = used.setdefault(node, len(used))
        kept = (self.pool.leaves[number] for number in used)
        leaves = [[weight, [list(pair) for pair in pairs]] for weight, pairs in kept]
        return {"propagation": self.box.propagation, "tree": tree, "leaves": leaves}

    def _closed(self) -> tuple[int | None, Vector | None]:
        """Return the number of multipliers that close the node, or the relaxation's point."""
        box = self.box
        if box.empty:
            return -1, None
        lower = np.array([-1e30 if one is None else float(one) for one in box.lower])
        upper = np.array([1e30 if one is None else float(one) for one in box.upper])
        for number in self.pool.contradicting(lower, upper):
            if contradicts(box, *self.pool.rows[number]):
                return number, None
        found = self.relaxation.solved(lower, upper)
        if self.found is None:
            self.found = found
        if found.duals is not None and (not found.weight or found.least > self.cutoff):
            for scale in SCALES:
                leaf = self._scaled(found.duals, scale, found.weight)
                row = self._row(leaf, self.cutoff)
                if contradicts(box, *row):
                    return self.pool.add(leaf, row), None
        return None, found.values

    def _scaled(self, duals: Vector | None, scale: float, weight: int) -> Leaf:
        """Return multipliers in integers; of a cost without limit, no more than is paid for."""
        if duals is None:
            return (1, ())
        whole = np.rint(duals * scale)
        pairs = tuple((int(row), int(whole[row])) for row in np.flatnonzero(whole))
        paid = int(scale) * weight
        for variable, factor in self.model.objective if weight else ():
            if factor > 0 and self.box.upper[variable] is None:
                total = sum(
                    y * f for row, y in pairs for j, f in self.model.terms[row] if j == variable
                )
                paid = max(paid, -(-total // factor))
        return paid, pairs

    def _row(self, leaf: Leaf, cutoff: int) -> tuple[Terms, int]:
        weight, pairs = leaf
        return added(self.model, self.steps, cutoff, [weight, list(map(list, pairs))], "")

    def _branch(self, values: Vector) -> Branch | None:
        """Return a branch that the point breaks: on what sums fix, on groups, on single numbers."""
        off = np.abs(values - np.rint(values)) * self.relaxation.whole
        if self.choice is not None and off[self.choice[1]].max() > WHOLE:
            row, columns = self.choice
            return row, _halves(np.clip(values[columns], 0, 1), first=False), 1
        for column in self.first:
            if off[column] > WHOLE:
                return column, int(np.floor(values[column]))
        best, branch = WHOLE, cast(Branch | None, None)
        for row, columns in self.groups:
            part = np.clip(values[columns], 0, 1)
            none = min(part[0], 1 - part[0])
            score = float(1 - part.max() + 10 * none * (part.max() < 1 - WHOLE))
            if part.max() < 1 - WHOLE and score > best and (part > WHOLE).sum() > 1:
                best, branch = score, (row, _halves(part, first=none > WHOLE), 1)
        if branch is None and off.max(initial=0.0) > WHOLE:
            column = int(off.argmax())
            branch = (column, int(np.floor(values[column])))
        return branch


def _groups(model: Model, flagged: bool) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Yield the rows of which one variable is 1, or as many as a flag, with their variables."""
    for row, terms in enumerate(model.terms):
        some = [j for j, factor in terms if factor == 1 and model.whole[j] and model.lower[j] == 0]
        flags = [j for j, factor in terms if flagged and factor == -1 and model.upper[j] == 1]
        alike = model.least[row] == model.most[row] == 1 - len(flags)
        if alike and len(some) > 2 and len(flags) < 2 and len(some) + len(flags) == len(terms):
            yield row, np.array(some)


def _halves(part: Vector, first: bool) -> int:
    """Return how many of a group's variables are in the first half of a branch."""
    if first:
        return 1
    sums = np.cumsum(part)
    most = int(np.flatnonzero(part > WHOLE)[-1])
    least = int(np.flatnonzero(part > WHOLE)[0]) + 1
    middle = int(np.abs(sums[:-1] - sums[-1] / 2).argmin()) + 1
    return max(least, min(middle, most))


class Relaxation:
    """Solves the linear relaxation over boxes, each time `within` a limit."""

    def __init__(self, model: Model, within: Callable[[], float] = _endless) -> None:
        columns = len(model.whole)
        self.model, self.within = model, within
        self.whole = np.array(model.whole)
        self.cost = np.zeros(columns)
        for variable, factor in model.objective:
            self.cost[variable] = factor
        self.unit = float(np.abs(self.cost).max(initial=1.0))
        numbers = [[float(factor) for _, factor in terms] for terms in model.terms]
        self.scales = (
            np.array([max(map(abs, row)) * min(map(abs, row)) if row else 1.0 for row in numbers])
            ** -0.5
        )
        least = np.array([-np.inf if one is None else float(one) for one in model.least])
        most = np.array([np.inf if one is None else float(one) for one in model.most])
        kinds = (least == most, least == -np.inf, most == np.inf)
        equal, above, below = (np.flatnonzero(kind) for kind in kinds)
        ends = np.cumsum([0, *map(len, numbers)])
        rows = csr_array(
            (
                np.concatenate([*numbers, []]) * np.repeat(self.scales, np.diff(ends)),
                np.array([j for terms in model.terms for j, _ in terms], dtype=np.int64),
                ends,
            ),
            shape=(len(numbers), columns),
        )
        self.order = np.append(above, below), equal
        self.signs = np.append(np.ones(len(above)), -np.ones(len(below)))
        self.at_most = vstack([rows[above], -rows[below]], format="csr")
        self.limits = np.append(most[above], -least[below]) * self.scales[self.order[0]]
        self.equal = rows[equal]
        self.values = least[equal] * self.scales[equal]

    def optimum(self, limit_s: float) -> int | None:
        """Return what the best point of whole numbers that HiGHS finds costs, in integers."""
        if limit_s <= 0:
            return None
        lower = [-np.inf if one is None else float(one) for one in self.model.lower]
        upper = [np.inf if one is None else float(one) for one in self.model.upper]
        node = NODE_WORK * (self.at_most.nnz + self.equal.nnz + len(self.scales) + 1)
        options: Any = {"mip_rel_gap": 0.0}
        if (seconds := solving_clock().seconds_for(limit_s)) != np.inf:
            options["time_limit"] = seconds
        if counts_work():
            if limit_s < ROOT_NODES * node:
                return None
            options["node_limit"] = int(limit_s / node) - ROOT_NODES + 1
        found = milp(
            self.cost / self.unit,
            integrality=self.whole,
            bounds=Bounds(np.array(lower), np.array(upper)),
            constraints=[
                (self.at_most, -np.inf, self.limits),
                (self.equal, self.values, self.values),
            ],
            options=options,
        )
        spend((ROOT_NODES + (found.get("mip_node_count") or 0)) * node)
        values: Vector | None = found.x
        if values is None:
            return None
        return sum(factor * round(float(values[j])) for j, factor in self.model.objective)

    def solved(self, lower: Vector, upper: Vector, why: bool = True) -> Relaxed:
        """Return the relaxation's cost and multipliers over a box; `why` where it is empty."""
        bounds = np.stack(
            [np.where(lower <= -1e30, -np.inf, lower), np.where(upper >= 1e30, np.inf, upper)], 1
        )
        found = self._linprog(self.cost / self.unit, self.at_most, self.equal, bounds)
        if found.status == 0:
            duals = self._multipliers(found) * self.unit
            return Relaxed(float(found.fun) * self.unit, found.x, duals)
        if found.status == 2:
            return self._empty(bounds) if why else Relaxed(np.inf, weight=0)
        return Relaxed()

    def _empty(self, bounds: Vector) -> Relaxed:
        """Return multipliers of the least sum of violations: they show that nothing is there."""
        (rows, columns), equal = self.at_most.shape, self.equal.shape[0]
        cost = np.append(np.zeros(columns), np.ones(rows + 2 * equal))
        none = csr_array((rows, 2 * equal))
        at_most = hstack([self.at_most, -eye_array(rows), none], format="csr")
        parts = [self.equal, csr_array((equal, rows)), eye_array(equal), -eye_array(equal)]
        more = np.tile([0.0, np.inf], (rows + 2 * equal, 1))
        all_bounds = np.concatenate([bounds, more])
        found = self._linprog(cost, at_most, hstack(parts, format="csr"), all_bounds)
        if found.status != 0:
            return Relaxed()
        return Relaxed(np.inf, found.x[:columns], self._multipliers(found), weight=0)

    def _linprog(self, cost: Vector, at_most: Any, equal: Any, bounds: Vector) -> Any:
        some, same = at_most.shape[0] > 0, equal.shape[0] > 0
        sides: Any = (self.limits if some else None, self.values if same else None)
        pivot = PIVOT_WORK * (at_most.nnz + equal.nnz + at_most.shape[0] + equal.shape[0] + 1)
        options: Any = {"presolve": False}
        left = self.within()
        if (seconds := solving_clock().seconds_for(left)) != np.inf:
            options["time_limit"] = max(0.0, seconds)
        if counts_work() and left != np.inf:
            options["maxiter"] = max(1, int(left / pivot))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of columns without an upper bound, say
            found = linprog(
                cost,
                A_ub=at_most if some else None,
                b_ub=sides[0],
                A_eq=equal if same else None,
                b_eq=sides[1],
                bounds=cast(Any, bounds),
                method="highs-ds",
                options=options,
            )
        spend(RELAXATION_WORK + found.nit * pivot)
        return found

    def _multipliers(self, found: Any) -> Vector:
        """Return a multiplier per row, with the sign that its side asks for."""
        total = np.zeros(len(self.scales))
        sided, equal = self.order
        if len(sided):
            total[sided] = np.minimum(found.ineqlin.marginals, 0) * self.signs
        if len(equal):
            total[equal] = found.eqlin.marginals
        total *= self.scales
        return total
