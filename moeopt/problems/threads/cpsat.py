"""The CP-SAT model, by counts of alike parts; MILP takes its rows.

One method per constraint ID (`formulations/threads/spec.md`): counts in place of parts by name, as
parts of one expert and grain are alike.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import ClassVar

from moeopt.core.formulation import Formulation, IntVar, LinearExpr, cp_model, first_of

from .bounds import objective_grid
from .instance import Instance, Solution


class Model(Formulation):
    """One grain per expert, and how many of its parts run on each thread.

    Attributes
    ----------
    use
        ``use[e][k]``: whether expert e has grain k, which exists.
    counts
        ``counts[e][k][t]``: how many of its parts run on thread t.
    touched
        ``touched[e][t]``: whether thread t loads the expert's input; empty where that takes
        nothing.
    """

    parameters: ClassVar[dict[str, object]] = {}
    whole = ("parts",)

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.objective_unit = objective_grid(instance)
        self.model = cp_model.CpModel()
        flag, number = self.model.new_bool_var, self.model.new_int_var
        experts, self.threads = range(len(instance.experts)), range(instance.threads)
        self.choices = [instance.choices(row) for row in experts]
        self.use = [{k: flag(f"grain[{e},{k}]") for k in self.choices[e]} for e in experts]
        self.counts = [
            {
                k: [number(0, instance.grains[k], f"parts[{e},{k},{t}]") for t in self.threads]
                for k in self.choices[e]
            }
            for e in experts
        ]
        self.touched = [
            [flag(f"touched[{e},{t}]") for t in self.threads] if expert.load_ns else []
            for e, expert in enumerate(instance.experts)
        ]
        # Without TH-C1 an expert may have all its grains at once.
        horizon = sum(
            instance.grains[k] * (instance.pulled_ns(row, k) + instance.experts[row].load_ns)
            for row in experts
            for k in self.choices[row]
        )
        self.horizon = self._steps(horizon)
        self.makespan = self.model.new_int_var(0, self.horizon, "makespan")
        self.model.minimize(self.makespan)

    def th_c1_one_grain(self) -> None:
        """Post TH-C1: one of the grains that exist."""
        for grains in self.use:
            self.model.add_exactly_one(grains.values())

    def th_c2_all_parts_run(self) -> None:
        """Post TH-C2: as many parts as the grain has; and parts fall from thread to thread once.

        Threads are identical, so those of any solution may be numbered by how many parts of one
        expert they have. That breaks the symmetry for the expert with the most parts.

        Some thread touches an expert whose parts run. It follows from the other rows; without it
        CP-SAT raises its bound by a few ns at a time where numbers are large.
        """
        for grains, counts, touched in zip(self.use, self.counts, self.touched, strict=True):
            self.look()
            for k, use in grains.items():
                self.model.add(LinearExpr.sum(counts[k]) == self.instance.grains[k] * use)
                if touched:
                    self.model.add(LinearExpr.sum(touched) >= use)
        row = max(
            range(len(self.choices)),
            key=lambda row: max(self.instance.grains[k] for k in self.choices[row]),
        )
        on = [LinearExpr.sum([of[t] for of in self.counts[row].values()]) for t in self.threads]
        for more, fewer in pairwise(on):
            self.model.add(more >= fewer)

    def th_c3_threads_are_serial(self) -> None:
        """Post TH-C3: parts with their pulls, and a load for each expert that is touched."""
        for t in self.threads:
            self.look()
            variables: list[IntVar] = []
            lengths: list[int] = []
            for row, expert in enumerate(self.instance.experts):
                for k, counts in self.counts[row].items():
                    variables.append(counts[t])
                    lengths.append(self._steps(self.instance.pulled_ns(row, k)))
                if self.touched[row]:
                    touched = self.touched[row][t]
                    variables.append(touched)
                    lengths.append(self._steps(expert.load_ns))
                    for k, counts in self.counts[row].items():
                        self.model.add(counts[t] <= self.instance.grains[k] * touched)
            self.model.add(LinearExpr.weighted_sum(variables, lengths) <= self.makespan)

    def start_from(self, solution: Solution, objective: int) -> None:
        """Look for nothing worse than a known solution; the caller keeps that one."""
        self.model.add(self.makespan <= objective // self.objective_unit)

    def decode(self, value: Callable[[IntVar], int]) -> Solution:
        """Read the decision off the solver's values.

        An expert without a grain, TH-C1 being left out, has one that does not exist.
        """
        grains, rows = list[int](), list[tuple[int, ...]]()
        for row, use in enumerate(self.use):
            place = first_of(use.values(), value)
            if place is None:
                grains.append(len(self.instance.grains))
                rows.append(())
                continue
            grain = self.choices[row][place]
            counts = self.counts[row][grain]
            grains.append(grain)
            rows.append(tuple(t for t in self.threads for _ in range(value(counts[t]))))
        return Solution(instance=self.instance.name, grain=tuple(grains), thread=tuple(rows))

    def _steps(self, duration_ns: int) -> int:
        return duration_ns // self.objective_unit
