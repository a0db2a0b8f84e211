"""The methods of each problem, found from its modules without importing solvers."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Literal

from moeopt.errors import InputError
from moeopt.problems.info import ExactMethod, ExactModel
from moeopt.problems.registry import Problem, get_problem
from moeopt.solvers.task import Outcome, Task

EXACT = {"cp-sat": "cpsat", "milp": "milp", "mathprog": "mathprog", "brute-force": "brute_force"}
"""Exact method -> backend; every problem has them all."""

MODELS = ("cpsat", "milp", "mathprog")
"""The backends that hand a model to a solver, and can leave constraints out."""


@dataclass(frozen=True)
class Method:
    """A way to solve a problem: what it is called, what it can promise and who runs it."""

    name: str
    kind: Literal["heuristic", "exact"]
    backend: str
    module: str = ""
    """The module of the problem that the backend runs, where it is not the method's name."""

    @property
    def warm_starts(self) -> bool:
        """Whether it is handed a starting solution and a bound; others look for their own."""
        return self.backend in MODELS

    def run(self, task: Task) -> Outcome:
        """Run the method, importing its solver now."""
        backend: Callable[[Task], Outcome]
        backend = import_module(f"moeopt.solvers.backends.{self.backend}").run
        return backend(task)


def problem_methods(problem: Problem) -> dict[str, Method]:
    """Return a problem's methods by name: its heuristics, then the exact ones, its own first."""
    names = problem.part("heuristics").HEURISTICS
    found = {name: Method(name, "heuristic", "heuristic") for name in names}
    found |= {name: _own(name, own) for name, own in problem.info.exact_methods.items()}
    found |= {name: Method(name, "exact", backend, backend) for name, backend in EXACT.items()}
    return found


def _own(name: str, exact: ExactMethod | ExactModel) -> Method:
    backend = EXACT[exact.solver] if isinstance(exact, ExactModel) else "own"
    return Method(name, "exact", backend, exact.module)


def get_method(problem: Problem, name: str) -> Method:
    """Return a method of a problem.

    Raises
    ------
    InputError
        If the problem has no such method; the message lists those it has.
    """
    found = problem_methods(problem)
    if name not in found:
        known = ", ".join(found)
        raise InputError(f"method: {name!r} is unknown for {problem.name}; known: {known}")
    return found[name]


def methods(problem: str) -> list[str]:
    """Return the names of the methods that a problem can be solved with, heuristics first.

    Parameters
    ----------
    problem
        The problem's name, e.g. ``"tri_domain"``.

    Returns
    -------
    list of str
        Names that `moeopt.solve` and `moeopt.gap` take.

    Raises
    ------
    InputError
        If there is no such problem.

    Examples
    --------
    >>> import moeopt
    >>> moeopt.methods("cache")[:3]
    ['uniform-ways', 'best-uniform', 'proportional']
    """
    return list(problem_methods(get_problem(problem)))
