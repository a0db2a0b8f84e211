"""The CP-SAT model: one method per constraint ID (`formulations/cache/spec.md`)."""

from collections.abc import Callable
from typing import ClassVar

from moeopt.core.formulation import Formulation, IntVar, LinearExpr, cp_model, first_of

from .bounds import objective_grid
from .instance import Instance, Solution


class Model(Formulation):
    """Booleans ``gets[l][w]`` and the trace's time, counted in steps of the costs' divisor.

    Misses and times of every layer at every number of ways are computed beforehand.

    Attributes
    ----------
    model
        The CP-SAT model; its objective is in units of `objective_unit` ns.
    objective_unit
        ns per unit of the model's objective.
    """

    # As in other makespan models: CP-SAT on one worker does not put the sums into its linear
    # relaxation unless told to.
    parameters: ClassVar = {"linearization_level": 2}

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.objective_unit = objective_grid(instance)
        self.model = cp_model.CpModel()
        counts = range(instance.experts + 1)
        self.gets = [
            [self.model.new_bool_var(f"gets[{layer},{w}]") for w in counts]
            for layer in range(instance.layers)
        ]
        curves = instance.curves
        self.layer_steps = curves.layer_ns // self.objective_unit
        self.fetch_steps = curves.fetches * (instance.fetch_ns // self.objective_unit)
        horizon = self.layer_steps.max(axis=1).sum() + self.fetch_steps.max(axis=1).sum()
        self.trace = self.model.new_int_var(0, int(horizon), "trace")
        self.model.minimize(self.trace)

    def ca_c1_one_number(self) -> None:
        """Post CA-C1: each layer has one number of ways."""
        for gets in self.gets:
            self.model.add_exactly_one(gets)

    def ca_c2_slots(self) -> None:
        """Post CA-C2: the ways of all layers sum to at most slots."""
        counts = [list(range(len(gets))) for gets in self.gets]
        self.model.add(self._sum(counts) <= self.instance.slots)

    def ca_c3_layers(self) -> None:
        """Post CA-C3: the times of all layers sum to at most the trace's time."""
        self.model.add(self._sum(self.layer_steps.tolist()) <= self.trace)

    def ca_c4_fetches(self) -> None:
        """Post CA-C4: the fetches take at most the trace's time."""
        self.model.add(self._sum(self.fetch_steps.tolist()) <= self.trace)

    def start_from(self, solution: Solution, objective: int) -> None:
        """Look for nothing worse than a known solution, starting from it."""
        self.model.add(self.trace <= objective // self.objective_unit)
        for gets, ways in zip(self.gets, solution.ways, strict=True):
            for w, variable in enumerate(gets):
                self.model.add_hint(variable, w == ways)

    def decode(self, value: Callable[[IntVar], int]) -> Solution:
        """Read the decision off the solver's values."""
        ways = tuple(first_of(gets, value) for gets in self.gets)
        return Solution(instance=self.instance.name, ways=ways)

    def _sum(self, factors: list[list[int]]) -> LinearExpr:
        variables = [variable for gets in self.gets for variable in gets]
        flat = [factor for row in factors for factor in row]
        return cp_model.LinearExpr.weighted_sum(variables, flat)
