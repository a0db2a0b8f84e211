"""``verify``: what a solver of floats claims is proven again by CP-SAT, in integers."""

from dataclasses import replace

from moeopt.core.clock import TimeLimitError
from moeopt.core.errors import InputError, ModelMismatchError
from moeopt.solvers.limits import Deadline
from moeopt.solvers.methods import get_method
from moeopt.solvers.task import Outcome, Task

BY = "cp-sat"

REFUTED = "REFUTED"
"""What `Outcome.raw_status` says where an engine's claim is false."""

QUICK_S, QUICK_SHARE = 1.0, 0.1
"""For so long, or this part of the limit if that is more, a proof is confirmed unasked."""


def verified(task: Task, outcome: Outcome) -> Outcome:
    """Return the outcome with what CP-SAT confirms of its bound.

    CP-SAT starts from the outcome's solution, and its own bound takes the place of the claimed one,
    so that nothing rests on floats: neither the nodes that a MILP solver cut off as infeasible
    within its tolerances nor its cutting planes. The solution was checked in integers anyhow.

    With ``task.verify`` it has the time that is left, and what it does not confirm counts for
    nothing. Unasked, it tries for `QUICK_S` what would close the instance; what it does not confirm
    stays, as a proof of floats.

    Where CP-SAT finds a solution below the claimed bound, or one where there is to be none, an
    engine's claim counts for nothing, and `raw_status` says `REFUTED`: the answer is CP-SAT's,
    which the checker looks at like any other.

    Raises
    ------
    ModelMismatchError
        If rules are left out, so that no checker can tell which of the two is wrong.
    """
    if task.verify is False or not outcome.floats:
        return outcome
    closes = outcome.proven == "infeasible" or (
        outcome.bound is not None and outcome.solution is not None and outcome.proven is not None
    )
    if not closes and (task.verify is None or outcome.bound is None):
        return outcome
    known = replace(task, method=get_method(task.problem, BY), verify=False)
    if task.verify is None:
        limit = max(QUICK_S, QUICK_SHARE * task.deadline.limit)
        known.deadline = Deadline(min(limit, task.deadline.remaining_s))
    if outcome.solution is not None:
        actual = task.checked_objective(outcome.solution)
        broken = task.problem.check.violations(task.instance, outcome.solution)
        wrong = not task.without and outcome.claim != actual
        if {rule for rule, _ in broken} - task.without or (
            wrong and abs((outcome.claim or 0) - actual) > outcome.tolerance
        ):
            return outcome  # a bug in the model, which `solve` tells
        known.start, known.upper = (None, None) if broken else (outcome.solution, actual)
    exact = _unknown(outcome)
    if outcome.termination != "interrupted":
        try:
            exact = task.again(known)
        except (InputError, TimeLimitError) as error:
            exact = _unknown(outcome, str(error) or "NO TIME LEFT")
    refuted = _refuted(task, outcome, exact)
    if exact.claim is not None and (known.upper is None or exact.claim < known.upper):
        outcome.solution, outcome.claim, outcome.tolerance = exact.solution, exact.claim, 0
    outcome.raw_status += f", {BY} on the proof: {exact.raw_status}{refuted}"
    outcome.solve_s += exact.build_s + exact.solve_s
    if task.verify or refuted or exact.proven is not None:
        outcome.proven, outcome.bound, outcome.floats = exact.proven, exact.bound, False
        outcome.termination = exact.termination
    else:
        outcome.exact_bound = exact.bound
    return outcome


def _refuted(task: Task, outcome: Outcome, exact: Outcome) -> str:
    """Return the words on a claim that CP-SAT contradicts; none if it does not."""
    below = outcome.bound is not None and exact.claim is not None and exact.claim < outcome.bound
    if not below and (outcome.proven != "infeasible" or exact.claim is None):
        return ""
    claim = outcome.proven if outcome.bound is None else f"the bound {outcome.bound}"
    if task.without:
        where = f"{task.instance.name}, method {task.method.name}"
        raise ModelMismatchError(f"{where}: claims {claim}, {BY} finds {exact.claim}")
    return f", {REFUTED}: {outcome.engine} claims {claim}, {BY} finds {exact.claim}"


def _unknown(outcome: Outcome, reason: str = "NOT RUN") -> Outcome:
    """Return what CP-SAT knows without having run: nothing."""
    interrupted = outcome.termination == "interrupted"
    return Outcome(None, reason, "interrupted" if interrupted else "time_limit")
