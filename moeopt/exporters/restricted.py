"""The best plan of the form that a runtime can take, and what that form costs."""

from typing import Any

from moeopt.core.envelope import InstanceEnvelope, SolutionEnvelope
from moeopt.core.errors import InputError, ModelMismatchError
from moeopt.core.objective import Objective
from moeopt.exporters.exported import Job, Loss, NoPlanError
from moeopt.problems.registry import get_problem
from moeopt.solvers.run import solve
from moeopt.solvers.verdict import check


def checked_objective(instance: InstanceEnvelope, solution: SolutionEnvelope) -> Objective:
    """Return the objective of a solution, or raise InputError if it is invalid."""
    verdict = check(instance, solution)
    if verdict.objective is None:
        constraint, sentence = verdict.violations[0]
        raise InputError(f"the solution is invalid: {constraint}: {sentence}")
    return verdict.objective


def best_restricted(
    job: Job, restriction: dict[str, Any], form: str
) -> tuple[SolutionEnvelope, Loss]:
    """Solve the instance with some of its fields changed, exactly, and compare.

    Parameters
    ----------
    job
        With a solution and its objective.
    restriction
        Field -> value.
    form
        What the restriction says, in words.

    Raises
    ------
    NoPlanError
        If there is no such plan, or none was found within the limit.
    """
    problem = get_problem(job.instance.problem)
    fields = job.instance.model_dump() | restriction
    changed: InstanceEnvelope = problem.instance.model_validate(fields)
    method = next(iter(problem.exact_methods), "cp-sat")
    result = solve(changed, method, **job.limits.asked)
    if result.solution is None:
        reason = "infeasible" if result.status == "infeasible" else "none found within the limit"
        raise NoPlanError(f"{job.instance.name}: {form}: {reason}", result.status == "infeasible")
    proven = result.status == "optimal"
    return result.solution, compared(job, changed, result.solution, form, proven)


def compared(
    job: Job, instance: InstanceEnvelope, solution: SolutionEnvelope, form: str, proven: bool
) -> Loss:
    """Return what a solution of another form costs against the job's own.

    Parameters
    ----------
    instance
        The job's, or one that differs in which solutions it allows, not in what they cost.

    Raises
    ------
    ModelMismatchError
        If the checker does not take it for a solution of that instance.
    """
    exported = check(instance, solution).objective
    if exported is None or job.objective is None:
        raise ModelMismatchError(f"{job.instance.name}: {form}: the checker rejects the plan")
    return Loss(job.instance.problem, form, job.objective, exported, proven)
