"""The CP-SAT model: one method per constraint ID (`formulations/placement/spec.md`)."""

from collections.abc import Callable
from itertools import chain
from typing import ClassVar

import numpy as np

from moeopt.core.formulation import Formulation, IntVar, LinearExpr, cp_model
from moeopt.core.rows import take_out_divisor

from .bounds import objective_grid
from .instance import Instance, Solution, dispatched, held_of


class Model(Formulation):
    """Booleans ``on[l][e]``, and by layer and distinct step a time and whether the charge is due.

    Booleans ``runs[l][r]`` say of each expert of the row whether the GPU computes it: those of
    ``on`` unless dispatch is free.

    Attributes
    ----------
    model
        The CP-SAT model; its objective is in units of `objective_unit` ns.
    objective_unit
        ns per unit of the model's objective: the costs' greatest common divisor.
    """

    # As in other makespan models: CP-SAT on one worker does not put the sums into its linear
    # relaxation unless told to.
    parameters: ClassVar = {"linearization_level": 2}

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.objective_unit = objective_grid(instance)
        self.fixed = instance.layer_offload_fixed_ns // self.objective_unit
        self.model = cp_model.CpModel()
        self.on = [
            [self.model.new_bool_var(f"on[{layer},{e}]") for e in range(instance.experts)]
            for layer in range(instance.layers)
        ]
        self.charged: list[list[IntVar]] = []
        self.time: list[list[IntVar]] = []
        self.runs: list[list[list[IntVar]]] = []
        weights: list[int] = []
        for layer, steps in enumerate(instance.layer_steps):
            rows = range(steps.rows)
            self.charged.append([self.model.new_bool_var(f"charged[{layer},{r}]") for r in rows])
            self.time.append([])
            self.runs.append([])
            for row in rows:
                part = slice(steps.start[row], steps.start[row + 1])
                longest = int(steps.gpu_ns[part].sum() + steps.offload_ns[part].sum())
                longest = longest // self.objective_unit + self.fixed
                self.time[-1].append(self.model.new_int_var(0, longest, f"time[{layer},{row}]"))
                self.runs[-1].append(self._runs(layer, row, steps.expert[part].tolist()))
            weights += steps.weight.tolist()
        flat = [time for times in self.time for time in times]
        self.total = cp_model.LinearExpr.weighted_sum(flat, weights)
        self.model.minimize(self.total)

    def pl_c1_slots(self) -> None:
        """Post PL-C1: the experts on the GPU take at most gpu_slots slots."""
        take_out_divisor(self.model.add(self._used() <= self.instance.gpu_slots))

    def pl_c2_fill(self) -> None:
        """Post PL-C2: with fill, they take all of them."""
        if self.instance.fill:
            self.model.add(self._used() >= self.instance.gpu_slots)

    def pl_c3_host(self) -> None:
        """Post PL-C3: the host has room for all experts, or without a copy for the offloaded."""
        if self.instance.host_slots is not None:
            total = int(self.instance.sizes.sum())
            copied = self.model.new_int_var(0, total, "copied")
            self.model.add(copied == (self._used() if self.instance.host_copy else 0))
            self.model.add(total - self._used() + copied <= self.instance.host_slots)

    def pl_c4_whole_layers(self) -> None:
        """Post PL-C4: with this restriction all experts of a layer are in one place."""
        if self.instance.restriction == "whole-layers":
            for row in self.on:
                for expert in row[1:]:
                    self.model.add(expert == row[0])

    def pl_c5_equal_counts(self) -> None:
        """Post PL-C5: with this restriction all layers have as many experts on the GPU."""
        if self.instance.restriction == "equal-counts":
            for row in self.on[1:]:
                self.model.add(sum(row) == sum(self.on[0]))

    def pl_c6_gpu(self) -> None:
        """Post PL-C6: the GPU's experts of a layer take at most its time."""
        for layer, row, _, gpu_ns, _ in self._rows():
            taken = cp_model.LinearExpr.weighted_sum(self.runs[layer][row], gpu_ns)
            self.model.add(taken <= self.time[layer][row])

    def pl_c7_offload(self) -> None:
        """Post PL-C7: the offloaded experts of a layer, and its charge, take at most its time."""
        for layer, row, _, _, offload_ns in self._rows():
            off = [1 - runs for runs in self.runs[layer][row]]
            charge = self.fixed * self.charged[layer][row]
            taken = cp_model.LinearExpr.weighted_sum(off, offload_ns) + charge
            self.model.add(taken <= self.time[layer][row])

    def pl_c8_charge(self) -> None:
        """Post PL-C8: the charge is due where an expert with tokens is offloaded."""
        for layer, row, _, _, _ in self._rows():
            for runs in self.runs[layer][row]:
                self.model.add_bool_or(runs, self.charged[layer][row])

    def pl_c9_dispatch(self) -> None:
        """Post PL-C9: with free dispatch the GPU computes nothing that is not on it."""
        for layer, row, experts, _, _ in self._rows():
            for e, runs in zip(experts, self.runs[layer][row], strict=True):
                if runs is not self.on[layer][e]:
                    self.model.add_implication(runs, self.on[layer][e])

    def start_from(self, solution: Solution, objective: int) -> None:
        """Start from a known solution.

        It is a hint only: with `objective` as an upper limit CP-SAT's own bounds rise far slower.
        """
        held = held_of(solution, self.instance.layers, self.instance.experts)
        for row, flags in zip(self.on, held.tolist(), strict=True):
            for variable, flag in zip(row, flags, strict=True):
                self.model.add_hint(variable, flag)
        if self.instance.dispatch == "free":
            fixed_ns = self.instance.layer_offload_fixed_ns
            for layer, steps in enumerate(self.instance.layer_steps):
                flags = steps.computed(held[layer], fixed_ns).tolist()
                for variable, flag in zip(chain(*self.runs[layer]), flags, strict=True):
                    self.model.add_hint(variable, flag)

    def decode(self, value: Callable[[IntVar], int]) -> Solution:
        """Read the decision off the solver's values."""
        gpu = tuple(tuple(e for e, on in enumerate(row) if value(on)) for row in self.on)
        return dispatched(
            self.instance,
            gpu,
            [np.array([value(v) for v in chain(*rows)], dtype=bool) for rows in self.runs],
        )

    def _runs(self, layer: int, row: int, experts: list[int]) -> list[IntVar]:
        """Return who the GPU computes in a row: who is on it, or a variable for each of them."""
        if self.instance.dispatch == "resident":
            return [self.on[layer][e] for e in experts]
        return [self.model.new_bool_var(f"runs[{layer},{row},{e}]") for e in experts]

    def _used(self) -> LinearExpr:
        flat = [variable for row in self.on for variable in row]
        return cp_model.LinearExpr.weighted_sum(flat, self.instance.sizes.ravel().tolist())

    def _rows(self) -> LinearExpr:
        """Yield layer, row, and the row's experts with their times in units."""
        for layer, steps in enumerate(self.instance.layer_steps):
            for row in range(steps.rows):
                part = slice(steps.start[row], steps.start[row + 1])
                times = (steps.gpu_ns[part], steps.offload_ns[part])
                units = ((ns // self.objective_unit).tolist() for ns in times)
                yield layer, row, steps.expert[part].tolist(), *units
