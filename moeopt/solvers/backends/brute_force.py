"""Enumerate every candidate and let the checker choose: slow, and hard to get wrong."""

from moeopt.core.clock import spend
from moeopt.core.errors import InputError
from moeopt.solvers.limits import within
from moeopt.solvers.task import Outcome, Task

CANDIDATES_PER_CLOCK_READING = 256
CANDIDATES_PER_UNIT = 30_000
"""Of a dozen decisions each; the checker, in Python, sees each of them."""


def run(task: Task) -> Outcome:
    """Return the candidate of least objective among those without violations.

    Raises
    ------
    InputError
        If the instance has more candidates than the oracle is meant for.
    """
    oracle, check = task.problem.oracle, task.problem.check
    pack = task.packing.pack
    count = within(task.deadline, lambda: oracle.count(task.instance))  # some go one by one
    if count > oracle.MAX_CANDIDATES:
        limit = oracle.MAX_CANDIDATES
        many = f"{count:.3g}" if count < 10**300 else "over 1e+300"  # a double ends at 1e+308
        raise InputError(f"brute-force: {many} candidates are more than the limit of {limit}")
    best, best_objective, stopped = None, None, ""
    begin = task.deadline.elapsed_s
    try:
        for number, candidate in enumerate(oracle.candidates(task.instance)):
            if number % CANDIDATES_PER_CLOCK_READING == 0:
                spend(CANDIDATES_PER_CLOCK_READING / CANDIDATES_PER_UNIT)
                if task.deadline.remaining_s == 0:
                    stopped = "time_limit"
                    break
            objective = pack(check.objective(task.instance, candidate))
            better = best_objective is None or objective < best_objective
            if better and not check.violations(task.instance, candidate):
                best, best_objective = candidate, objective
                task.trace.record(objective=objective)
    except KeyboardInterrupt:
        stopped = "interrupted"
    outcome = Outcome(best, "ENUMERATED", claim=best_objective)
    outcome.solve_s = task.deadline.elapsed_s - begin
    if stopped:
        outcome.raw_status = "STOPPED"
        outcome.termination = "interrupted" if stopped == "interrupted" else "time_limit"
    else:
        outcome.proven = "infeasible" if best is None else "optimal"
        outcome.bound = best_objective
    return outcome
