"""CP-SAT as this package asks it: parameters under which it proved nothing false, limits, answers.

OR-tools 9.15 proves wrong optima, wrong bounds and wrong infeasibility where numbers are large and
share no divisor. The cause is in its presolve: the search for constraints that include each other
(google/or-tools 5293), and probing. Under `SAFE` both are off, and so are substitutions, which
ended the whole process ("Check failed") on one of 2,500 random instances. `SECOND` has no presolve
at all: what one of them proves, the other one can confirm (docs/proofs.md has the measurements).

Every model is solved by `Run`, so that no use of CP-SAT misses the parameters or takes Ctrl-C away
from the caller. What an answer refutes is recorded in the `Search` that it is asked in, so that a
proof which rests on CP-SAT's word is never mistaken for one of the package's own.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from logging import DEBUG
from typing import Any, Literal

from moeopt.core.clock import counts_work, solving_clock, spend
from moeopt.core.formulation import IntVar, cp_model
from moeopt.core.logs import logger_of, one_line
from moeopt.core.search import Refutation, record
from moeopt.core.signals import signals_stop

logger = logger_of(__name__)

Parameters = Mapping[str, object]


@dataclass(frozen=True)
class Way:
    """A set of parameters by name."""

    name: str
    parameters: Parameters


SAFE = Way(
    "presolve without inclusion and probing",
    {
        "presolve_inclusion_work_limit": 0,
        "cp_model_probing_level": 0,
        "presolve_substitution_level": 0,
    },
)
"""The way of every first answer; no false one is known."""

SECOND = Way("no presolve", {"cp_model_presolve": False, "cp_model_probing_level": 0})
"""The way of a second opinion."""

DETERMINISTIC_PER_UNIT = 1.0
"""CP-SAT's deterministic time per unit of work: about a second of one core, too."""

Status = Literal["optimal", "feasible", "infeasible", "unknown", "invalid"]

_STATUS: dict[object, Status] = {
    cp_model.OPTIMAL: "optimal",
    cp_model.FEASIBLE: "feasible",
    cp_model.INFEASIBLE: "infeasible",
    cp_model.UNKNOWN: "unknown",
    cp_model.MODEL_INVALID: "invalid",
}


@dataclass(frozen=True)
class Answer:
    """What CP-SAT said of a model.

    Attributes
    ----------
    bound
        Lower bound on the objective in its integers; None without an objective or a bound.
    solution
        Value of each variable by its index; empty if none was found.
    value
        Returns the value of an expression in the solution.
    effort
        Deterministic time that it took.
    """

    status: Status
    bound: int | None
    solution: Sequence[int]
    value: Callable[[Any], int]
    effort: float

    @property
    def found(self) -> bool:
        """Whether there is a solution."""
        return self.status in ("optimal", "feasible")


class StoppedError(KeyboardInterrupt):
    """Ctrl-C has ended a run of CP-SAT, which had an answer all the same."""

    def __init__(self, answer: Answer) -> None:
        super().__init__()
        self.answer = answer


class Run:
    """One run of CP-SAT on a model.

    Parameters
    ----------
    model
        A `CpModel`.
    limit
        What it may take, by the clock of this thread: seconds, or units of work. Under a work limit
        it runs in one thread and by its own deterministic time, which is reported as spent.
    workers
        Threads, where seconds count.
    effort
        Limit of its deterministic time beside.
    way
        `SAFE`, the default, or `SECOND`.
    options
        Further parameters of CP-SAT; the way's own come after them.
    """

    def __init__(
        self,
        model: cp_model.CpModel,
        limit: float,
        *,
        seed: int = 0,
        workers: int = 1,
        effort: float = float("inf"),
        way: Way | None = None,
        options: Parameters | None = None,
    ) -> None:
        self.model, self.way = model, way or SAFE
        self._solver = cp_model.CpSolver()
        given = self._solver.parameters
        own = {"random_seed": seed, "num_workers": workers}
        chosen = {**(options or {}), **self.way.parameters, **own}
        for name, value in chosen.items():
            setattr(given, name, value)
        given.catch_sigint_signal = False  # Ctrl-C is the caller's
        if (seconds := solving_clock().seconds_for(limit)) != float("inf"):
            given.max_time_in_seconds = max(0.0, seconds)
        if counts_work():
            given.num_workers = 1
            effort = min(effort, max(0.0, limit) * DETERMINISTIC_PER_UNIT)
        if effort != float("inf"):
            given.max_deterministic_time = effort

    def stop(self) -> None:
        """End the run soon, from any thread."""
        self._solver.stop_search()

    def solve(
        self,
        callback: cp_model.CpSolverSolutionCallback | None = None,
        on_bound: Callable[[float], None] | None = None,
        *,
        proves: Literal["nothing", "infeasibility", "bound"] = "bound",
    ) -> Answer:
        """Return the answer.

        Parameters
        ----------
        callback, on_bound
            Called at each solution, and at each bound, a double.
        proves
            What of the answer a proof of the caller's may rest on; "bound" is both.

        Raises
        ------
        StoppedError
            At Ctrl-C, which ends the run; it has the answer.
        """
        solver = self._solver
        if on_bound is not None:
            solver.best_bound_callback = on_bound
        if logger.isEnabledFor(DEBUG):
            logger.debug("CP-SAT (%s): parameters %s", self.way.name, one_line(solver.parameters))
        with signals_stop(self.stop) as hand_over:
            status = _STATUS[solver.solve(self.model, callback)]
        response = solver.response_proto
        spend(response.deterministic_time / DETERMINISTIC_PER_UNIT)
        bound = None
        if status in ("optimal", "feasible", "unknown") and self.model.has_objective():
            # The integer itself: the other bound is a double, which is exact up to 2**53 only.
            bound = response.inner_objective_lower_bound + int(self.model.proto.objective.offset)
        refuted = status == "infeasible" or (proves == "bound" and bound is not None)
        if refuted and proves != "nothing":
            record(lambda: Refutation(self.model.clone(), bound))
        solution = list(response.solution)
        claims = status, bound, response.objective_value if solution else None
        logger.debug("CP-SAT (%s) claims: %s, bound %s, objective %s", self.way.name, *claims)
        answer = Answer(status, bound, solution, solver.value, response.deterministic_time)
        try:
            hand_over()
        except KeyboardInterrupt:
            raise StoppedError(answer) from None
        return answer


def again(refutation: Refutation, limit: float, seed: int) -> Run:
    """Return the run that asks, without presolve, for what is said not to exist."""
    model = refutation.model
    if refutation.least is not None:
        model = model.clone()
        add_below(model, refutation.least)
    return Run(model, limit, seed=seed, way=SECOND)


def objective_of(model: cp_model.CpModel, solution: Sequence[int]) -> int:
    """Return the objective of a solution in integers; CP-SAT's own is a double, exact to 2**53."""
    goal = model.proto.objective
    terms = zip(goal.vars, goal.coeffs, strict=True)
    total: int = sum(factor * solution[column] for column, factor in terms)
    return int(goal.offset) + total


def add_below(model: cp_model.CpModel, limit: int) -> None:
    """Post that the objective of a model is below a number."""
    goal = model.proto.objective
    variables: list[IntVar] = [model.get_int_var_from_proto_index(v) for v in goal.vars]
    total = cp_model.LinearExpr.weighted_sum(variables, list(goal.coeffs))
    model.add(total <= limit - 1 - int(goal.offset))
