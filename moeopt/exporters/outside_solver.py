"""An outside solver's answer to an exported model, as a solution of the instance.

Variables have the names that the exported file gives them: those of `moeopt solve --method milp`.
What the solver says of feasibility or optimality is not taken over: the checker looks at the
solution.
"""

from dataclasses import dataclass
from pathlib import Path

import pulp

from moeopt.core.envelope import InstanceEnvelope, SolutionEnvelope
from moeopt.core.errors import InputError
from moeopt.core.objective import Objective
from moeopt.core.wording import shown
from moeopt.exporters.sol import SolvedValues, read_sol
from moeopt.exporters.targets.exact_model import CONSTANT
from moeopt.problems.registry import get_problem

TOLERANCE = 1e-4
"""How far a whole number may be off: solvers keep integrality to 1e-5 or 1e-6."""

OBJECTIVE_TOLERANCE = 1e-4
"""How far a solver's objective may be off, relatively: it works in floats, with tolerances."""


@dataclass(frozen=True)
class OutsideAnswer:
    """A solution, and what the file says that it costs.

    Attributes
    ----------
    writer
        Which solver wrote the file.
    claim
        The objective by the file, in the unit of the checker's; None if it does not say it. Of an
        objective with several entries, all of them in one number.
    """

    solution: SolutionEnvelope
    writer: str
    claim: float | None

    def differs(self, instance: InstanceEnvelope, objective: Objective | None) -> bool:
        """Tell whether the file's objective is another than the checker's, where both have one."""
        if self.claim is None or objective is None:
            return False
        own = get_problem(instance.problem).packing(instance).pack(objective)
        return abs(self.claim - own) > OBJECTIVE_TOLERANCE * max(1.0, abs(own))


def read_answer(instance: InstanceEnvelope, path: Path) -> OutsideAnswer:
    """Read the solution file of a solver that was given the exported LP or MPS file.

    Parameters
    ----------
    instance
        From which the model was exported.
    path
        In the form of HiGHS, SCIP, CBC or Gurobi.

    Raises
    ------
    InputError
        If the file cannot be read, or its variables are not the model's; one line.
    """
    built = get_problem(instance.problem).milp()(instance)
    built.post()
    found = read_sol(path)
    known = {variable.name: variable for variable in built.model.variables()}
    for name in found.values:
        if name not in known and name != CONSTANT:
            reason = f"{shown(name)} is no variable of {instance.name}'s model"
            raise InputError(f"{path}: {reason}")
    if not found.sparse and (missing := known.keys() - found.values.keys()):
        raise InputError(f"{path}: has no value of {shown(min(missing))}")
    for name, variable in known.items():
        if variable.cat == "Integer":
            _whole(path, name, found)

    def value(variable: pulp.LpVariable) -> int:
        return round(found.values.get(variable.name, 0.0))

    claim = None if found.objective is None else found.objective * built.objective_unit
    return OutsideAnswer(built.decode(value), found.writer, claim)


def _whole(path: Path, name: str, found: SolvedValues) -> None:
    value = found.values.get(name, 0.0)
    if abs(value - round(value)) > TOLERANCE:
        raise InputError(f"{path}: {name}: must be a whole number, not {value:g}")
