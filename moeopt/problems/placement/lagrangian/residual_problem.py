"""The residual problem: the experts that reduced-cost fixing leaves open, handed to CP-SAT.

Proof. By the Lagrangian relaxation (`relaxation`) the objective is at least a constant plus the
summed costs of the experts on the GPU. So in a placement better than the incumbent that sum is
limited, and `reduced_cost_fixing` tells which experts can be on the GPU then, and which off it. A
model with variables for the others alone, and the objective below the incumbent's, has just the
improvements as solutions. A cut per row, time >= row bound + multipliers of its experts on the GPU,
holds for every placement (`relaxation`); with it the model's linear relaxation is as good as the
Lagrangian bound. All is in integers.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from moeopt.problems.placement.layer_steps import Flags, Ints

from .relaxation import Model, Relaxed, reduced_cost_fixing

if TYPE_CHECKING:
    from moeopt.core.formulation import IntVar, LinearExpr


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


def residual_of(model: Model, proof: Relaxed, incumbent_ns: int) -> Residual:
    """Return what is decided in every placement that is better than the incumbent."""
    most = incumbent_ns - model.grid - proof.base_ns
    return Residual(*reduced_cost_fixing(proof.cost_ns, model.capacity, most))


def solve_residual(
    model: Model,
    residual: Residual,
    proof: Relaxed,
    incumbent_ns: int,
    limit_s: float,
    stopped: Callable[[], bool] = lambda: False,
    enough_gap: float = 0.0,
) -> tuple[int, Flags | None]:
    """Return a lower bound on the objective, at most the incumbent's, and a placement if found.

    CP-SAT ends where its own bound and placement are within `enough_gap` of each other.
    """
    from moeopt.core.cpsat import Run

    if residual.impossible:
        return incumbent_ns, None
    built = _OpenPart(model, residual, proof)
    if not built.posted(stopped):
        return 0, None
    built.model.add(built.total <= (incumbent_ns - 1) // model.grid)
    options = {"linearization_level": 2, "relative_gap_limit": enough_gap}
    answer = Run(built.model, limit_s, options=options).solve()
    if answer.status == "infeasible":
        return incumbent_ns, None
    held = None
    if answer.found:
        held = residual.sure.copy()
        for place, on in built.on.items():
            held[place] = answer.value(on)
    bound_ns = (answer.bound or 0) * model.grid
    return min(max(0, bound_ns), incumbent_ns), held


class _OpenPart:
    """The model of the experts whose places are open, and of the rows in which they have tokens.

    Attributes
    ----------
    on
        By layer and expert, whether an open one is on the GPU.
    total
        The objective in units of `Model.grid`, rows without anything open included.
    """

    def __init__(self, of: Model, residual: Residual, proof: Relaxed) -> None:
        from moeopt.core.formulation import cp_model

        self.of, self.residual, self.proof = of, residual, proof
        self.model = cp_model.CpModel()
        self.weighted_sum = cp_model.LinearExpr.weighted_sum
        places = [(layer, expert) for layer, expert in np.argwhere(residual.free).tolist()]
        self.on = {place: self.model.new_bool_var(f"on{place}") for place in places}
        self.total: LinearExpr = 0

    def posted(self, stopped: Callable[[], bool]) -> bool:
        """Post limits and rows, and the objective; return False if stopped before the end."""
        of, free, sure = self.of, self.residual.free, self.residual.sure
        sizes = of.capacity.sizes
        used = self.weighted_sum([*self.on.values()], sizes[free].tolist()) + int(sizes[sure].sum())
        self.model.add_linear_constraint(used, of.capacity.least, of.capacity.most)
        if of.capacity.restriction == "equal-counts":
            same = self.model.new_int_var(0, sizes.shape[1], "count")
            for layer, held in enumerate(sure):
                own = [on for (at, _), on in self.on.items() if at == layer]
                self.model.add(sum(own) + int(held.sum()) == same)
        times, weights, known = [], [], 0
        for layer, steps in enumerate(of.layers):
            if stopped():
                return False
            for row, weight in enumerate(steps.weight.tolist()):
                found = self._time(layer, row)
                if isinstance(found, int):
                    known += weight * found
                else:
                    times.append(found)
                    weights.append(weight)
        self.total = self.weighted_sum(times, weights) + known
        self.model.minimize(self.total)
        return True

    def _time(self, layer: int, row: int) -> "IntVar | int":
        """Return the time of a row, or a variable for it; both in units."""
        of, steps = self.of, self.of.layers[layer]
        part = slice(steps.start[row], steps.start[row + 1])
        gpu, off = (ns[part] // of.grid for ns in (steps.gpu_ns, steps.offload_ns))
        experts, fixed = steps.expert[part], of.fixed_ns // of.grid
        free, sure = self.residual.free[layer, experts], self.residual.sure[layer, experts]
        runs, is_open = self._runs(layer, row, experts)
        on, away = sure & ~is_open, ~free & ~sure
        on_gpu, elsewhere = int(gpu[on].sum()), int(off[away].sum())
        if not runs:
            return max(on_gpu, elsewhere + fixed * bool(away.any()))
        longest = int(gpu.sum() + off.sum()) + fixed
        time = self.model.new_int_var(0, longest, f"time[{layer},{row}]")
        not_run = [1 - run for run in runs]
        charge: LinearExpr = fixed
        if fixed and not away.any():
            charged = self.model.new_bool_var(f"charged[{layer},{row}]")
            charge = fixed * charged
            for run in runs:
                self.model.add_bool_or(run, charged)
        self.model.add(self.weighted_sum(runs, gpu[is_open].tolist()) + on_gpu <= time)
        given = self.weighted_sum(not_run, off[is_open].tolist()) + elsewhere + charge
        self.model.add(given <= time)
        paid = self.proof.multipliers[layer][part]
        least = int(self.proof.row_bounds[layer][row]) // of.scale + int(paid[on].sum())
        self.model.add(of.grid * time >= self.weighted_sum(runs, paid[is_open].tolist()) + least)
        return time

    def _runs(self, layer: int, row: int, experts: Ints) -> tuple[list["IntVar"], Flags]:
        """Return variables for what the GPU may run or not, and the entries that have one."""
        free, sure = self.residual.free[layer, experts], self.residual.sure[layer, experts]
        if not self.of.free_dispatch:
            return [self.on[layer, e] for e in experts[free].tolist()], free
        runs = []
        for e in experts[free | sure].tolist():
            runs.append(self.model.new_bool_var(f"runs[{layer},{row},{e}]"))
            if (layer, e) in self.on:
                self.model.add_implication(runs[-1], self.on[layer, e])
        return runs, free | sure
