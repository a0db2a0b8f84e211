"""The CP-SAT model, with the flow shop in closed form; MILP takes its rows.

One method per constraint ID (`formulations/balance/spec.md`).
"""

from collections.abc import Callable
from typing import ClassVar

from moeopt.core.formulation import Formulation, IntVar, LinearExprT, cp_model

from .bounds import objective_grid
from .instance import Instance, Solution


class Model(Formulation):
    """Counts ``taken[e][u]`` and the makespan, with the flow shop of BA-C2 in closed form.

    No intervals and no order: all transfers are equal, so Johnson's makespan is the largest of
    three sums: the GPU's work; one transfer and the work that needed transfers; all transfers and
    the shortest computation among the slices that were transferred. The proof stands in the spec.
    The sums are rows without conditions, each as tight as a linear relaxation takes it: CP-SAT
    proves with them what it leaves open under conditions.

    Attributes
    ----------
    model
        The CP-SAT model; its objective is in units of `objective_unit` ns.
    objective_unit
        ns per unit of the model's objective.
    """

    parameters: ClassVar[dict[str, object]] = {}
    whole = ("taken",)

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.objective_unit = objective_grid(instance)
        self.model = cp_model.CpModel()
        # Twice what a unit holds, so that BA-C1 has something to forbid.
        self.taken = [
            [
                self.model.new_int_var(0, 2 * instance.slices_per_unit, f"taken[{row},{unit}]")
                for unit in range(instance.ndp_units)
            ]
            for row in range(len(instance.experts))
        ]
        # Without BA-C1 twice what a unit holds can be taken.
        self.horizon = self._steps(2 * instance.horizon_ns)
        self.makespan = self.model.new_int_var(0, self.horizon, "makespan")
        self.model.minimize(self.makespan)

    def ba_c1_units_hold_their_slices(self) -> None:
        """Post BA-C1: at most the slices that a unit holds."""
        for counts in self.taken:
            for count in counts:
                self.model.add(count <= self.instance.slices_per_unit)

    def ba_c2_gpu_side(self) -> None:
        """Post BA-C2: the three sums; ``last`` marks the expert whose slice is computed last."""
        experts = self.instance.experts
        transfer = self._steps(self.instance.slice_transfer_ns)
        compute = [self._steps(expert.slice_gpu_ns) for expert in experts]
        overhead = self._steps(self.instance.gpu_overhead_ns) * self._remains("gpu")
        totals = self._totals()
        away = [row for row, expert in enumerate(experts) if not expert.resident]
        work = [c * total for c, total in zip(compute, totals, strict=True)]
        self.model.add(sum(work) + overhead <= self.makespan)
        for total in totals:
            self.model.add(total <= self.instance.slices)
        if not away:
            return
        some = self.model.new_bool_var("some")
        last = {row: self.model.new_bool_var(f"last[{row}]") for row in away}
        for row, chosen in last.items():
            pulled = self.model.new_bool_var(f"pulled[{row}]")
            self.model.add(totals[row] <= self.instance.slices * pulled)
            self.model.add(pulled <= some)
            self.model.add(chosen <= totals[row])
        self.model.add(sum(last.values()) == some)
        needed = sum(work[row] for row in away)
        self.model.add(transfer * some + needed + overhead <= self.makespan)
        sent = sum(transfer * totals[row] for row in away)
        shortest = sum(compute[row] * chosen for row, chosen in last.items())
        self.model.add(sent + shortest + overhead <= self.makespan)

    def ba_c3_ndp_side(self) -> None:
        """Post BA-C3: each unit computes what it keeps."""
        overhead = self._steps(self.instance.ndp_overhead_ns) * self._remains("ndp")
        for unit in range(self.instance.ndp_units):
            kept = sum(
                self._steps(expert.slice_ndp_ns)
                * (self.instance.slices_per_unit - self.taken[row][unit])
                for row, expert in enumerate(self.instance.experts)
            )
            self.model.add(kept + overhead <= self.makespan)

    def start_from(self, solution: Solution, objective: int) -> None:
        """Look for nothing worse than a known solution; the caller keeps that one."""
        self.model.add(self.makespan <= objective // self.objective_unit)

    def decode(self, value: Callable[[IntVar], int]) -> Solution:
        """Read the decision off the solver's values."""
        rows = tuple(tuple(value(count) for count in counts) for counts in self.taken)
        return Solution(instance=self.instance.name, gpu_slices=rows)

    def _totals(self) -> list[LinearExprT]:
        """Return how many slices of each expert are taken."""
        return [sum(counts) for counts in self.taken]

    def _remains(self, side: str) -> IntVar:
        """Return a literal that is true if a unit keeps a slice."""
        remains = self.model.new_bool_var(f"remains_{side}")
        most = self.instance.slices_per_unit
        for counts in self.taken:
            for count in counts:
                self.model.add(count >= most).only_enforce_if(~remains)
        return remains

    def _steps(self, duration_ns: int) -> int:
        return duration_ns // self.objective_unit
