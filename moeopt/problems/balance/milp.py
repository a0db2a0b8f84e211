"""The MILP model in PuLP, with the flow shop in closed form: one method per constraint ID.

It has rows of its own: of 13 library instances HiGHS closes 11 in 8 s with these, and 3 with those
of the CP-SAT model, whose bounds are down to a fifth of the optimum on the others.
"""

from collections.abc import Callable

import pulp
from pulp import LpAffineExpression, LpVariable

from moeopt.core.formulation import Formulation, float_unit

from .instance import Instance, Solution


class Model(Formulation):
    """Counts ``taken[e][u]`` and a continuous makespan, in microseconds or coarser units.

    Attributes
    ----------
    model
        The PuLP problem; its objective is in units of `objective_unit` ns.
    objective_unit
        ns per unit of the model's objective, as `float_unit` chooses it.
    """

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.objective_unit = float_unit(instance.horizon_ns)
        self.model = pulp.LpProblem("balance", pulp.LpMinimize)
        # Twice what a unit holds, so that BA-C1 has something to forbid.
        self.taken = [
            [
                self.model.add_variable(
                    f"taken_{row}_{unit}", 0, 2 * instance.slices_per_unit, cat="Integer"
                )
                for unit in range(instance.ndp_units)
            ]
            for row in range(len(instance.experts))
        ]
        self.makespan = self.model.add_variable("makespan", lowBound=0)
        self.model.setObjective(self.makespan + 0)

    def ba_c1_units_hold_their_slices(self) -> None:
        """Post BA-C1: at most the slices that a unit holds."""
        for row, counts in enumerate(self.taken):
            for unit, count in enumerate(counts):
                self.model += count <= self.instance.slices_per_unit, f"BA_C1_{row}_{unit}"

    def ba_c2_gpu_side(self) -> None:
        """Post BA-C2: the three sums of the closed form (spec, "Flow shop in closed form").

        ``pulled[e]`` is 1 if a slice of a non-resident expert is taken, ``last[e]`` marks one of
        those whose slice is computed last.
        """
        transfer = self._units(self.instance.slice_transfer_ns)
        rows = range(len(self.instance.experts))
        away = [row for row in rows if not self.instance.experts[row].resident]
        overhead = self._units(self.instance.gpu_overhead_ns) * self._remains("gpu")
        work = {
            row: pulp.lpSum(self.taken[row]) * self._units(self.instance.experts[row].slice_gpu_ns)
            for row in rows
        }
        self.model += pulp.lpSum(work.values()) + overhead <= self.makespan, "BA_C2_gpu"
        for row in rows:
            self.model += pulp.lpSum(self.taken[row]) <= self.instance.slices, f"BA_C2_all_{row}"
        if not away:
            return
        pulled = [self.model.add_variable(f"pulled_{row}", cat="Binary") for row in away]
        last = [self.model.add_variable(f"last_{row}", cat="Binary") for row in away]
        some = self.model.add_variable("some", cat="Binary")
        for row, flag, chosen in zip(away, pulled, last, strict=True):
            most = self.instance.slices * flag
            self.model += pulp.lpSum(self.taken[row]) <= most, f"BA_C2_pulled_{row}"
            self.model += flag <= some, f"BA_C2_some_{row}"
            self.model += chosen <= pulp.lpSum(self.taken[row]), f"BA_C2_last_{row}"
        self.model += pulp.lpSum(last) == some, "BA_C2_one_last"
        needed = pulp.lpSum(work[row] for row in away)
        self.model += transfer * some + needed + overhead <= self.makespan, "BA_C2_first"
        sent = transfer * pulp.lpSum(self.taken[row] for row in away)
        shortest = pulp.lpSum(
            self._units(self.instance.experts[row].slice_gpu_ns) * chosen
            for row, chosen in zip(away, last, strict=True)
        )
        self.model += sent + shortest + overhead <= self.makespan, "BA_C2_link"

    def ba_c3_ndp_side(self) -> None:
        """Post BA-C3: each unit computes what it keeps."""
        overhead = self._units(self.instance.ndp_overhead_ns) * self._remains("ndp")
        for unit in range(self.instance.ndp_units):
            kept = pulp.lpSum(
                self._units(expert.slice_ndp_ns)
                * (self.instance.slices_per_unit - self.taken[row][unit])
                for row, expert in enumerate(self.instance.experts)
            )
            self.model += kept + overhead <= self.makespan, f"BA_C3_{unit}"

    def start_from(self, solution: Solution, objective: int) -> None:
        """Look for nothing worse than a known solution; the caller keeps that one."""
        self.makespan.upBound = objective / self.objective_unit

    def decode(self, value: Callable[[LpVariable], int]) -> Solution:
        """Read the decision off the solver's values."""
        rows = tuple(tuple(value(count) for count in counts) for counts in self.taken)
        return Solution(instance=self.instance.name, gpu_slices=rows)

    def _remains(self, side: str) -> LpAffineExpression:
        """Return a binary that is 1 if a unit keeps a slice; each side has its own."""
        remains = self.model.add_variable(f"remains_{side}", cat="Binary")
        most = self.instance.slices_per_unit
        for row, counts in enumerate(self.taken):
            for unit, count in enumerate(counts):
                name = f"remains_{side}_{row}_{unit}"
                self.model += count + most * remains >= most, name
        return remains

    def _units(self, duration_ns: int) -> float:
        return duration_ns / self.objective_unit
