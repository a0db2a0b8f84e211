"""The residual problem: the experts that reduced-cost fixing leaves open, handed to HiGHS.

Proof. By the Lagrangian relaxation (`relaxation`) the objective is at least a constant plus the
summed costs of the experts on the GPU. So in a placement better than the incumbent that sum is
limited, and `reduced_cost_fixing` tells which experts can be on the GPU then, and which off it.
The program below states the objective over the experts that can be both, with the rest fixed: so
its optimum is the least objective of all improvements, or something above the incumbent if there
is none. A cut per row, cost >= row bound + multipliers of its experts on the GPU, holds for every
placement (`relaxation`); with it the program's linear relaxation is as good as the Lagrangian
bound. HiGHS's bound is in floats and lowered by what they may be off
(`moeopt.core.safe_bound`); it is counted from the sum of what the rows cost in any case, which
keeps that small.
"""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from moeopt.core.formulation import float_unit
from moeopt.core.highs import Program, minimize
from moeopt.problems.placement.layer_steps import Flags, Ints, total_ns

from .local_search import FAR
from .relaxation import Certified, Model, reduced_cost_fixing


@dataclass(frozen=True)
class Residual:
    """Experts that can be on the GPU in an improvement, and those that can be off it."""

    on: Flags
    off: Flags

    @property
    def free(self) -> Flags:
        """Which experts' places are open."""
        return self.on & self.off

    @property
    def sure(self) -> Flags:
        """Which experts are on the GPU in every improvement."""
        return self.on & ~self.off

    @property
    def impossible(self) -> bool:
        """Whether there is no improvement, as some expert can be nowhere."""
        return not bool((self.on | self.off).all())


def residual_of(model: Model, proof: Certified, incumbent_ns: int) -> Residual:
    """Return what is decided in every placement that is better than the incumbent."""
    most = incumbent_ns - model.grid - proof.base_ns
    return Residual(*reduced_cost_fixing(proof.cost_ns, model.capacity, most))


def solve_residual(
    model: Model,
    residual: Residual,
    proof: Certified,
    incumbent_ns: int,
    limit_s: float,
    verify: bool = False,
    max_nodes: int | None = None,
) -> tuple[int, Flags | None]:
    """Return a lower bound on the objective, at most the incumbent's, and a placement if found.

    With `verify` HiGHS's bound, which is in floats, counts for nothing: CP-SAT goes on from there.
    """
    if residual.impossible:
        return incumbent_ns, None
    rows = _Program(model, residual, proof)
    if rows.base_ns >= incumbent_ns:
        return incumbent_ns, None
    if not residual.free.any():  # the one placement that is left
        allows = model.capacity.allows(residual.sure)
        return (rows.base_ns, residual.sure) if allows else (incumbent_ns, None)
    found = minimize(rows.program(), limit_s, max_nodes=max_nodes)
    bound_ns = rows.base_ns
    if not verify:
        if found.status == "infeasible":
            return incumbent_ns, None
        bound_ns += max(0, found.safe_bound(rows.unit) or 0)
    held = None
    if found.values is not None:
        held = residual.sure
        held[residual.free] = found.values[: int(residual.free.sum())] > 0.5
        if not model.capacity.allows(held):
            held = None
    return min(bound_ns, incumbent_ns), held


class _Program:
    """The program, row by row: columns are free experts, then per open row its time and charge.

    Where dispatch is free and can help, a row has a column more for each of its experts that can be
    on the GPU: whether the GPU computes it.
    """

    def __init__(self, model: Model, residual: Residual, proof: Certified) -> None:
        self.model, self.residual, self.proof = model, residual, proof
        self.sure = residual.sure
        self.column = np.full(self.sure.shape, -1)
        self.column[residual.free] = np.arange(int(residual.free.sum()))
        self.columns = int(residual.free.sum())
        self.cost: list[float] = [0.0] * self.columns
        self.entries: list[tuple[int, int, float]] = []
        self.lower: list[float] = []
        self.upper: list[float] = []
        self.runs: list[int] = []
        self.base_ns = 0
        self.unit = float_unit(total_ns(model.layers, self.sure | residual.free, model.fixed_ns))
        for layer in range(len(model.layers)):
            self._add_layer(layer)

    def program(self) -> Program:
        """Return the arrays, with the rows about slots and counts."""
        capacity, free = self.model.capacity, self.residual.free
        sizes = capacity.sizes[free].astype(float)
        used = int(capacity.sizes[self.sure].sum())
        taken = list(zip(range(len(sizes)), sizes.tolist(), strict=True))
        self._row(taken, capacity.least - used, capacity.most - used)
        if capacity.restriction == "equal-counts":
            self._equal_counts()
        rows, columns, data = zip(*self.entries, strict=True) if self.entries else ((), (), ())
        count = len(self.cost)
        binary = int(free.sum())
        integer = np.zeros(count, dtype=np.int64)
        integer[[*range(binary), *self.runs]] = 1
        upper = np.where(integer == 1, 1, np.inf)
        return Program(
            cost=np.array(self.cost),
            lower=np.zeros(count),
            upper=upper,
            integer=integer,
            rows=csr_array((data, (rows, columns)), shape=(len(self.lower), count)),
            row_lower=np.array(self.lower),
            row_upper=np.array(self.upper),
        )

    def _add_layer(self, layer: int) -> None:
        of, fixed = self.model.layers[layer], self.model.fixed_ns
        gpu, off, _ = of.sums(self.sure[layer, of.expert])
        open_entry = self.column[layer, of.expert] >= 0
        dispatched = self._dispatched_rows(layer)
        given_up = np.bincount(of.row[open_entry], of.offload_ns[open_entry], of.rows)
        off -= given_up.astype(np.int64)
        lost = ~open_entry & ~self.sure[layer, of.expert]
        charged = np.bincount(of.row[lost], minlength=of.rows) > 0
        least = np.maximum(gpu, off + fixed * charged)
        if dispatched.any():
            least = self._add_dispatched(layer, dispatched, least)
        self.base_ns += int((of.weight * least).sum())
        for row in np.flatnonzero(~dispatched).tolist():
            part = slice(of.start[row], of.start[row + 1])
            entries = np.flatnonzero(open_entry[part]) + int(of.start[row])
            if len(entries):
                places = (entries, int(gpu[row]), int(off[row]), int(least[row]))
                self._add_row(layer, row, bool(charged[row]), *places)

    def _add_row(
        self, layer: int, row: int, charged: bool, entries: Ints, gpu: int, off: int, least: int
    ) -> None:
        of, fixed, unit = self.model.layers[layer], self.model.fixed_ns, self.unit
        columns = self.column[layer, of.expert[entries]].tolist()
        time = self._new(float(of.weight[row]))
        on_gpu = (of.gpu_ns[entries] / unit).tolist()
        self._row([*zip(columns, on_gpu, strict=True), (time, -1.0)], -np.inf, (least - gpu) / unit)
        self._cut(layer, row, columns, entries, time, least)
        saved = (-of.offload_ns[entries] / unit).tolist()
        terms = [*zip(columns, saved, strict=True), (time, -1.0)]
        most = least - off - int(of.offload_ns[entries].sum())
        if charged:
            most -= fixed
        elif fixed:
            charge = self._new(0.0)
            terms.append((charge, fixed / unit))
            for column in columns:
                self._row([(column, 1.0), (charge, 1.0)], 1.0, np.inf)
        self._row(terms, -np.inf, most / unit)

    def _dispatched_rows(self, layer: int) -> Flags:
        """Return in which rows the other side could be right to compute experts on the GPU.

        It is not where the GPU, with all experts that can be on it, is later than those that cannot
        by no more than what the shortest of its experts takes there, charge included.
        """
        of = self.model.layers[layer]
        if not of.free_dispatch:
            return np.zeros(of.rows, dtype=bool)
        able = (self.residual.on[layer])[of.expert]
        gpu, off, _ = of.sums(able)
        shortest = np.full(of.rows, FAR)
        np.minimum.at(shortest, of.row[able], of.offload_ns[able])
        helps: Flags = gpu > off + self.model.fixed_ns + shortest
        return helps

    def _add_dispatched(self, layer: int, rows: Flags, least: Ints) -> Ints:
        """Add the rows in which dispatch is open; return what each row costs in any case."""
        of, fixed = self.model.layers[layer], self.model.fixed_ns
        able, is_open = self.residual.on[layer, of.expert], self.column[layer, of.expert] >= 0
        _, off, lost = of.sums(able)
        least = np.where(rows, off + fixed * (lost > 0), least)
        settled = rows & (np.bincount(of.row[is_open], minlength=of.rows) == 0)
        if settled.any() and of.dispatch_proven(self.sure[layer], fixed):
            gpu, away, count = of.sums(of.computed(self.sure[layer], fixed))
            least = np.where(settled, np.maximum(gpu, away + fixed * (count > 0)), least)
            rows = rows & ~settled
        for row in np.flatnonzero(rows).tolist():
            entries = np.flatnonzero(able[of.start[row] : of.start[row + 1]]) + int(of.start[row])
            self._add_dispatched_row(layer, row, entries, int(off[row]), int(least[row]))
        return least

    def _add_dispatched_row(
        self, layer: int, row: int, entries: Ints, off: int, least: int
    ) -> None:
        of, fixed, unit = self.model.layers[layer], self.model.fixed_ns, self.unit
        time = self._new(float(of.weight[row]))
        runs = [self._new(0.0) for _ in entries]
        self.runs += runs
        on_gpu = (of.gpu_ns[entries] / unit).tolist()
        self._row([*zip(runs, on_gpu, strict=True), (time, -1.0)], -np.inf, least / unit)
        saved = (-of.offload_ns[entries] / unit).tolist()
        terms = [*zip(runs, saved, strict=True), (time, -1.0)]
        most = least - off - int(of.offload_ns[entries].sum())
        if len(entries) < of.start[row + 1] - of.start[row]:
            most -= fixed
        elif fixed:
            charge = self._new(0.0)
            terms.append((charge, fixed / unit))
            for column in runs:
                self._row([(column, 1.0), (charge, 1.0)], 1.0, np.inf)
        self._row(terms, -np.inf, most / unit)
        for column, place in zip(runs, self.column[layer, of.expert[entries]], strict=True):
            if place >= 0:
                self._row([(column, 1.0), (int(place), -1.0)], -np.inf, 0.0)
        paid = (self.proof.multipliers[layer][entries] / unit).tolist()
        bound = int(self.proof.row_bounds[layer][row]) // self.model.scale
        self._row([*zip(runs, paid, strict=True), (time, -1.0)], -np.inf, (least - bound) / unit)

    def _cut(
        self, layer: int, row: int, columns: list[int], entries: Ints, time: int, least: int
    ) -> None:
        """Add what the multipliers prove of a row."""
        of, multiplier = self.model.layers[layer], self.proof.multipliers[layer]
        part = slice(of.start[row], of.start[row + 1])
        paid = int(multiplier[part][self.sure[layer, of.expert[part]]].sum())
        bound = int(self.proof.row_bounds[layer][row]) // self.model.scale
        terms = [
            *zip(columns, (multiplier[entries] / self.unit).tolist(), strict=True),
            (time, -1.0),
        ]
        self._row(terms, -np.inf, (least - bound - paid) / self.unit)

    def _equal_counts(self) -> None:
        counts = [
            ([(int(c), 1.0) for c in row[row >= 0]], int(sure.sum()))
            for row, sure in zip(self.column, self.sure, strict=True)
        ]
        first, of_first = counts[0]
        for terms, sure in counts[1:]:
            both = [*terms, *((column, -1.0) for column, _ in first)]
            self._row(both, of_first - sure, of_first - sure)

    def _new(self, cost: float) -> int:
        self.cost.append(cost)
        return len(self.cost) - 1

    def _row(self, terms: list[tuple[int, float]], lower: float, upper: float) -> None:
        self.entries += [(len(self.lower), column, factor) for column, factor in terms]
        self.lower.append(lower)
        self.upper.append(upper)
