"""No contender's word is taken for its objective: the problem's checker recomputes it."""

from benchmarks.rooms.core import InstanceEnvelope, SolutionEnvelope
from benchmarks.rooms.problems import get_problem

TOLERANCE = 1e-6
"""How far a claimed objective may be off, relatively: MILP solvers compute in floats."""


class FalseClaimError(Exception):
    """A contender's solution is invalid, or costs something else than claimed."""


def checked_objective(
    instance: InstanceEnvelope, solution: SolutionEnvelope | None, claim: float | None
) -> int | None:
    """Return the checker's objective of a solution as one integer, None if there is none.

    Raises
    ------
    FalseClaimError
        If the solution breaks a constraint, or `claim` is not its objective.
    """
    if solution is None:
        return None
    problem = get_problem(instance.problem)
    for constraint, sentence in problem.violations(instance, solution):
        raise FalseClaimError(f"{constraint}: {sentence}")
    objective = problem.packing(instance).pack(problem.objective(instance, solution))
    if claim is None or abs(claim - objective) > TOLERANCE * abs(objective):
        raise FalseClaimError(f"claims {claim}, the checker computes {objective}")
    return objective
