"""The MILP model in PuLP: one method per constraint ID (`formulations/cache/spec.md`)."""

from collections.abc import Callable

import pulp
from pulp import LpAffineExpression, LpVariable

from moeopt.core.formulation import Formulation, float_unit

from .bounds import sides_of
from .instance import Instance, Solution, read_off


class Model(Formulation):
    """Binaries ``gets[l][w]`` and a continuous time of the trace, in microseconds or coarser units.

    Attributes
    ----------
    model
        The PuLP problem; its objective is in units of `objective_unit` ns.
    objective_unit
        ns per unit of the model's objective, as `float_unit` chooses it.
    """

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        sides = sides_of(instance)
        self.compute_ns, self.copy_ns = sides.compute_ns.tolist(), sides.copy_ns.tolist()
        longest = max(side.max(axis=1).sum() for side in (sides.compute_ns, sides.copy_ns))
        self.objective_unit = float_unit(int(longest))
        self.model = pulp.LpProblem("cache", pulp.LpMinimize)
        self.gets = [
            [
                self.model.add_variable(f"gets_{layer}_{w}", cat="Binary")
                for w in range(instance.experts + 1)
            ]
            for layer in range(instance.layers)
        ]
        self.trace = self.model.add_variable("trace", lowBound=0)
        self.model.setObjective(self.trace + 0)

    def ca_c1_one_number(self) -> None:
        """Post CA-C1: each layer has one number of ways."""
        for layer, gets in enumerate(self.gets):
            self.model += pulp.lpSum(gets) == 1, f"CA_C1_{layer}"

    def ca_c2_slots(self) -> None:
        """Post CA-C2: the ways of all layers sum to at most slots."""
        used = self._sum([list(range(len(gets))) for gets in self.gets], 1)
        self.model += used <= self.instance.slots, "CA_C2"

    def ca_c3_layers(self) -> None:
        """Post CA-C3: the times of all layers sum to at most the trace's time."""
        self.model += self._sum(self.compute_ns, self.objective_unit) <= self.trace, "CA_C3"

    def ca_c4_fetches(self) -> None:
        """Post CA-C4: the fetches take at most the trace's time."""
        self.model += self._sum(self.copy_ns, self.objective_unit) <= self.trace, "CA_C4"

    def start_from(self, solution: Solution, objective: int) -> None:
        """Look for nothing worse than a known solution; the caller keeps that one.

        A millionth is added: a bound that just fits makes solvers in floats call it infeasible.
        """
        self.trace.upBound = objective * (1 + 1e-6) / self.objective_unit

    def decode(self, value: Callable[[LpVariable], int]) -> Solution:
        """Read the decision off the solver's values."""
        return read_off(self.instance.name, self.gets, value)

    def _sum(self, factors: list[list[int]], unit: int) -> LpAffineExpression:
        return pulp.LpAffineExpression(
            (variable, factor / unit)
            for gets, row in zip(self.gets, factors, strict=True)
            for variable, factor in zip(gets, row, strict=True)
        )
