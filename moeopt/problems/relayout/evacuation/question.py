"""One question to CP-SAT: can this makespan be reached with so many striped reads."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from threading import Event, Thread
from typing import Any, Literal

from ortools.sat.python import cp_model

from moeopt.problems.relayout.solution import Domain, Kind, Migration, Solution
from moeopt.problems.search import Search

from .choices import Choice, Choices
from .patterns import GONE, ON_HOST, ON_NDP, Dimm

Answer = Literal["yes", "no", "unknown"]

POLL_S = 0.05

GLANCE = {
    "max_deterministic_time": 0.03,
    "max_presolve_iterations": 1,
    "cp_model_probing_level": 0,
}
"""Parameters for a first look: most questions are answered by it, at half the cost."""

ANSWERS: dict[Any, Answer] = {
    cp_model.OPTIMAL: "yes",
    cp_model.FEASIBLE: "yes",
    cp_model.INFEASIBLE: "no",
}


class Question:
    """The model for one makespan and one number of striped reads.

    Parameters
    ----------
    choices, dimms
        The instance, and its DIMMs.
    makespan, reads
        In steps; how many experts the hosts read striped.
    """

    def __init__(self, choices: Choices, dimms: list[Dimm], makespan: int, reads: int) -> None:
        self.choices, self.makespan, self.reads = choices, makespan, reads
        self.room = makespan - reads * choices.striped_read
        self.effort_spent = 0.0
        self.model = cp_model.CpModel()
        self.chosen: dict[int, list[tuple[Choice, Any]]] = {}
        self.arrivals: dict[int, list[Any]] = {}
        self._choose()
        self._fill_hosts()
        self._limit_migrations()
        self._bring_arrivals()
        for number, dimm in enumerate(dimms):
            self._fill_dimm(number)
            self._evacuate(dimm)

    def ask(self, search: Search, effort: float) -> Answer:
        """Answer with at most `effort` units of CP-SAT's deterministic time, after a glance."""
        answer = self._solve(search, GLANCE)
        if answer == "unknown" and not search.stopped:
            answer = self._solve(search, {"max_deterministic_time": effort})
        return answer

    def _solve(self, search: Search, parameters: Mapping[str, Any]) -> Answer:
        solver = cp_model.CpSolver()
        solver.parameters.max_time_in_seconds = search.remaining_s
        solver.parameters.num_workers = search.workers
        solver.parameters.random_seed = search.seed
        solver.parameters.linearization_level = 2
        solver.parameters.symmetry_level = 0  # looking for symmetries takes longer than most proofs
        solver.parameters.catch_sigint_signal = False
        for name, value in parameters.items():
            setattr(solver.parameters, name, value)
        ended = Event()
        watch = Thread(target=_stop_in_time, args=(solver, search, ended), daemon=True)
        watch.start()
        try:
            status = solver.solve(self.model)
        finally:
            ended.set()
            watch.join()
        self._value = solver.value
        self.effort_spent += solver.response_proto.deterministic_time
        return ANSWERS.get(status, "unknown")

    def decode(self) -> Solution:
        """Return the solution after the answer yes.

        The counts of arrivals on each DIMM are dealt out among the experts of that length. One that
        is dealt its own DIMM does not migrate.
        """
        instance = self.choices.instance
        places = {
            length: [d for d, count in enumerate(counts) for _ in range(self._value(count))]
            for length, counts in self.arrivals.items()
        }
        migrations = []
        assignment: list[Domain | None] = [None] * len(instance.experts)
        for row, pairs in self.chosen.items():
            choice = next(choice for choice, variable in pairs if self._value(variable))
            assignment[row] = choice.domain
            place = None if choice.arrives is None else places[choice.arrives].pop()
            if choice.kind is not None and (place is None or place != self.choices.dimm[row]):
                expert = instance.experts[row].expert
                migrations.append(Migration(expert=expert, kind=choice.kind, dimm=place))
        return Solution(
            instance=instance.name, migrations=tuple(migrations), assignment=tuple(assignment)
        )

    def _choose(self) -> None:
        """One choice per expert, of those that fit alone."""
        for row, choices in self.choices.of.items():
            self.chosen[row] = [
                (choice, self.model.new_bool_var(f"{row},{choice.domain},{choice.kind}"))
                for choice in choices
                if max(choice.gpu, choice.cpu) <= self.makespan
                and max(choice.stays, choice.arrives or 0) <= self.room
            ]
            self.model.add_exactly_one(variable for _, variable in self.chosen[row])

    def _fill_hosts(self) -> None:
        """Let GPU and CPU end by the makespan, and read so many striped experts."""
        self.model.add(self._sum(lambda c: c.gpu) <= self.makespan)
        self.model.add(self._sum(lambda c: c.cpu) <= self.makespan)
        self.model.add(self._sum(lambda c: c.reads) == self.reads)

    def _limit_migrations(self) -> None:
        """Keep to DIMM-Link's window, and to slots and PCIe window."""
        instance = self.choices.instance
        length: dict[Kind | None, int] = {
            "stripe": instance.relayout_ns,
            "localize": instance.relayout_ns,
            "rebalance": instance.rebalance_ns,
        }
        link = self._sum(lambda c: length.get(c.kind, 0))
        self.model.add(link <= instance.dimm_link_window_ns)
        prefetches = self._sum(lambda c: c.kind == "prefetch")
        self.model.add(prefetches <= self.choices.prefetches)

    def _bring_arrivals(self) -> None:
        """Count arrivals by length and DIMM; experts of one length are all the same to it."""
        brought = defaultdict(list)
        for pairs in self.chosen.values():
            for choice, variable in pairs:
                if choice.arrives is not None:
                    brought[choice.arrives].append(variable)
        for length, variables in brought.items():
            most = len(variables) if length == 0 else min(len(variables), self.room // length)
            self.arrivals[length] = [
                self.model.new_int_var(0, most, f"{length} to {d}")
                for d in range(self.choices.dimms)
            ]
            self.model.add(sum(self.arrivals[length]) == sum(variables))

    def _fill_dimm(self, dimm: int) -> None:
        """Let what stays and what arrives fit beside the striped reads."""
        load = [
            choice.stays * variable
            for row, pairs in self.chosen.items()
            if self.choices.dimm[row] == dimm
            for choice, variable in pairs
            if choice.stays
        ]
        load += [length * counts[dimm] for length, counts in self.arrivals.items()]
        self.model.add(sum(load) <= self.room)

    def _evacuate(self, dimm: Dimm) -> None:
        """Post what is implied: some minimal pattern of the DIMM is kept to."""
        states = [self._states(row) for row in dimm.rows]
        leavers = dimm.least_leavers(self.room)
        if leavers:
            self.model.add(sum(v for state in states for v in state[GONE]) >= leavers)
        patterns = dimm.minimal_patterns(self.room)
        if patterns is None or (len(patterns) == 1 and not patterns.any()):
            return
        kept = [self.model.new_bool_var("") for _ in patterns]
        self.model.add_exactly_one(kept)
        for column, state in enumerate(states):
            gone = [k for k, p in zip(kept, patterns[:, column], strict=True) if p == GONE]
            off = [k for k, p in zip(kept, patterns[:, column], strict=True) if p != ON_NDP]
            if gone:
                self.model.add(sum(state[GONE]) >= sum(gone))
            if len(off) > len(gone):
                self.model.add(sum(state[GONE]) + sum(state[ON_HOST]) >= sum(off))

    def _states(self, row: int) -> list[list[Any]]:
        """Return an expert's variables by what becomes of it on its DIMM."""
        found: list[list[Any]] = [[], [], []]
        for choice, variable in self.chosen[row]:
            hit = choice.domain == "gpu" and self.choices.instance.experts[row].resident
            if choice.kind is not None or hit:
                state = GONE
            else:
                state = ON_NDP if choice.domain == "ndp" else ON_HOST
            found[state].append(variable)
        return found

    def _sum(self, weight: Callable[[Choice], int]) -> Any:
        """Return the sum of a weight over the choices taken."""
        terms = [
            (variable, int(weight(choice)))
            for pairs in self.chosen.values()
            for choice, variable in pairs
            if weight(choice)
        ]
        return cp_model.LinearExpr.weighted_sum(*zip(*terms, strict=True)) if terms else 0


def _stop_in_time(solver: Any, search: Search, ended: Event) -> None:
    """Stop the solver when the search is told to stop."""
    while not ended.wait(POLL_S):
        if search.stopped:
            solver.stop_search()
