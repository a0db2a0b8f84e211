"""The search over thresholds: from a lower bound up to the incumbent, until they meet."""

import numpy as np

from moeopt.core.clock import spend
from moeopt.core.compiled import short
from moeopt.core.search import Feasibility, Search
from moeopt.problems.device_loads import CPU, GPU, PCIE, PLACE, Ints, refine
from moeopt.problems.tri_domain.instance import DOMAINS, Instance, Solution

from .copies import solve as solve_with_copies
from .feasibility import FREE, best_multiplier, decide
from .incumbent import first_schedule, simple_bound
from .pareto import FEW, Labels, modes_at, pareto_labels

FIRST_WORK = 2**19
"""Labels and states to look at before the clock is read: some 10 ms."""

MOST_WORK = 2**23
"""Labels and states to look at in one go before it is left to another method: some 100 ms."""

STATES_PER_UNIT = 50_000_000
"""Labels and states looked at in a unit of work."""

CALL = 1e-4
"""Units that one search takes besides, in Python."""

NO_CUTOFF = int(np.iinfo(np.int64).max)
"""Every makespan is of interest."""

FIRST_WIDTH, WIDEN = 256, 8
"""Longest list of states at first, and by how much it grows where that decides nothing."""

FIRST_STEPS = 64
"""In so many steps the first thresholds go through the bracket."""

MAX_SCALE_BITS = 20
"""Multipliers are at most so fine."""

SAFE = 2**61
"""Weighted sums stay below this, so that two of them can be added."""


def brief(instance: Instance) -> bool:
    """Tell whether the search comes back to Python every 50 ms: without further copies it does."""
    return not instance.has_copies


def solve(instance: Instance, search: Search) -> None:
    """Find an optimal schedule and prove it, or report the best and the bound reached.

    The effort grows fourfold from round to round, up to `MOST_WORK` labels: what is then open has
    too many labels on its DIMMs, too many residents that could also run on the CPU, or channels or
    a PCIe link that the schedules found overload. `copies` has experts with further copies.
    """
    if instance.has_copies:
        solve_with_copies(instance, search)
        return
    work = FIRST_WORK
    bracket = Bracket(instance.device_table, len(instance.experts), instance.dimms)
    bracket.narrow(NO_CUTOFF, work)
    _report(instance, search, bracket)
    while bracket.is_open and work < MOST_WORK and not search.stopped:
        work *= 4
        bracket.narrow(NO_CUTOFF, work)
        _report(instance, search, bracket)
    search.note = "OPTIMAL" if bracket.lower == bracket.upper else "OPEN"


def _report(instance: Instance, search: Search, bracket: "Bracket") -> None:
    assignment = tuple([DOMAINS[d] for d in bracket.domain.tolist()])
    solution = Solution.model_construct(
        problem="tri_domain", instance=instance.name, assignment=assignment, source=None
    )  # valid by construction
    search.offer(solution, bracket.upper)
    search.prove(bracket.lower)


class Bracket:
    """A lower bound and a schedule of an instance of schema 1 or 2, narrowed by effort.

    Channels and the PCIe link are relaxed (Lemma 7 of the specification): each of `relaxations` is
    searched as an instance of schema 1, whose bound holds, and whose schedule is optimal if it
    overloads nothing.

    Parameters
    ----------
    experts, size, dimms
        The table of `moeopt.problems.device_loads`, how many of its columns are experts (the others
        are the GPU's base load), and the number of DIMMs.

    Attributes
    ----------
    lower, upper
        The proven lower bound and the makespan of `domain`, in ns.
    domain
        The best schedule, int64 of shape (size,): 0 GPU, 1 CPU, 2 NDP.
    """

    def __init__(self, experts: Ints, size: int, dimms: int) -> None:
        self.experts, self.size, self.dimms = experts, size, dimms
        self.relaxed = relaxations(experts, size)
        self.lowers = [0 for _ in self.relaxed]
        found = [first_schedule(table, dimms) for table in self.relaxed]
        self.reached, self.domains = [one[0] for one in found], [one[1] for one in found]
        self.upper, self.domain = NO_CUTOFF, self.domains[0][:size]

    @property
    def lower(self) -> int:
        """The largest of the relaxations' bounds, which is at most `upper`."""
        return min(max(self.lowers), self.upper)

    @property
    def is_open(self) -> bool:
        """Whether more effort may narrow it: some relaxation is not solved to its optimum."""
        solved = (low == makespan for low, makespan in zip(self.lowers, self.reached, strict=True))
        return self.lower < self.upper and not all(solved)

    def narrow(self, cutoff: int, limit: int) -> None:
        """Search every relaxation with an effort, see `narrow` for the arguments."""
        for k, table in enumerate(self.relaxed):
            known = self.reached[k], self.domains[k]
            low, reached, domain = narrow(table, self.dimms, known, self.lowers[k], cutoff, limit)
            self.lowers[k], self.reached[k], self.domains[k] = int(low), int(reached), domain
            if table is not self.experts:
                self.offer(domain[: self.size])
            elif reached < self.upper:  # nothing is relaxed: the makespan is its own
                self.upper, self.domain = int(reached), domain

    def offer(self, domain: Ints) -> None:
        """Take a schedule, and what TriMoE's refinement makes of it, if it is the best so far."""
        domain = domain.copy()
        makespan = int(refine(self.experts, domain, self.dimms, True, True))
        if makespan < self.upper:
            self.upper, self.domain = makespan, domain


def relaxations(experts: Ints, size: int) -> list[Ints]:
    """Return the tables of schema 1 that a table of schema 2 is relaxed to, itself if it is none.

    The base load becomes a striped expert that reads nothing and would take the CPU longer than
    anything else together. The first relaxation has the GPU's computation (TD-C3), the second its
    transfers in place of it (TD-C7).
    """
    if len(experts) <= PCIE:
        return [experts]
    computing = experts[: PLACE + 1].copy()
    computing[CPU, size:] = computing[:PLACE].sum()
    if not experts[PCIE].any():
        return [computing]
    moving = experts[: PLACE + 1, :size].copy()
    moving[GPU] = experts[PCIE, :size]
    return [computing, moving]


def narrow(
    experts: Ints, dimms: int, known: tuple[int, Ints], lower: int, cutoff: int, limit: int
) -> tuple[int, int, Ints]:
    """Go on from a schedule (`known`: its makespan and itself) and a proven lower bound.

    Returns the new bound, makespan and schedule. Makespans from `cutoff` on are of no interest; it
    gives up after about `limit` labels, of which a million takes some 10 ms. The table is one of
    schema 1. This loop is plain Python: as compiled code it would have all that it calls compiled
    once more.
    """
    bound, least, most = simple_bound(experts, dimms)
    best, domain = known
    if bound >= best:
        return best, best, domain
    grid, scale = grid_and_scale(experts)
    lower = on_grid(max(lower, bound), grid)
    upper = min(best, cutoff)
    if lower >= upper:
        return min(lower, best), best, domain
    labels = pareto_labels(experts, dimms, least, most, lower, upper, limit)
    spend(CALL + labels.table.shape[1] / STATES_PER_UNIT)
    if not labels.complete:
        return lower, best, domain
    lower, multiplier = least_open(experts, labels, lower, upper, grid, scale)
    width, step, work = FIRST_WIDTH, (upper - lower) // FIRST_STEPS, 0
    while lower < upper and work < limit:
        threshold = min(lower + step // grid * grid, on_grid(upper, grid) - grid)
        outcome = decide(experts, dimms, labels, threshold, scale, multiplier, width, limit - work)
        work += outcome.work
        spend(CALL + outcome.work / STATES_PER_UNIT)
        if outcome.makespan_ns < best:
            best, domain = outcome.makespan_ns, outcome.domain
            upper = min(upper, best)
        if outcome.feasibility == Feasibility.FEASIBLE:
            lower = max(lower, on_grid(min(outcome.host_ns, best), grid))
        elif outcome.feasibility == Feasibility.INFEASIBLE:
            lower = threshold + grid
            step = 4 * step + grid
        elif step >= grid:
            step = step // 8
        else:
            width *= WIDEN
    return min(lower, best), best, domain


@short(FEW)
def least_open(
    experts: Ints, labels: Labels, lower: int, upper: int, grid: int, scale: int
) -> tuple[int, int]:
    """Return the least threshold that the relaxation leaves open (else `upper`), and a multiplier.

    Thresholds from `lower` to below `upper`, by bisection: a higher threshold has more modes.
    """
    free = np.full(experts.shape[1], FREE, np.int64)
    first: int = 0
    last: int = -(-(upper - lower) // grid)
    multiplier = scale // 2
    probe = last - 1
    while first < last:
        threshold = lower + probe * grid
        modes, start, is_open = modes_at(experts, labels, threshold, 0, free)
        if is_open:
            multiplier, _, refuted = best_multiplier(modes, start, threshold, scale, multiplier)
            is_open = not refuted
        if is_open:
            last = probe
        else:
            first = probe + 1
        probe = (first + last) // 2
    return min(lower + first * grid, upper), multiplier


def on_grid(value: int, grid: int) -> int:
    """Return the least multiple of `grid` that is not below a value."""
    return -(-value // grid) * grid


def grid_and_scale(experts: Ints) -> tuple[int, int]:
    """Return what every makespan is a multiple of, and a safe scale of multipliers.

    The grid is the greatest common divisor of all costs, at least 1. The scale is a power of two by
    which any sum of the instance's costs can be multiplied safely.
    """
    costs = experts[:PLACE].ravel()
    total = 1 + int(costs.sum())
    scale = min(SAFE.bit_length() - total.bit_length() - 1, MAX_SCALE_BITS)
    return max(int(np.gcd.reduce(costs)), 1), 1 << max(scale, 0)
