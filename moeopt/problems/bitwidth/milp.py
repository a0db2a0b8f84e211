"""The MILP model in PuLP: one method per constraint ID (`formulations/bitwidth/spec.md`)."""

from collections.abc import Callable, Iterable
from itertools import pairwise

import pulp
from pulp import LpAffineExpression, LpVariable

from moeopt.core.formulation import FLOAT_RANGE, Formulation, float_unit

from .instance import Instance, Solution


class Model(Formulation):
    """Binaries ``has[l][e][j]``: expert e of layer l has the j-th width, at most one in any case.

    Attributes
    ----------
    model
        The PuLP problem.
    objective_unit
        Units of loss per unit of the model's objective: 1, where the losses are small enough.
    """

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        largest = instance.largest_loss
        self.objective_unit = 1 if largest <= FLOAT_RANGE else float_unit(largest)
        self.model = pulp.LpProblem("bitwidth", pulp.LpMinimize)
        widths = range(len(instance.bits))
        self.has = [
            [
                [self.model.add_variable(f"has_{row}_{e}_{j}", cat="Binary") for j in widths]
                for e in range(len(layer.experts))
            ]
            for row, layer in enumerate(instance.layers)
        ]
        self.loss = pulp.LpAffineExpression(
            (variable, loss / self.objective_unit)
            for layer, has in zip(instance.layers, self.has, strict=True)
            for expert, of in zip(layer.experts, has, strict=True)
            for variable, loss in zip(of, expert.loss, strict=True)
        )
        self.model.setObjective(self.loss)
        for row, layer in enumerate(self.has):
            for e, of in enumerate(layer):
                self.model += pulp.lpSum(of) <= 1, f"at_most_one_{row}_{e}"

    def bw_c1_one_width(self) -> None:
        """Post BW-C1: every expert has exactly one of the widths."""
        for row, layer in enumerate(self.has):
            for e, expert in enumerate(layer):
                self.model += pulp.lpSum(expert) == 1, f"BW_C1_{row}_{e}"

    def bw_c2_layer_budgets(self) -> None:
        """Post BW-C2: the widths of a layer sum to at most its budget, where it has one."""
        for row, (layer, budget) in enumerate(
            zip(self.has, self.instance.layer_budgets, strict=True)
        ):
            if budget is not None:
                self.model += self._bits([layer]) <= budget, f"BW_C2_{row}"

    def bw_c3_model_budget(self) -> None:
        """Post BW-C3: all widths sum to at most the model's budget, where it has one."""
        if self.instance.model_budget_bits is not None:
            self.model += self._bits(self.has) <= self.instance.model_budget_bits, "BW_C3"

    def bw_c4_granularity(self) -> None:
        """Post BW-C4: experts that the granularity ties together have the same width."""
        if self.instance.granularity == "expert":
            return
        for row, layer in enumerate(self.has):
            self._tie(layer, f"BW_C4_{row}")
        if self.instance.granularity == "model":
            self._tie([layer[0] for layer in self.has], "BW_C4_layers")

    def bw_c5_min_count(self) -> None:
        """Post BW-C5: in every layer enough experts have the widths that min_count names."""
        for column, width in enumerate(self.instance.bits):
            least = self.instance.min_count.get(width, 0)
            for row, layer in enumerate(self.has if least else ()):
                count = pulp.lpSum(expert[column] for expert in layer)
                self.model += count >= least, f"BW_C5_{row}_{column}"

    def start_from(self, solution: Solution, objective: int) -> None:
        """Look for nothing worse than a known solution; the caller keeps that one."""
        self.model += self.loss <= objective / self.objective_unit

    def decode(self, value: Callable[[LpVariable], int]) -> Solution:
        """Read the decision off the solver's values; an expert without a width gets None."""
        bits = tuple(
            tuple(
                next((w for w, x in zip(self.instance.bits, e, strict=True) if value(x)), None)
                for e in layer
            )
            for layer in self.has
        )
        return Solution(instance=self.instance.name, bits=bits)

    def _bits(self, layers: Iterable[list[list[LpVariable]]]) -> LpAffineExpression:
        return pulp.LpAffineExpression(
            (variable, width)
            for layer in layers
            for expert in layer
            for variable, width in zip(expert, self.instance.bits, strict=True)
        )

    def _tie(self, experts: list[list[LpVariable]], name: str) -> None:
        for number, (first, second) in enumerate(pairwise(experts)):
            for column, (one, other) in enumerate(zip(first, second, strict=True)):
                self.model += one - other == 0, f"{name}_{number}_{column}"
