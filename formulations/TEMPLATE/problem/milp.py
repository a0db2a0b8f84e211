"""The MILP model in PuLP: the same IDs."""

from collections.abc import Callable
from typing import Any

import pulp

from moeopt.core.formulation import Formulation, float_unit

from .instance import Instance, Solution


class Model(Formulation):
    """One binary per expert; costs in units that suit a solver's absolute tolerances."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.objective_unit = float_unit(sum(expert.miss_ns for expert in instance.experts))
        self.model = pulp.LpProblem("TEMPLATE", pulp.LpMinimize)
        self.kept = [
            self.model.add_variable(f"kept_{row}", cat="Binary")
            for row in range(len(instance.experts))
        ]
        self.cost = pulp.lpSum(
            e.miss_ns / self.objective_unit * (1 - kept)
            for e, kept in zip(instance.experts, self.kept, strict=True)
        )
        self.model.setObjective(self.cost)

    def tm_c1_capacity(self) -> None:
        """Post TM-C1: the kept experts fit into the capacity."""
        sizes = (expert.size_bytes for expert in self.instance.experts)
        used = pulp.LpAffineExpression(zip(self.kept, sizes, strict=True))
        self.model += used <= self.instance.capacity_bytes, "TM_C1"

    def tm_c2_enough_kept(self) -> None:
        """Post TM-C2: at least min_kept experts are kept."""
        self.model += pulp.lpSum(self.kept) >= self.instance.min_kept, "TM_C2"

    def start_from(self, solution: Solution, objective: int) -> None:
        """Look for nothing worse than a known solution; the caller keeps that one."""
        self.model += self.cost <= objective / self.objective_unit

    def decode(self, value: Callable[[Any], int]) -> Solution:
        """Read the decision off the solver's values."""
        kept = tuple(bool(value(variable)) for variable in self.kept)
        return Solution(instance=self.instance.name, kept=kept)
