"""``verify``: what a solver of floats claims is proven again by CP-SAT, in integers."""

from dataclasses import replace

from moeopt.core.errors import InputError, ModelMismatchError
from moeopt.solvers import in_parts
from moeopt.solvers.limits import TimeLimitError
from moeopt.solvers.methods import get_method
from moeopt.solvers.task import Outcome, Task

BY = "cp-sat"


def verified(task: Task, outcome: Outcome) -> Outcome:
    """Return the outcome with what CP-SAT confirms of its bound in the time that is left.

    CP-SAT starts from the outcome's solution, and its own bound takes the place of the claimed one,
    so that nothing rests on floats: neither the nodes that a MILP solver cut off as infeasible
    within its tolerances nor its cutting planes. The solution was checked in integers anyhow.

    Raises
    ------
    ModelMismatchError
        If CP-SAT finds a solution below the claimed bound, or one where there is to be none.
    """
    if outcome.proven is None and outcome.bound is None:
        return outcome
    again = get_method(task.problem, BY)
    known = replace(task, method=again, verify=False)
    if outcome.solution is not None:
        check = task.problem.check
        if check.violations(task.instance, outcome.solution):  # of a relaxed model, or a bug
            known.start = known.upper = None
        else:
            known.start, known.upper = outcome.solution, task.checked_objective(outcome.solution)
    exact = _unknown(outcome)
    if outcome.termination != "interrupted":
        try:
            exact = in_parts.run(known)
        except (InputError, TimeLimitError) as error:
            exact = _unknown(outcome, str(error) or "NO TIME LEFT")
    below = outcome.bound is not None and exact.claim is not None and exact.claim < outcome.bound
    if below or (outcome.proven == "infeasible" and exact.claim is not None):
        where = f"{task.instance.name}, method {task.method.name}"
        claim = outcome.proven if outcome.bound is None else f"the bound {outcome.bound}"
        raise ModelMismatchError(f"{where}: claims {claim}, {BY} finds {exact.claim}")
    if exact.claim is not None and (known.upper is None or exact.claim < known.upper):
        outcome.solution, outcome.claim, outcome.tolerance = exact.solution, exact.claim, 0
    outcome.raw_status += f", {BY} on the proof: {exact.raw_status}"
    outcome.proven, outcome.bound = exact.proven, exact.bound
    outcome.termination = exact.termination
    outcome.solve_s += exact.build_s + exact.solve_s
    return outcome


def _unknown(outcome: Outcome, reason: str = "NOT RUN") -> Outcome:
    """Return what CP-SAT knows without having run: nothing."""
    interrupted = outcome.termination == "interrupted"
    return Outcome(None, reason, "interrupted" if interrupted else "time_limit")
