"""Checking a solution that comes from anywhere."""

from dataclasses import dataclass

from moeopt.core.envelope import InstanceEnvelope, SolutionEnvelope, check_pair
from moeopt.core.objective import Objective
from moeopt.problems.registry import get_problem


@dataclass(frozen=True)
class Verdict:
    """What the checker says: an objective or None, and (constraint ID, sentence) pairs."""

    objective: Objective | None
    violations: list[tuple[str, str]]

    @property
    def valid(self) -> bool:
        """Whether nothing is violated."""
        return not self.violations


def check(instance: InstanceEnvelope, solution: SolutionEnvelope) -> Verdict:
    """Check a solution: which constraints it violates, or what it costs.

    Parameters
    ----------
    instance, solution
        From `moeopt.load` and `moeopt.load_solution`, from a result, or made in code.

    Returns
    -------
    Verdict
        `objective`, in the unit that the problem's spec names, or None if a rule is broken;
        `violations`, pairs of constraint ID and sentence.

    Raises
    ------
    InputError
        If the solution is not one of this instance, by problem or by name, or an argument is of
        another type.

    Examples
    --------
    >>> import moeopt
    >>> name = "esft-window/window-law-layer4-batch256.json"
    >>> instance = moeopt.load(f"instances/tri_domain/{name}")
    >>> best = moeopt.load_solution(f"instances/tri_domain/solutions/{name}")
    >>> moeopt.check(instance, best)
    Verdict(objective=3965000, violations=[])
    """
    check_pair(instance, solution)
    checker = get_problem(instance.problem).check
    violations = checker.violations(instance, solution)
    return Verdict(None if violations else checker.objective(instance, solution), violations)
