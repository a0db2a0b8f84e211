"""Which subproblems are solved, in which order, and what their outcomes prove."""

from contextlib import suppress
from functools import cached_property

from moeopt.core.search import Feasibility, Search
from moeopt.problems.relayout.bounds import lower_bound
from moeopt.problems.relayout.check import objective
from moeopt.problems.relayout.heuristics import WARM_START
from moeopt.problems.relayout.instance import Instance, Solution

from .modes import Modes
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
        _Decomposition(modes, search, lower, makespan // modes.step_ns).close()
        search.note = "CLOSED" if search.closed else "STOPPED"


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
        while low < self.upper and not self.search.stopped:
            middle = (low + self.upper) // 2
            if not self._reached(middle, effort):
                low = middle + 1

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
