"""Exact placements by prices and exchanges; HiGHS for what they leave open.

Proof. Every bound reported is that of `bound`, in integers, or that of `residual` on all placements
that are better than the incumbent; each module states why it holds. For whole layers the table in
`whole_layers` is exact. The objective of each placement offered is computed anew from all steps. So
an incumbent that meets the bound is optimal.

Course: placements by rank and exchange (`swap`), prices that raise the bound (`ascent`), placements
rounded from what the prices choose, and kicks: random moves, then exchanges again. Experts whose
place the prices decide are fixed, and HiGHS is asked for the rest if it is small enough.
"""

from collections.abc import Iterator

import numpy as np

from moeopt.problems.placement.bounds import objective_grid
from moeopt.problems.placement.filling import best_prefix, filled
from moeopt.problems.placement.instance import Instance
from moeopt.problems.placement.layer_steps import Flags, total_ns
from moeopt.problems.placement.rankings import frequency, offload_time
from moeopt.problems.placement.solution import held_of, solution_of
from moeopt.problems.search import Search

from .ascent import Ascent, first_prices
from .bound import Certified, Model, certify
from .chosen import chosen
from .kick import kicked
from .residual import close, residual_of
from .swap import Placed
from .whole_layers import cheapest_layers

__all__ = ["solve"]

STEPS = 25
"""Steps of the ascent between two looks at placements."""

KICKS = 5
"""Kicks in a round; a round's steps and kicks take about two thirds and one third of its time."""

VERY_FEW, FEW, SMALL_GAP = 30, 400, 0.005
"""HiGHS is asked at once if so few experts are open, and if `FEW` are or the gap is small when the
bound hardly rises."""

ROUNDS, HARDLY = 6, 0.1
"""The bound hardly rises if so many rounds close less than this part of the gap."""

PATIENCE = 0.6
"""Part of the time left that HiGHS gets each time."""


def solve(instance: Instance, search: Search) -> None:
    """Find the best placement and prove it, or report the best and the bound reached."""
    run = _Run(instance, search)
    if run.model.room.least > run.model.room.most:
        search.infeasible = True
    elif instance.restriction == "whole-layers":
        run.whole_layers()
    else:
        run.prices()


class _Run:
    """One run: the model, the incumbent, and the order in which things are tried."""

    def __init__(self, instance: Instance, search: Search) -> None:
        self.instance, self.search = instance, search
        self.model = Model.of(instance, objective_grid(instance))
        self.rng = np.random.default_rng(search.seed)
        self.best: Flags | None = None
        self.best_ns = 0

    def whole_layers(self) -> None:
        """Solve the knapsack of layers."""
        try:
            held = cheapest_layers(self.model)
        except MemoryError:
            self.search.note = "TOO_MANY_SLOTS"
            return
        if held is None:
            self.search.infeasible = True
            return
        self.offer(held)
        self.search.prove_incumbent()

    def prices(self) -> None:
        """Raise the bound and improve placements in turns, then close what is left."""
        for held in self.starts():
            self.improve(held)
        if self.best is None:
            self.search.note = "NO_START"
            return
        ascent = Ascent(self.model, first_prices(self.model, self.best))
        marks = [ascent.bound_ns]
        while not (self.search.stopped or ascent.spent):
            ascent.climb(self.best_ns, STEPS, lambda: self.search.stopped)
            proof = self.certify(ascent)
            if self.search.closed:
                return
            self.look_for_better(ascent)
            marks.append(ascent.bound_ns)
            if ascent.spent or self.is_time(proof, marks):
                self.finish(proof)
                marks = [ascent.bound_ns]
            if self.search.closed:
                return

    def starts(self) -> Iterator[Flags]:
        """Yield placements by rank: filled, and only as far as filling helps."""
        for order in (offload_time(self.instance), frequency(self.instance)):
            solution = best_prefix(self.instance, order) or filled(self.instance, order)
            if solution is not None:
                yield held_of(solution, self.instance.layers, self.instance.experts)

    def look_for_better(self, ascent: Ascent) -> None:
        """Improve what the prices choose, rounded, and the incumbent after kicks."""
        _, wanted = chosen(np.rint(-1e6 * ascent.wanted).astype(np.int64), self.model.room)
        self.improve(wanted > 1 - 1e-9)
        for _ in range(KICKS):
            if self.best is not None and not self.search.stopped:
                self.improve(kicked(self.best, self.model.room, self.rng))

    def improve(self, held: Flags) -> None:
        """Offer what exchanges make of a placement."""
        if self.model.room.allows(held):
            placed = Placed(self.model, held)
            placed.descend(lambda: self.search.stopped)
            self.offer(placed.held)

    def offer(self, held: Flags) -> None:
        """Keep a placement if it is the best so far."""
        total = total_ns(self.model.layers, held, self.model.fixed_ns)
        if self.best is None or total < self.best_ns:
            self.best, self.best_ns = held.copy(), total
            self.search.offer(solution_of(self.instance.name, held), total)

    def certify(self, ascent: Ascent) -> Certified:
        """Report the bound of the best prices, computed in integers."""
        proof = certify(self.model, ascent.prices)
        self.prove(proof.base_ns + chosen(proof.value, self.model.room)[0])
        return proof

    def prove(self, bound_ns: int) -> None:
        """Report a bound, rounded up to what an objective can be."""
        grid = self.model.grid
        self.search.prove(min(self.best_ns, -(-bound_ns // grid) * grid))

    def is_time(self, proof: Certified, marks: list[float]) -> bool:
        """Tell whether to ask HiGHS, from the bounds of the last rounds."""
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

    def finish(self, proof: Certified) -> None:
        """Let HiGHS close what is open."""
        limit_s = PATIENCE * self.search.remaining_s
        if not limit_s:
            return
        residual = residual_of(self.model, proof, self.best_ns)
        bound_ns, held = close(self.model, residual, proof, self.best_ns, limit_s)
        if held is not None:
            self.improve(held)
        self.prove(bound_ns)
