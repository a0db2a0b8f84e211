"""The MILP model in PuLP: one method per constraint ID (`formulations/placement/spec.md`)."""

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

import numpy as np
import pulp

from moeopt.core.formulation import Formulation, float_unit

from .instance import Instance, Solution, dispatched
from .layer_steps import Ints


class Model(Formulation):
    """Binaries ``on[l][e]``, and by layer and distinct step a time and the charge, from 0 to 1.

    Binaries ``runs[l][r]`` say of each expert of the row whether the GPU computes it: those of
    ``on`` unless dispatch is free.

    Attributes
    ----------
    model
        The PuLP problem; its objective is in units of `objective_unit` ns.
    objective_unit
        ns per unit of the model's objective, as `float_unit` chooses it.
    """

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        sides = [
            int((steps.weight[steps.row] * np.maximum(steps.gpu_ns, steps.offload_ns)).sum())
            + int(steps.weight.sum()) * instance.layer_offload_fixed_ns
            for steps in instance.layer_steps
        ]
        self.objective_unit = float_unit(sum(sides))
        self.model = pulp.LpProblem("placement", pulp.LpMinimize)
        self.on = [
            [
                self.model.add_variable(f"on_{layer}_{e}", cat="Binary")
                for e in range(instance.experts)
            ]
            for layer in range(instance.layers)
        ]
        self.time = self._by_row("time", None)
        self.charged = self._by_row("charged", 1)
        self.runs: list[list[list[Any]]] = [
            [
                self._runs(layer, row, steps.expert[steps.start[row] : steps.start[row + 1]])
                for row in range(steps.rows)
            ]
            for layer, steps in enumerate(instance.layer_steps)
        ]
        self.total = pulp.LpAffineExpression(
            (time, weight)
            for steps, times in zip(instance.layer_steps, self.time, strict=True)
            for time, weight in zip(times, steps.weight.tolist(), strict=True)
        )
        self.model.setObjective(self.total)
        for layer, row in enumerate(self.on):  # PuLP forgets variables that are in no row
            self.model += pulp.lpSum(row) <= instance.experts, f"known_{layer}"

    def pl_c1_slots(self) -> None:
        """Post PL-C1: the experts on the GPU take at most gpu_slots slots."""
        self.model += self._used() <= self.instance.gpu_slots, "PL_C1"

    def pl_c2_fill(self) -> None:
        """Post PL-C2: with fill, they take all of them."""
        if self.instance.fill:
            self.model += self._used() >= self.instance.gpu_slots, "PL_C2"

    def pl_c3_host(self) -> None:
        """Post PL-C3: the host has room for all experts, or without a copy for the offloaded."""
        if self.instance.host_slots is not None:
            total = int(self.instance.sizes.sum())
            copied = self.model.add_variable("copied", lowBound=0, upBound=total)
            self.model += copied == (self._used() if self.instance.host_copy else 0), "PL_C3_copied"
            self.model += total - self._used() + copied <= self.instance.host_slots, "PL_C3"

    def pl_c4_whole_layers(self) -> None:
        """Post PL-C4: with this restriction all experts of a layer are in one place."""
        if self.instance.restriction == "whole-layers":
            for layer, row in enumerate(self.on):
                for e, expert in enumerate(row[1:], 1):
                    self.model += expert - row[0] == 0, f"PL_C4_{layer}_{e}"

    def pl_c5_equal_counts(self) -> None:
        """Post PL-C5: with this restriction all layers have as many experts on the GPU."""
        if self.instance.restriction == "equal-counts":
            for layer, row in enumerate(self.on[1:], 1):
                counts = pulp.lpSum(row) - pulp.lpSum(self.on[0])
                self.model += counts == 0, f"PL_C5_{layer}"

    def pl_c6_gpu(self) -> None:
        """Post PL-C6: the GPU's experts of a layer take at most its time."""
        for layer, row, _, gpu_ns, _ in self._rows():
            terms = list(zip(self.runs[layer][row], gpu_ns, strict=True))
            terms.append((self.time[layer][row], -1))
            self.model += pulp.LpAffineExpression(terms) <= 0, f"PL_C6_{layer}_{row}"

    def pl_c7_offload(self) -> None:
        """Post PL-C7: the offloaded experts of a layer, and its charge, take at most its time."""
        for layer, row, _, _, offload_ns in self._rows():
            pairs = zip(self.runs[layer][row], offload_ns, strict=True)
            terms = [(runs, -ns) for runs, ns in pairs]
            fixed = self.instance.layer_offload_fixed_ns / self.objective_unit
            terms += [(self.charged[layer][row], fixed), (self.time[layer][row], -1)]
            taken = pulp.LpAffineExpression(terms) + sum(offload_ns)
            self.model += taken <= 0, f"PL_C7_{layer}_{row}"

    def pl_c8_charge(self) -> None:
        """Post PL-C8: the charge is due where an expert with tokens is offloaded."""
        for layer, row, experts, _, _ in self._rows():
            for e, runs in zip(experts, self.runs[layer][row], strict=True):
                due = runs + self.charged[layer][row]
                self.model += due >= 1, f"PL_C8_{layer}_{row}_{e}"

    def pl_c9_dispatch(self) -> None:
        """Post PL-C9: with free dispatch the GPU computes nothing that is not on it."""
        if self.instance.dispatch == "resident":
            return
        for layer, row, experts, _, _ in self._rows():
            for e, runs in zip(experts, self.runs[layer][row], strict=True):
                self.model += runs - self.on[layer][e] <= 0, f"PL_C9_{layer}_{row}_{e}"

    def start_from(self, solution: Solution, objective: int) -> None:
        """Look for nothing worse than a known solution; the caller keeps that one.

        A millionth is added: a bound that just fits makes solvers in floats call it infeasible.
        """
        self.model += self.total <= objective * (1 + 1e-6) / self.objective_unit

    def decode(self, value: Callable[[Any], int]) -> Solution:
        """Read the decision off the solver's values."""
        gpu = tuple(tuple(e for e, on in enumerate(row) if value(on)) for row in self.on)
        return dispatched(
            self.instance,
            gpu,
            [np.array([value(v) for v in chain(*rows)], dtype=bool) for rows in self.runs],
        )

    def _runs(self, layer: int, row: int, experts: Ints) -> list[Any]:
        """Return who the GPU computes in a row: who is on it, or a variable for each of them."""
        if self.instance.dispatch == "resident":
            return [self.on[layer][e] for e in experts]
        return [self.model.add_variable(f"runs_{layer}_{row}_{e}", cat="Binary") for e in experts]

    def _by_row(self, name: str, most: int | None) -> list[list[Any]]:
        return [
            [
                self.model.add_variable(f"{name}_{layer}_{row}", lowBound=0, upBound=most)
                for row in range(steps.rows)
            ]
            for layer, steps in enumerate(self.instance.layer_steps)
        ]

    def _used(self) -> Any:
        return pulp.LpAffineExpression(
            (variable, size)
            for row, sizes in zip(self.on, self.instance.sizes.tolist(), strict=True)
            for variable, size in zip(row, sizes, strict=True)
        )

    def _rows(self) -> Iterator[Any]:
        """Yield layer, row, and the row's experts with their times in units."""
        for layer, steps in enumerate(self.instance.layer_steps):
            for row in range(steps.rows):
                part = slice(steps.start[row], steps.start[row + 1])
                times = (steps.gpu_ns[part], steps.offload_ns[part])
                units = ((ns / self.objective_unit).tolist() for ns in times)
                yield layer, row, steps.expert[part].tolist(), *units
