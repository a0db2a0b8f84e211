"""Decomposition by striped reads: can makespan C be reached with exactly r of them, for each r.

Few migrations fit into the windows, so r can take few values only, and once C and r are fixed every
DIMM has the same known capacity, C less r times a striped read's charge, for what lies on it alone.
`plans` lists what may become of the experts of each DIMM together, `plan_model` combines plans by
dynamic programming that Lagrangian multipliers prune, and `plan_model` refines what is known of
experts that change their DIMM until the combinations found can be carried out. Where every DIMM has
a link of its own, where channels or too many plans leave a subproblem open, CP-SAT decides
(`subproblem`). `search` raises, for each r, the least makespan that is not refuted, until the
incumbent is the least of all. The method is published as `evacuation`.

Proof
-----
Let times be counted in steps of the costs' common divisor, which every load is a multiple of.

1. *Modes.* `Modes` leaves out only modes that another one replaces without using more of any
   device (RE-C8 to RE-C12) or window (RE-C5 to RE-C7, RE-C13) and with as many striped reads: a
   host's read of a localized expert by its NDP run on the same DIMM, if that takes no more of the
   DIMM; a GPU hit after a migration of the host copy by the hit alone; a prefetched expert that
   runs elsewhere by the same without the prefetch. So an optimal solution with the modes that are
   left exists.
2. *Arrivals.* A subproblem does not say which DIMM an expert is brought to. It has one count per
   DIMM and length, and the counts of a length sum to the number of experts brought for that long;
   what a host reads is counted apart where there are channels, and what is moved apart from what is
   newly localized where every DIMM has its own link. A solution gives such counts. Counts give a
   solution: deal them out among the experts of their kind in any way. Loads of DIMMs, channels and
   links depend on these only. An expert that is dealt its own DIMM stays there without a migration,
   and causes the same load in less link time.
3. *Subproblems.* With 1 and 2, the model of (C, r) is feasible exactly if there is a
   valid one of makespan at most C with exactly r striped reads: GPU, CPU, PCIe, each DIMM and each
   channel, which r striped reads keep busy in full, end by C, slots and windows are kept to. A
   number of reads outside `Modes.reads` is impossible: every expert that is read striped is striped
   today or carried by DIMM-Link, and a striped expert that is not resident is read unless it is
   prefetched or carried by DIMM-Link.
4. *Plans.* One plan per group of experts fixes everything but targets. `plan_model` asks of them
   hosts, PCIe, windows, slots and the number of reads (RE-C1 to RE-C9, RE-C12), and of targets only
   this: for each of some threshold lengths, DIMMs offer to take in at least as many experts as are
   brought anywhere for at least that long, where a DIMM offers what it has room for if all are cut
   to thresholds. A solution obeys that: cut the experts that a DIMM takes in to the greatest
   threshold that is not longer. If every length brought is a threshold, offers can be carried out:
   the k-th longest expert is not longer than the k-th longest offered, so it takes that place. So
   a refutation holds, and a combination that cannot be carried out brings a length that is no
   threshold yet; it becomes one.
5. *Labels* (`moeopt.algorithms.labels`). Combinations are choices of one plan per group within the
   limits, reads met exactly, the balance of each threshold at most 0.
6. *Leavers* are implied. An expert that stays keeps its DIMM busy for at least its floor, the
   shorter of its NDP run and a read, and the fewest leave if the largest floors go first. Residents
   may be gone without leaving and are not counted.
7. *Counting.* A non-resident that leaves its DIMM, or a striped one that is not read, is prefetched
   or carried by DIMM-Link. If there are more of them than prefetches and link moves, (C, r) is
   refuted without a solver.
8. *Termination.* A refutation of (C, r) is one of (C', r) for all C' < C. So the least over r of
   the least makespan not refuted is a lower bound, and the incumbent is optimal when it meets that.
   Each outcome raises that for its r or lowers the incumbent, and the last round waits for each.

Source: the exact method is this project's own; the problem is TriMoE 4.3.

Which subproblems are solved, in which order, and what their outcomes prove.
"""

from contextlib import suppress
from functools import cached_property

from moeopt.core.search import Feasibility, Search
from moeopt.problems.relayout.bounds import lower_bound
from moeopt.problems.relayout.check import objective
from moeopt.problems.relayout.heuristics import WARM_START
from moeopt.problems.relayout.instance import Instance, Solution
from moeopt.problems.relayout.modes import Modes

from .plan_model import PlanModel
from .plans import TooManyError
from .subproblem import Dimm, Subproblem

EFFORTS = ((1_000, 0.5), (20_000, 4.0), (200_000, 32.0), (200_000, float("inf")))
"""Labels per step, and CP-SAT's deterministic time: a little for all, then more for those left."""

MAX_SIZE = 50_000
"""Up to so many (expert, DIMM) pairs a subproblem is built in a fraction of a second."""

Effort = tuple[int, float]


def solve(instance: Instance, search: Search) -> None:
    """Prove or improve the best of the cheap heuristics; see the package's docstring."""
    start = WARM_START(instance)
    makespan = objective(instance, start)
    search.offer(start, makespan)
    modes = Modes(instance)
    lower = -(-lower_bound(instance) // modes.step_ns)
    search.prove(lower * modes.step_ns)
    if search.closed:
        search.note = "CLOSED_BY_BOUND"
    elif len(modes.rows) * instance.dimms > MAX_SIZE:
        search.note = "TOO_LARGE"
    else:
        run = _Decomposition(modes, search, lower, makespan // modes.step_ns)
        run.close()
        search.enough = not search.closed and run.is_enough(min(run.lower.values()))
        search.note = "CLOSED" if search.closed else "ENOUGH" if search.enough else "STOPPED"


class _Decomposition:
    """The least makespan that is not refuted yet, for each number of striped reads.

    Attributes
    ----------
    lower
        Number of reads -> that makespan, in steps.
    upper
        The incumbent's makespan, in steps.
    """

    def __init__(self, modes: Modes, search: Search, lower: int, upper: int) -> None:
        self.modes, self.search, self.upper = modes, search, upper
        self.lower = dict.fromkeys(modes.reads, lower)
        self._promise = dict.fromkeys(modes.reads, 0.0)
        self._plans: PlanModel | None = None
        if PlanModel.applies(modes):
            with suppress(TooManyError):
                self._plans = PlanModel(modes, upper)

    @cached_property
    def dimms(self) -> list[Dimm]:
        """Return every state of every DIMM."""
        return [Dimm(self.modes, dimm) for dimm in range(self.modes.dimms)]

    def close(self) -> None:
        """Go on until every number of reads is refuted below the incumbent, or the time is up."""
        self._reached(min(self.lower.values()), EFFORTS[0])  # the bound often is the optimum
        for effort in EFFORTS:
            self._bisect(effort)

    def _bisect(self, effort: Effort) -> None:
        """Close in on the optimum; what takes more than `effort` counts as refuted meanwhile.

        The last makespan tried is one step below the incumbent's.
        """
        low = min(self.lower.values())
        while not self.is_enough(low) and not self.search.stopped:
            middle = (low + self.upper) // 2
            if not self._reached(middle, effort):
                low = middle + 1

    def is_enough(self, low: int) -> bool:
        """Tell whether a bound is as near to the incumbent as it need be."""
        return self.upper - low <= int(self.search.enough_gap * self.upper)

    def _reached(self, makespan: int, effort: Effort) -> bool:
        """Try every number of reads that is not refuted, the most promising first."""
        waiting = [reads for reads in self.lower if self.lower[reads] <= makespan]
        waiting.sort(key=lambda reads: (-self._promise[reads], reads))
        for reads in waiting:
            if self.search.stopped:
                return False
            if self._solve(makespan, reads, effort) == Feasibility.FEASIBLE:
                return True
        return False

    def _solve(self, makespan: int, reads: int, effort: Effort) -> Feasibility:
        """Solve one subproblem and take down what it proves."""
        labels, deterministic = effort
        feasibility, solution = Feasibility.UNKNOWN, None
        if self._plans is not None:
            feasibility, solution = self._plans.solve(makespan, reads, self.search, labels)
        decided = feasibility != Feasibility.UNKNOWN
        last = deterministic == EFFORTS[-1][1]
        if not decided and (self._plans is None or not self._plans.exact or last):
            feasibility, solution = self._by_cp_sat(makespan, reads, deterministic)
        if feasibility == Feasibility.INFEASIBLE:
            self._refuted(makespan, reads)
        elif solution is not None:
            self._promise[reads] = float("inf")
            found = objective(self.modes.instance, solution)
            self.search.offer(solution, found)
            self.upper = min(self.upper, found // self.modes.step_ns)
        return feasibility

    def _by_cp_sat(
        self, makespan: int, reads: int, effort: float
    ) -> tuple[Feasibility, Solution | None]:
        """Let CP-SAT decide a subproblem."""
        if not self._enough_migrations(makespan, reads):
            return Feasibility.INFEASIBLE, None
        subproblem = Subproblem(self.modes, self.dimms, makespan, reads)
        feasibility = subproblem.solve(self.search, effort)
        self._promise[reads] = subproblem.effort_spent
        feasible = feasibility == Feasibility.FEASIBLE
        return feasibility, subproblem.decode() if feasible else None

    def _refuted(self, makespan: int, reads: int) -> None:
        """Raise the bound for a number of reads past a makespan that it cannot reach."""
        self.lower[reads] = max(self.lower[reads], makespan + 1)
        proven = min(min(self.lower.values()), self.upper)
        self.search.prove(proven * self.modes.step_ns)

    def _enough_migrations(self, makespan: int, reads: int) -> bool:
        """Return whether counting alone does not refute the subproblem."""
        capacity = makespan - reads * self.modes.striped_read
        if capacity < 0 or makespan < reads * self.modes.channel_read:
            return False
        leavers = sum(dimm.least_leavers(capacity) for dimm in self.dimms)
        return leavers <= self.modes.leavers_allowed(reads)


__all__ = ["solve"]
