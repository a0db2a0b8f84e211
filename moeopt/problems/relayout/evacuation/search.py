"""Which questions are asked, in which order, and what their answers prove."""

from moeopt.problems.relayout.bounds import lower_bound
from moeopt.problems.relayout.check import objective
from moeopt.problems.relayout.heuristics import WARM_START
from moeopt.problems.relayout.instance import Instance
from moeopt.problems.search import Search

from .choices import Choices
from .patterns import Dimm
from .question import Answer, Question

EFFORTS = (0.5, 4.0, 32.0, float("inf"))
"""CP-SAT's deterministic time per question: first all get a little, then those left get more."""

MAX_SIZE = 50_000
"""Up to so many (expert, DIMM) pairs a question is built in a fraction of a second."""


def solve(instance: Instance, search: Search) -> None:
    """Prove or improve the best of the cheap heuristics; see the package's docstring."""
    start = WARM_START(instance)
    makespan = objective(instance, start)
    search.offer(start, makespan)
    choices = Choices(instance)
    lower = -(-lower_bound(instance) // choices.step_ns)
    search.prove(lower * choices.step_ns)
    if search.closed:
        search.note = "CLOSED_BY_BOUND"
    elif len(choices.rows) * instance.dimms > MAX_SIZE:
        search.note = "TOO_LARGE"
    else:
        _Evacuation(choices, search, lower, makespan // choices.step_ns).close()
        search.note = "CLOSED" if search.closed else "STOPPED"


class _Evacuation:
    """The least makespan that is not ruled out yet, for each number of striped reads.

    Attributes
    ----------
    lower
        Number of reads -> that makespan, in steps.
    upper
        The incumbent's makespan, in steps.
    """

    def __init__(self, choices: Choices, search: Search, lower: int, upper: int) -> None:
        self.choices, self.search, self.upper = choices, search, upper
        self.dimms = [Dimm(choices, dimm) for dimm in range(choices.dimms)]
        self.lower = dict.fromkeys(choices.reads, lower)
        self._promise = dict.fromkeys(choices.reads, 0.0)

    def close(self) -> None:
        """Ask until every number of reads is ruled out below the incumbent, or the time is up."""
        self._reached(min(self.lower.values()), EFFORTS[0])  # the bound often is the optimum
        for effort in EFFORTS:
            self._bisect(effort)

    def _bisect(self, effort: float) -> None:
        """Close in on the optimum; what takes more than `effort` counts as ruled out meanwhile.

        The last makespan asked about is one step below the incumbent's.
        """
        low = min(self.lower.values())
        while low < self.upper and not self.search.stopped:
            middle = (low + self.upper) // 2
            if not self._reached(middle, effort):
                low = middle + 1

    def _reached(self, makespan: int, effort: float) -> bool:
        """Ask about every number of reads that is not ruled out, the most promising first."""
        waiting = [reads for reads in self.lower if self.lower[reads] <= makespan]
        waiting.sort(key=lambda reads: (-self._promise[reads], reads))
        for reads in waiting:
            if self.search.stopped:
                return False
            if self._ask(makespan, reads, effort) == "yes":
                return True
        return False

    def _ask(self, makespan: int, reads: int, effort: float) -> Answer:
        """Ask one question and take down the answer."""
        answer: Answer = "no"
        if self._enough_migrations(makespan, reads):
            question = Question(self.choices, self.dimms, makespan, reads)
            answer = question.ask(self.search, effort)
            self._promise[reads] = question.effort_spent
        if answer == "no":
            self.lower[reads] = max(self.lower[reads], makespan + 1)
            proven = min(min(self.lower.values()), self.upper)
            self.search.prove(proven * self.choices.step_ns)
        elif answer == "yes":
            solution = question.decode()
            self._promise[reads] = float("inf")
            found = objective(self.choices.instance, solution)
            self.search.offer(solution, found)
            self.upper = min(self.upper, found // self.choices.step_ns)
        return answer

    def _enough_migrations(self, makespan: int, reads: int) -> bool:
        """Return whether counting alone leaves the question open."""
        room = makespan - reads * self.choices.striped_read
        if room < 0:
            return False
        leavers = sum(dimm.least_leavers(room) for dimm in self.dimms)
        return leavers <= self.choices.leavers_allowed(reads)
