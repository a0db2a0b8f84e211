"""What needs no solver: heuristics, decisions for later loads, users' rules, every candidate."""

from contextlib import suppress

from moeopt.core.clock import TimeLimitError, spend
from moeopt.core.errors import InputError
from moeopt.core.problem import EXACT, ROBUST
from moeopt.core.search import Search
from moeopt.core.settlements import split_name
from moeopt.solvers.limits import run_interruptible, within
from moeopt.solvers.rule_process import apply_apart, runs_apart
from moeopt.solvers.rules import RuleFailedError, apply_rule
from moeopt.solvers.task import Outcome, Task

CANDIDATES_PER_CLOCK_READING = 256
CANDIDATES_PER_UNIT = 30_000
"""Of a dozen decisions each; the checker, in Python, sees each of them."""


def run_heuristic(task: Task) -> Outcome:
    """Return the heuristic's solution; it claims no objective and no bound."""
    name, _ = split_name(task.method.name)
    known = task.problem.known_heuristic(name)
    if known is None:
        raise ValueError(f"{name} is no heuristic of {task.problem.name}")
    heuristic = task.problem.function(known)
    begin = task.deadline.elapsed_s
    with task.deadline.told():
        solution = heuristic(task.instance, **task.method.settled)
    outcome = Outcome(solution, "HEURISTIC", solve_s=task.deadline.elapsed_s - begin)
    if task.deadline.remaining_s == 0:
        outcome.termination = "time_limit"
    return outcome


def run_robust(task: Task) -> Outcome:
    """Return the decision as a solution of the observed loads, on which the checker recomputes it.

    What the decision is worth on the sampled futures stands in `Outcome.raw_status`: it is a sum
    over them, or a quantile, and no objective of this instance.
    """
    begin = task.deadline.elapsed_s
    futures = task.futures
    if not task.problem.has(ROBUST):
        raise InputError(f"method: {task.problem.name} has no {ROBUST!r}")
    search = Search(task.deadline.remaining_s, task.seed, task.workers)

    def decide() -> None:
        with suppress(TimeLimitError):
            draw = task.problem.draw(task.instance, futures, task.seed)
            task.problem.decide(task.instance, draw, search, futures)

    with task.deadline.told(gives_up=True):
        running = run_interruptible(decide, search.stop, search.limit_s)
    if search.solution is None:  # a kernel is compiled for the first time, say
        with task.deadline.told():
            start = task.problem.start(task.instance)
        outcome = Outcome(start, "NOTHING DECIDED in time: a heuristic's answer", "time_limit")
    else:
        of = "mean" if futures.quantile is None else f"{futures.quantile:g}-quantile"
        here = task.problem.adopted(task.instance, search.solution, EXACT)
        outcome = Outcome(here, f"ROBUST ({of} of sampled futures)")
    if running.interrupted:
        outcome.termination = "interrupted"
    elif search.stopped or not running.ended:
        outcome.termination = "time_limit"
    outcome.solve_s = task.deadline.elapsed_s - begin
    return outcome


def run_rule(task: Task) -> Outcome:
    """Return the rule's solution if it is one and the checker finds nothing wrong with it."""
    rule = task.method.rule
    if rule is None:
        raise ValueError(f"{task.method.name} is not a rule")
    begin, remaining = task.deadline.elapsed_s, task.deadline.remaining_s
    try:
        if runs_apart(rule):
            running = apply_apart(rule, task.instance, remaining)
        else:
            running = run_interruptible(
                lambda: apply_rule(rule, task.instance), lambda: None, remaining
            )
    except RuleFailedError as error:
        return _failed(task, str(error), begin)
    if running.value is None:
        outcome = Outcome(None, "LEFT BEHIND", "time_limit")
        outcome.termination = "interrupted" if running.interrupted else "time_limit"
    else:
        for constraint, sentence in task.problem.violations(task.instance, running.value):
            return _failed(task, f"its solution violates {constraint}: {sentence}", begin)
        outcome = Outcome(running.value, "HEURISTIC")
    outcome.solve_s = task.deadline.elapsed_s - begin
    return outcome


def _failed(task: Task, reason: str, begin: float) -> Outcome:
    return Outcome(None, reason, failed=True, solve_s=task.deadline.elapsed_s - begin)


def run_brute_force(task: Task) -> Outcome:
    """Return the candidate of least objective among those without violations.

    Raises
    ------
    InputError
        If the instance has more candidates than the oracle is meant for.
    """
    problem = task.problem
    pack = task.packing.pack
    count = within(task.deadline, lambda: problem.count(task.instance))  # some go one by one
    if count > (limit := problem.max_candidates()):
        many = f"{count:.3g}" if count < 10**300 else "over 1e+300"  # a double ends at 1e+308
        raise InputError(f"brute-force: {many} candidates are more than the limit of {limit}")
    best, best_objective, stopped = None, None, ""
    begin = task.deadline.elapsed_s
    try:
        for number, candidate in enumerate(problem.candidates(task.instance)):
            if number % CANDIDATES_PER_CLOCK_READING == 0:
                spend(CANDIDATES_PER_CLOCK_READING / CANDIDATES_PER_UNIT)
                if task.deadline.remaining_s == 0:
                    stopped = "time_limit"
                    break
            objective = pack(problem.objective(task.instance, candidate))
            better = best_objective is None or objective < best_objective
            if better and not problem.violations(task.instance, candidate):
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
        outcome.bound = outcome.own_bound = best_objective
    return outcome
