"""column-lagrangian: a bound from steps or their long paths, plans by rounding and local search.

1. Bound (`relaxation`): for each context, layers choose columns (residents, widths, deferral) with
   prices. Where rows have few options, steps and experts fall apart (`StepRelaxation`); else rows
   and experts do, and each step counts with a flow along its long paths (`Relaxation`).
2. Multipliers (`Prices`): the volume algorithm (`moeopt.algorithms.lagrangian`) raises the bound.
3. Plans (`local_search`): from the heuristics and from the algorithm's averages, rounded, repaired
   and improved by single changes and pairs of them.

Proof. Every bound reported is the Lagrangian bound of some multipliers, computed in integers
(`relaxation` has the argument), the least over all contexts that fit into the GPU's memory. The
objective of each plan offered is that of its execution. So an incumbent that meets the bound is
optimal.

**Raising the bound.** Prices step along the averages. These approach a solution of the linear
relaxation, whose lengths say which paths are long: a part of the flow moves there. The multipliers
of host memory and loss rise or fall by a factor, by whether the averages use more or less than
there is.
"""

from dataclasses import dataclass, replace

import numpy as np

from moeopt.algorithms.lagrangian import Averages, Pace, Volume, stride
from moeopt.core import rounding
from moeopt.core.search import Search
from moeopt.problems.joint import PROBLEM
from moeopt.problems.joint.bounds import lower_bound, objective_grid
from moeopt.problems.joint.check import objective
from moeopt.problems.joint.instance import Instance, Solution

from .arrays import Arrays, Choice, Cost, cost, fits, plan_of, solution_of
from .columns import solve_by_columns, suits
from .kernels import Floats, Ints
from .local_search import descend, rounded
from .relaxation import Multipliers, Relaxation, Relaxed, StepRelaxation, soft_flow

PACE = Pace(longest=0.3, shortest=1e-4, patience=20)
CACHES_PACE = Pace(longest=0.05, shortest=1e-4, patience=20)
"""Steps of the volume algorithm, first and from prices without caches."""

MOVED = 0.3
"""Part of the flow that moves, against the length of the step."""

BUDGETS = 1.0
"""How fast the multipliers of budgets move, against the length of the step."""

COOLING = 0.02
"""Heat of the paths, as a part of a layer's mean time, at the longest step."""


class Prices:
    """The dual of a context: prices and flows that the volume algorithm raises."""

    def __init__(self, relaxation: Relaxation) -> None:
        self.relaxation = relaxation
        i = relaxation.instance
        self.shape = (len(i.steps), i.layers, 5)

    def evaluate(self, at: Multipliers) -> Relaxed:
        """Evaluate the relaxation."""
        return self.relaxation.evaluate(at)

    def seen(self, value: Relaxed) -> Averages:
        """Return what a solution decides, uses and breaks: flags of states, counts, sums."""
        counts = np.eye(self.relaxation.instance.max_deferred + 1)
        return {
            "selected": value.selected,
            "copies": np.eye(self.relaxation.states)[value.state // 3],
            "deferred": counts[value.deferred],
            "rows": counts[value.row_deferred],
            "lengths": value.lengths.astype(np.float64),
            "lost": np.asarray(value.lost),
            "host": np.asarray(value.host_bytes),
            "over": value.over,
        }

    def moved(self, now: Relaxed, mean: Averages, step: float, gap: float) -> Multipliers:
        """Return prices a step further along the averages, and flows nearer to long paths."""
        relaxation, at = self.relaxation, now.at
        i = relaxation.instance
        direction = mean["selected"][relaxation.arrays.cell] - mean["copies"]
        over = np.where((at.hit > 0) | (mean["over"] > 0), mean["over"], 0.0)
        agree = np.tile(mean["deferred"], (self.shape[0], 1)) - mean["rows"]
        parts = [direction.ravel(), over] + [agree.ravel()] * (not relaxation.by_paths)
        factor = stride(step, gap, np.concatenate(parts))
        priced = replace(
            at,
            price=at.price + factor * direction,
            hit=np.maximum(0.0, at.hit + factor * over),
            loss=_scaled(at.loss, float(mean["lost"]), i.max_loss, step),
            host=_scaled(at.host, float(mean["host"]), i.host_bytes, step),
        )
        if not relaxation.by_paths:
            return replace(priced, count=at.count + factor * agree)
        lengths = mean["lengths"].reshape(self.shape)
        mean_ns = float(rounding.rounded(lengths[:, :, 0].mean()))
        heat = COOLING * (step / PACE.longest) * mean_ns + 1.0
        towards = soft_flow(lengths, heat, i.max_deferred > 0).reshape(-1, 5)
        part = min(1.0, MOVED * step)
        return replace(priced, flow=(1 - part) * at.flow + part * towards)


def _scaled(multiplier: float, used: float, budget: int | None, step: float) -> float:
    """Return a budget's multiplier, raised or lowered by a factor where it is exceeded or not."""
    if budget is None:
        return 0.0
    over = (used - budget) / max(1.0, abs(budget))
    change = np.exp(BUDGETS * step * np.clip(10 * rounding.rounded(over), -1, 1))
    return multiplier * float(rounding.rounded(change))


def first_multipliers(relaxation: Relaxation, lengths: Floats) -> Multipliers:
    """Return multipliers from a plan's lengths: an expert costs its time on the CPU, or the GPU.

    Parameters
    ----------
    lengths
        Of the arcs of every row, shape (rows, 5).
    """
    arrays, i = relaxation.arrays, relaxation.instance
    shaped = lengths.reshape(len(i.steps), i.layers, 5)
    heat = 5 * COOLING * float(shaped[:, :, 0].mean()) + 1.0
    flow = soft_flow(shaped, heat, i.max_deferred > 0).reshape(-1, 5)
    own = flow[arrays.row]
    on_cpu = (own[:, 1:].sum(axis=1))[:, None] * arrays.steps.cpu_ns
    on_gpu = own[:, :1] * arrays.steps.gpu_ns
    price = np.concatenate([on_cpu, on_gpu], axis=1)
    count = np.zeros((len(flow), i.max_deferred + 1))
    return Multipliers(price, flow, 0.0, 0.0, 0.0, count, np.zeros(len(price) + len(flow)))


__all__ = ["solve"]

STEPS = 50
"""Steps of the volume algorithm between two looks at plans."""

SMALL, FEW_ROUNDS = 400, 4
"""CP-SAT closes instances with so few experts in all steps soonest, after so many rounds, twice as
many where there may be caches."""

LARGE = 4000
"""Above it CP-SAT gains nothing."""

AGAIN = 0.02
"""Multipliers start again with long steps if the last time closed this part of the gap."""

WITHOUT_CACHES = 3
"""Rounds in which a relaxation without caches finds plans, and prices to begin with."""

TENTH = 0.1
"""First multipliers of the budgets: this part of all time over the budget, if that is better."""

PATIENCE = 0.75
"""Local search from the averages may take as long as the steps of the round, times this."""


def solve(instance: Instance, search: Search) -> None:
    """Find the best plan and prove it, or report the best and the bound reached."""
    if all(context.kv_bytes > instance.gpu_bytes for context in instance.contexts):
        search.infeasible = True
        return
    search.prove(lower_bound(instance))
    starts = _starts(instance, search)
    if suits(instance):
        solve_by_columns(instance, search)
        if search.closed:
            return
    run = _Run(instance, search)
    run.start(starts)
    if run.best is None:
        search.note = "NO_START"
        return
    run.raise_and_improve()
    search.enough = len(run.arrays.row) * len(instance.bits) > LARGE


def _starts(instance: Instance, search: Search) -> list[Solution]:
    """Return what the heuristics find, offered before anything is compiled, which takes longer."""
    found = [rule(instance) for rule in PROBLEM.functions().values()]
    solutions = [solution for solution in found if solution is not None]
    for solution in solutions:
        search.offer(solution, objective(instance, solution))
    return solutions


@dataclass
class _Context:
    """One way to keep the KV cache: its multipliers, and the bound that they have proven."""

    number: int
    ascent: Volume[Multipliers, Relaxed]
    relaxation: Relaxation
    bound_ns: int = 0
    marked_ns: float = 0.0
    done: bool = False
    rounds: int = 0


class _Run:
    """One run: the incumbent, and the order in which things are tried."""

    def __init__(self, instance: Instance, search: Search) -> None:
        self.instance, self.search = instance, search
        self.arrays = Arrays.of(instance)
        self.grid = objective_grid(instance)
        self.small = len(self.arrays.row) * len(instance.bits) <= SMALL
        self.contexts = [
            number
            for number, context in enumerate(instance.contexts)
            if context.kv_bytes <= instance.gpu_bytes
        ]
        self.best: Choice | None = None
        self.found: Cost | None = None

    @property
    def best_ns(self) -> int:
        """The incumbent's time."""
        return 0 if self.found is None else self.found.total_ns

    @property
    def lengths(self) -> Ints:
        """The arcs' lengths in the incumbent, which is there."""
        if self.found is None:
            raise ValueError("there is no incumbent")
        return self.found.lengths

    def start(self, solutions: list[Solution]) -> None:
        """Offer what the heuristics found, and what local search makes of it."""
        for solution in solutions:
            plan = plan_of(self.instance, solution)
            self.offer(plan, cost(self.arrays, plan))
        if self.best is not None:
            self.improve(self.best, np.zeros(3), 0.1 * self.search.remaining_s)

    def raise_and_improve(self) -> None:
        """Raise the lowest bound and look for better plans in turns."""
        open_ones = [self.context(number) for number in self.contexts]
        rounds = 0
        few = FEW_ROUNDS * len(open_ones) * (1 + (self.instance.max_ways > 0))
        while not (self.search.stopped or self.search.closed or self.near):
            pending = [c for c in open_ones if not c.done and c.bound_ns < self.best_ns]
            if not pending or (self.small and rounds >= few):
                break
            context = min(pending, key=lambda c: (c.bound_ns, c.rounds, c.number))
            self.work_on(context)
            bound_ns = min(c.bound_ns for c in open_ones)
            self.search.prove(min(self.best_ns, -(-bound_ns // self.grid) * self.grid))
            rounds += 1

    @property
    def near(self) -> bool:
        """Whether the gap is as small as was asked for."""
        bound = self.search.bound
        left = self.best_ns - bound if isinstance(bound, int) else self.best_ns
        return left < self.search.enough_gap * self.best_ns

    def context(self, number: int) -> _Context:
        """Return a context at its first multipliers, from the incumbent's long paths."""
        relaxation = Relaxation(self.arrays, number)
        relaxation.caches = False
        first = _priced(relaxation, self.lengths.astype(np.float64))
        if StepRelaxation.suits(self.arrays):
            relaxation = StepRelaxation(self.arrays, number, self.grid)
            relaxation.caches = False
            first = replace(first, count=relaxation.counts_of(first))
        ascent = Volume(Prices(relaxation), relaxation.evaluate(first), PACE)
        return _Context(number, ascent, relaxation)

    def work_on(self, context: _Context) -> None:
        """Raise one context's bound for a round, and round its averages to a plan."""
        begin = self.search.clock.now()
        ascent = context.ascent
        ascent.iterate(self.best_ns, STEPS, lambda: self.search.stopped)
        relaxation = context.relaxation
        exact = relaxation.evaluate(ascent.best.at, exact=True)
        context.bound_ns = max(context.bound_ns, ascent.best.proven_ns, exact.proven_ns)
        limit_s = PATIENCE * (self.search.clock.now() - begin)
        at = ascent.best.at
        mean, number = ascent.mean, context.number
        plan = rounded(self.arrays, number, mean["selected"], mean["deferred"])
        if plan is not None:
            self.improve(plan, np.array([at.gpu, at.host, at.loss]), limit_s)
        context.rounds += 1
        over = ascent.converged or ascent.best.bound >= self.best_ns
        if self.instance.max_ways and not relaxation.caches:
            if over or self.small or context.rounds >= WITHOUT_CACHES:
                context.ascent = _with_caches(relaxation, at)
        elif over:
            gained = ascent.best.bound - context.marked_ns
            gap = self.best_ns - ascent.best.bound
            context.marked_ns = ascent.best.bound
            context.done = gap <= 0 or gained < AGAIN * gap
            if not context.done:
                ascent.again()

    def improve(self, plan: Choice, at: Floats, limit_s: float) -> None:
        """Offer what local search makes of a plan within some seconds."""
        until = self.search.clock.now() + limit_s
        self.offer(
            *descend(
                self.arrays,
                plan,
                at,
                lambda: self.search.stopped or self.search.clock.now() > until,
            )
        )

    def offer(self, plan: Choice, found: Cost) -> None:
        """Keep a plan if it is the best so far."""
        if fits(self.arrays, found) and (self.found is None or found.total_ns < self.best_ns):
            self.best, self.found = plan.copy(), found
            self.search.offer(solution_of(self.arrays, plan, found), found.total_ns)


def _priced(relaxation: Relaxation, lengths: Floats) -> Multipliers:
    """Return first multipliers, those of the budgets 0 or `TENTH`."""
    i = relaxation.instance
    tried = [first_multipliers(relaxation, lengths)]
    time_ns = TENTH * float(lengths[:, 0].sum())
    if i.max_loss is not None:
        tried += [replace(one, loss=time_ns / max(1, i.max_loss)) for one in tried]
    if i.host_bytes is not None:
        tried += [replace(one, host=time_ns / max(1, i.host_bytes)) for one in tried]
    return max(tried, key=lambda one: relaxation.evaluate(one).bound)


def _with_caches(relaxation: Relaxation, at: Multipliers) -> Volume[Multipliers, Relaxed]:
    """Return an ascent where caches are allowed: a hit is worth what residence is."""
    relaxation.caches = True
    away, there = np.split(at.price, 2, axis=1)
    hit = at.hit.copy()
    hit[: len(away)] = np.maximum(0.0, away - there).max(axis=1)
    first = relaxation.evaluate(replace(at, hit=hit))
    return Volume(Prices(relaxation), first, CACHES_PACE)
