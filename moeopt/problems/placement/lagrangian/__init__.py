"""price-and-swap: Lagrangian relaxation with local search, and CP-SAT for what they leave open.

1. Bound (`relaxation`): a Lagrangian decomposition; every row (layer and distinct step) chooses its
   own experts for the GPU, and multipliers pay for agreement with the choice that keeps the slots.
2. Multipliers: those of the linear relaxation (`linear_relaxation`), or of a placement; where rows
   are small, the volume algorithm raises the bound further.
3. Incumbent (`local_search`): drop, add and swap moves from greedy placements, and from rounded
   solutions of the linear relaxation and of the volume algorithm.
4. Fixing and residual problem (`residual_problem`): experts whose reduced cost exceeds the gap are
   fixed; if few others are left, or the gap is small, CP-SAT solves the problem over them.

Proof. Every bound reported is the Lagrangian bound, in integers, or that of the residual problem on
all placements that are better than the incumbent; each module states why it holds. For whole layers
the dynamic program in `cheapest_layers` is exact. The objective of each placement offered is
computed anew from all steps. So an incumbent that meets the bound is optimal.
"""

from collections.abc import Iterator

import numpy as np

from moeopt.algorithms.knapsack import TooLarge
from moeopt.algorithms.lagrangian import Volume
from moeopt.core.search import Search
from moeopt.problems.placement.bounds import objective_grid
from moeopt.problems.placement.instance import Instance, held_of, solution_of
from moeopt.problems.placement.layer_steps import Flags, Floats, total_ns
from moeopt.problems.placement.ranking import best_prefix, descending, filled, offload_time

from .linear_relaxation import linear_relaxation
from .local_search import LocalSearch
from .relaxation import (
    Decomposition,
    Model,
    Relaxed,
    capacity_subproblem,
    cheapest_layers,
    first_multipliers,
    weighed,
)
from .residual_problem import residual_of, solve_residual

__all__ = ["solve"]

STEPS = 25
"""Steps of the volume algorithm between two looks at placements."""

VERY_FEW, FEW, SMALL_GAP = 30, 400, 0.005
"""CP-SAT gets the residual problem at once if so few experts are open; and when the bound hardly
rises, if `FEW` are or the gap is small."""

ROUNDS, HARDLY = 6, 0.1
"""The bound hardly rises if so many rounds close less than this part of the gap."""

PART = 0.9
"""Where rows are small, the volume algorithm begins so far on the way from a placement's
multipliers to those of the linear relaxation: a kink of the dual, from which steps lead down."""

ENOUGH_WORK = 0.2
"""What CP-SAT gets where the gap is small enough for who asked, and no more than `FEW` experts are
open; else it is not called then."""

PATIENCE, AT_LEAST, AT_LEAST_S = 0.25, 0.6, 8.0
"""Part of the time left that a residual problem gets: of short times more, up to so many seconds.

The rest is for the whole problem.
"""


def solve(instance: Instance, search: Search) -> None:
    """Find the best placement and prove it, or report the best and the bound reached."""
    run = _Run(instance, search)
    if run.model.capacity.least > run.model.capacity.most:
        search.infeasible = True
    elif instance.restriction == "whole-layers":
        run.whole_layers()
    else:
        run.raise_and_improve()


class _Run:
    """One run: the model, the incumbent, and the order in which things are tried."""

    def __init__(self, instance: Instance, search: Search) -> None:
        self.instance, self.search = instance, search
        self.model = Model.of(instance, objective_grid(instance))
        self.dual = Decomposition(self.model)
        self.best: Flags | None = None
        self.best_ns = 0

    def whole_layers(self) -> None:
        """Solve the knapsack of layers."""
        try:
            held = cheapest_layers(self.model)
        except TooLarge:
            self.search.note = "TOO_MANY_SLOTS"
            return
        if held is None:
            self.search.infeasible = True
            return
        self.offer(held)
        fixed_ns, all_on = self.model.fixed_ns, np.ones(self.instance.experts, dtype=bool)
        if all(of.dispatch_proven(all_on, fixed_ns) for of in self.model.layers):
            self.search.prove_incumbent()
        else:
            self.search.note = "DISPATCH_NOT_PROVEN"

    def raise_and_improve(self) -> None:
        """Raise the bound and improve placements in turns, then close what is left."""
        linear = linear_relaxation(self.model, self.search)
        if linear is not None:
            self.improve_rounded(linear.x)
        for held in self.starts():
            self.improve(held)
        if self.best is None:
            self.search.note = "NO_START"
            return
        first = proof = self.dual.evaluate(first_multipliers(self.model, self.best))
        if linear is not None:
            proof = self.dual.evaluate(weighed(self.model, linear.weights))
            first = self.dual.evaluate(PART * proof.at + (1 - PART) * first.at)
        volume = Volume(self.dual, proof if self.model.large_rows else first)
        marks = [proof.bound]
        self.prove(proof.bound)
        while not (self.search.stopped or self.search.closed or volume.converged):
            volume.iterate(self.best_ns, STEPS, lambda: self.search.stopped)
            proof = max(proof, volume.best, key=lambda one: one.bound)
            self.prove(proof.bound)
            if self.search.closed:
                return
            self.improve_rounded(volume.mean["selected"])
            marks.append(proof.bound)
            if volume.converged or self.is_time(proof, marks):
                if not self.finish(proof):
                    return  # to CP-SAT on the whole problem
                marks = [proof.bound]

    def starts(self) -> Iterator[Flags]:
        """Yield placements by rank: filled, and only as far as filling helps."""
        for order in (offload_time(self.instance), descending(self.instance.tokens)):
            solution = best_prefix(self.instance, order) or filled(self.instance, order)
            if solution is not None:
                yield held_of(solution, self.instance.layers, self.instance.experts)

    def improve_rounded(self, x: Floats) -> None:
        """Improve the placement nearest to a solution of the linear relaxation."""
        worth = np.rint(-1e6 * x).astype(np.int64)
        _, selected = capacity_subproblem(worth, self.model.capacity)
        self.improve(selected > 1 - 1e-9)

    def improve(self, held: Flags) -> None:
        """Offer what local search makes of a placement."""
        if self.model.capacity.allows(held):
            local = LocalSearch(self.model, held)
            local.descend(lambda: self.search.stopped)
            self.offer(local.held)

    def offer(self, held: Flags) -> None:
        """Keep a placement if it is the best so far."""
        total = total_ns(self.model.layers, held, self.model.fixed_ns)
        if self.best is None or total < self.best_ns:
            self.best, self.best_ns = held.copy(), total
            self.search.offer(solution_of(self.instance, held), total)

    def prove(self, bound_ns: int) -> None:
        """Report a bound, rounded up to what an objective can be."""
        grid = self.model.grid
        self.search.prove(min(self.best_ns, -(-bound_ns // grid) * grid))

    def is_time(self, proof: Relaxed, marks: list[int]) -> bool:
        """Tell whether the residual problem is worth CP-SAT's time, by the last bounds."""
        free = int(residual_of(self.model, proof, self.best_ns).free.sum())
        if free <= VERY_FEW:
            return True
        if len(marks) <= ROUNDS or not (free <= FEW or self.gap <= SMALL_GAP):
            return False
        return marks[-1] - marks[-1 - ROUNDS] < HARDLY * (self.best_ns - marks[-1])

    @property
    def gap(self) -> float:
        """Return the gap of what is reported."""
        bound = self.search.bound
        return 1 - bound / max(1, self.best_ns) if isinstance(bound, int) else 1.0

    def finish(self, proof: Relaxed) -> bool:
        """Let CP-SAT solve the residual problem; return False if its time was too short."""
        left_s = self.search.remaining_s
        limit_s = max(PATIENCE * left_s, min(AT_LEAST * left_s, AT_LEAST_S))
        if not limit_s:
            return False
        residual = residual_of(self.model, proof, self.best_ns)
        near = self.gap <= self.search.enough_gap
        if near and int(residual.free.sum()) > FEW:
            return self.enough()
        bound_ns, held = solve_residual(
            self.model,
            residual,
            proof,
            self.best_ns,
            min(limit_s, ENOUGH_WORK) if near else limit_s,
            lambda: self.search.stopped,
            self.search.enough_gap,
        )
        if held is not None:
            self.improve(held)
        self.prove(bound_ns)
        if self.gap <= self.search.enough_gap and not self.search.closed:
            return self.enough()
        return self.search.closed or self.search.remaining_s > left_s - limit_s

    def enough(self) -> bool:
        """End with the gap that is left, which is small enough for who asked."""
        self.search.enough, self.search.note = True, "ENOUGH"
        return False
