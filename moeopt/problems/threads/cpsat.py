"""The CP-SAT model: one method per constraint ID."""

from collections.abc import Callable
from typing import Any, ClassVar

from ortools.sat.python import cp_model

from moeopt.core.formulation import Formulation

from .instance import Instance, Solution


class Model(Formulation):
    """One boolean per expert; `Formulation.post` finds the constraint methods by name."""

    # CP-SAT parameters that this model needs, with the reason.
    parameters: ClassVar[dict[str, Any]] = {}
    objective_unit = 1  # ns per unit of the model's objective

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.model = cp_model.CpModel()
        self.kept = [
            self.model.new_bool_var(f"kept[{row}]") for row in range(len(instance.experts))
        ]
        self.cost = sum(
            e.miss_ns * (1 - kept) for e, kept in zip(instance.experts, self.kept, strict=True)
        )
        self.model.minimize(self.cost)

    def th_c1_capacity(self) -> None:
        """Post TH-C1: the kept experts fit into the capacity."""
        sizes = [expert.size_bytes for expert in self.instance.experts]
        used = cp_model.LinearExpr.weighted_sum(self.kept, sizes)
        self.model.add(used <= self.instance.capacity_bytes)

    def th_c2_enough_kept(self) -> None:
        """Post TH-C2: at least min_kept experts are kept."""
        self.model.add(sum(self.kept) >= self.instance.min_kept)

    def start_from(self, solution: Solution, objective: int) -> None:
        """Look for nothing worse than a known solution, starting from it."""
        self.model.add(self.cost <= objective)
        for variable, kept in zip(self.kept, solution.kept, strict=True):
            self.model.add_hint(variable, kept)

    def decode(self, value: Callable[[Any], int]) -> Solution:
        """Read the decision off the solver's values."""
        kept = tuple(bool(value(variable)) for variable in self.kept)
        return Solution(instance=self.instance.name, kept=kept)
