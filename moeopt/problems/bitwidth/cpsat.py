"""The CP-SAT model: one method per constraint ID (`formulations/bitwidth/spec.md`)."""

from collections.abc import Callable
from itertools import pairwise
from typing import ClassVar

from moeopt.core.errors import InputError
from moeopt.core.formulation import Formulation, IntVar, LinearExpr, cp_model, first_of
from moeopt.core.rows import take_out_divisor

from .instance import Instance, Solution

LARGEST = 2**60
"""CP-SAT rejects numbers near 2**62."""


class Model(Formulation):
    """Booleans ``has[l][e][j]``: expert e of layer l has the j-th width, at most one in any case.

    Attributes
    ----------
    model
        The CP-SAT model.
    objective_unit
        1: the objective is the summed loss itself.

    Raises
    ------
    InputError
        If the losses together do not fit into CP-SAT's integers.
    """

    # BW-C1 belongs to the relaxation: see the spec
    parameters: ClassVar[dict[str, object]] = {"linearization_level": 2}
    objective_unit = 1

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        if sum(sum(e.loss) for layer in instance.layers for e in layer.experts) > LARGEST:
            raise InputError("cp-sat: the losses sum to more than 2**60; method dp goes further")
        self.model = cp_model.CpModel()
        self.has = [
            [
                [self.model.new_bool_var(f"has[{row},{e},{j}]") for j in range(len(instance.bits))]
                for e in range(len(layer.experts))
            ]
            for row, layer in enumerate(instance.layers)
        ]
        for layer in self.has:
            for expert in layer:
                self.model.add_at_most_one(expert)
        self.model.minimize(
            cp_model.LinearExpr.weighted_sum(
                [x for layer in self.has for expert in layer for x in expert],
                [loss for layer in instance.layers for e in layer.experts for loss in e.loss],
            )
        )

    def bw_c1_one_width(self) -> None:
        """Post BW-C1: every expert has exactly one of the widths."""
        for layer in self.has:
            for expert in layer:
                self.model.add_exactly_one(expert)

    def bw_c2_layer_budgets(self) -> None:
        """Post BW-C2: the widths of a layer sum to at most its budget, where it has one."""
        for layer, budget in zip(self.has, self.instance.layer_budgets, strict=True):
            if budget is not None:
                take_out_divisor(self.model.add(self._bits(layer) <= budget))

    def bw_c3_model_budget(self) -> None:
        """Post BW-C3: all widths sum to at most the model's budget, where it has one."""
        if self.instance.model_budget_bits is not None:
            total = sum(self._bits(layer) for layer in self.has)
            take_out_divisor(self.model.add(total <= self.instance.model_budget_bits))

    def bw_c4_granularity(self) -> None:
        """Post BW-C4: experts that the granularity ties together have the same width."""
        if self.instance.granularity == "expert":
            return
        for layer in self.has:
            self._tie(layer)
        if self.instance.granularity == "model":
            self._tie([layer[0] for layer in self.has])

    def bw_c5_min_count(self) -> None:
        """Post BW-C5: in every layer enough experts have the widths that min_count names."""
        for column, width in enumerate(self.instance.bits):
            least = self.instance.min_count.get(width, 0)
            for layer in self.has if least else ():
                self.model.add(sum(expert[column] for expert in layer) >= least)

    def start_from(self, solution: Solution, objective: int) -> None:
        """Start from a known solution. A limit on the loss would double the time of presolve."""
        for layer, widths in zip(self.has, solution.bits, strict=True):
            for expert, chosen in zip(layer, widths, strict=True):
                for variable, width in zip(expert, self.instance.bits, strict=True):
                    self.model.add_hint(variable, width == chosen)

    def decode(self, value: Callable[[IntVar], int]) -> Solution:
        """Read the decision off the solver's values; an expert without a width gets None."""
        places = [[first_of(expert, value) for expert in layer] for layer in self.has]
        widths = self.instance.bits
        bits = tuple(tuple(None if at is None else widths[at] for at in row) for row in places)
        return Solution(instance=self.instance.name, bits=bits)

    def _bits(self, layer: list[list[IntVar]]) -> LinearExpr:
        variables = [variable for expert in layer for variable in expert]
        return cp_model.LinearExpr.weighted_sum(variables, list(self.instance.bits) * len(layer))

    def _tie(self, experts: list[list[IntVar]]) -> None:
        for first, second in pairwise(experts):
            for one, other in zip(first, second, strict=True):
                self.model.add(one == other)
