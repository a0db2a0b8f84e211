"""What needs no solver: heuristics, users' rules, every candidate."""

from moeopt.core.assumptions import split_name
from moeopt.core.clock import TimeLimitError, spend
from moeopt.core.errors import HeuristicError, InputError, MoeoptError
from moeopt.core.objective import Objective, below
from moeopt.core.problem import Heuristic
from moeopt.solvers.evidence import Claim
from moeopt.solvers.limits import late_s
from moeopt.solvers.rule_process import apply_apart, runs_apart
from moeopt.solvers.rules import apply_rule, because
from moeopt.solvers.task import Outcome, Task

CANDIDATES_PER_CLOCK_READING = 256
CANDIDATES_PER_UNIT = 30_000
"""Of a dozen decisions each; the checker, in Python, sees each of them."""


def run_heuristic(task: Task) -> Outcome:
    """Return the heuristic's solution; it claims no objective and no bound.

    Raises
    ------
    HeuristicError
        If the heuristic raises what is meant for nobody's eyes; that is its cause.
    """
    name, _ = split_name(task.method.name)
    known = task.problem.known_heuristic(name)
    if known is None:
        raise ValueError(f"{name} is no heuristic of {task.problem.name}")
    heuristic = task.problem.function(known)
    begin = task.deadline.elapsed_s
    try:
        with task.deadline.told():
            solution = heuristic(task.instance, **task.method.assumed)
    except (MoeoptError, TimeLimitError):
        raise
    except Exception as error:
        raise HeuristicError(f"raised {because(error)}", task.method.name) from error
    said = "HEURISTIC" + ("" if solution is not None else _unknown_form(task, known))
    outcome = Outcome(solution, said, solve_s=task.deadline.elapsed_s - begin)
    if task.deadline.remaining_s == 0:
        outcome.termination = "time_limit"
    return outcome


def _unknown_form(task: Task, heuristic: Heuristic) -> str:
    """Return that a heuristic is for other instances, and which of the problem is for these."""
    if heuristic.knows_only is None:
        return ""
    field, value = heuristic.knows_only
    here = getattr(task.instance, field)
    if here == value:
        return ""
    published = task.problem.known_heuristic(task.problem.published)
    other = "" if published is None or published.knows_only else f"; {published.name} knows more"
    return f": {heuristic.name} knows {field} {value} alone, and here it is {here}{other}"


def run_rule(task: Task) -> Outcome:
    """Return the rule's solution if it is one and the checker finds nothing wrong with it.

    A function of this process runs in this thread, and no limit ends it. A bound that it returns is
    noted as its claim, and stays unless it is above its own solution.

    Raises
    ------
    HeuristicError
        If the rule raises, or returns no solution of the instance.
    """
    rule = task.method.rule
    if rule is None:
        raise ValueError(f"{task.method.name} is not a rule")
    begin = task.deadline.elapsed_s
    try:
        with task.deadline.told():
            if runs_apart(rule):
                found = apply_apart(rule, task.instance, late_s(task.deadline.remaining_s))
            else:
                found = apply_rule(rule, task.instance)
    except HeuristicError as error:
        raise HeuristicError(error.reason, task.method.name) from error.__cause__
    except KeyboardInterrupt:
        outcome = Outcome(None, "INTERRUPTED", "interrupted")
    else:
        outcome = Outcome(None, "ENDED AT THE LIMIT", "time_limit")
        if found is not None:
            for constraint, sentence in task.problem.violations(task.instance, found.solution):
                reason = f"its solution violates {constraint}: {sentence}"
                raise HeuristicError(reason, task.method.name)
            outcome = Outcome(found.solution, "HEURISTIC")
            _claim_bound(task, outcome, found.bound)
            if task.deadline.remaining_s == 0:
                outcome.termination = "time_limit"
    outcome.solve_s = task.deadline.elapsed_s - begin
    return outcome


def _claim_bound(task: Task, outcome: Outcome, bound: Objective | None) -> None:
    """Note a rule's bound as one engine's word; one above its own solution falls at once."""
    if bound is None or outcome.solution is None:
        return
    objective, reason = task.problem.objective(task.instance, outcome.solution), ""
    if below(objective, bound):
        reason = f"there is a solution of {objective}"
    else:
        outcome.bound, outcome.proof = task.packing.pack_bound(bound), "single"
    claim = Claim(task.method.name, "bound", bound, stands=not reason, reason=reason)
    outcome.claims.append(claim)
    outcome.raw_status += f"; {claim}"


def run_brute_force(task: Task) -> Outcome:
    """Return the candidate of least objective among those without violations.

    Raises
    ------
    InputError
        If the instance has more candidates than the oracle is meant for.
    """
    problem = task.problem
    pack = task.packing.pack
    count = problem.count(task.instance)
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
