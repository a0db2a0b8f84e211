"""The exact MILP model of an instance, for other solvers, and their answers.

Written are CPLEX LP and free MPS format. Variables and rows have the names that
`moeopt solve --method milp` uses; rows begin with the ID of their constraint. Numbers have 12 (LP)
and 13 (MPS) significant digits.

What a solver says of feasibility or optimality is not taken over: the checker looks at the
solution. MILP solvers write the values of the variables by name:

- HiGHS (``--solution_file``, style 0): sections; ``# Columns N`` has N lines ``name value``.
- SCIP (``write solution``): ``objective value: x``, then ``name value (obj:c)`` where not 0.
- CBC (``solution FILE``): ``Optimal - objective value x``, then ``index name value reduced-cost``
  where not 0.
- Gurobi: comments that begin with ``#``, then ``name value``.
"""

import math
import re
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NoReturn

import pulp

from moeopt.core.envelope import InstanceEnvelope, SolutionEnvelope
from moeopt.core.errors import InputError
from moeopt.core.objective import Objective
from moeopt.core.wording import shown
from moeopt.exporters.exported import Exported, Job
from moeopt.exporters.target import Target
from moeopt.problems.registry import get_problem
from moeopt.sim.traces.readers.checked import read_lines
from moeopt.solvers.pulp_model import to_pulp

CONSTANT = "objective_constant"
"""A variable fixed at 1 that carries the constant of the objective, for which there is no place."""


def export_lp(job: Job) -> Exported:
    """Return the model in CPLEX LP format."""
    return _exported(job, pulp.LpProblem.writeLP)


def export_mps(job: Job) -> Exported:
    """Return the model in free MPS format."""
    return _exported(job, pulp.LpProblem.writeMPS)


def _exported(job: Job, write: Callable[[pulp.LpProblem, str], object]) -> Exported:
    problem = get_problem(job.instance.problem)
    built = problem.model(job.instance, "milp")
    built.post()
    rows = built.model
    model = to_pulp(rows.in_floats(), rows.names, rows.row_names)
    if constant := model.objective.constant:
        one = model.add_variable(CONSTANT, 1, 1)
        model.setObjective(model.objective - constant + constant * one)
    with tempfile.TemporaryDirectory() as folder:  # PuLP takes nothing but a file's name
        path = Path(folder) / "model"
        write(model, str(path))
        payload = path.read_bytes()
    unit, radix = built.objective_unit, problem.packing(job.instance).radix
    notes = {"minimise": list(job.instance.minimises()), "unit": unit, "radix": radix}
    return Exported(payload, None, notes)


model_target = partial(Target, problems=(), holds="the whole instance", plan=False)

TARGETS = (
    model_target(
        "lp",
        "the exact MILP model, CPLEX LP format",
        suffix=".lp",
        strict_suffix=True,
        export=export_lp,
        loses="digits beyond the 12th",
    ),
    model_target(
        "mps",
        "the exact MILP model, free MPS format",
        suffix=".mps",
        strict_suffix=True,
        export=export_mps,
        loses="digits beyond the 13th",
    ),
)


MAX_VARIABLES = 2**20
"""Most values that are read."""

NUMBER = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]{1,3})?")

_CBC = re.compile(r"(\w.*) - objective value (\S+)")
_CBC_WITHOUT = re.compile(r"[Ii]nfeasible|[Uu]nbounded|no integer solution")
_OBJECTIVE = re.compile(r"(?:# )?[Oo]bjective(?: value)?(?:\s*[:=])?\s+(\S+)")
_NO_SOLUTION = ("no solution available", "None", "Infeasible")


@dataclass
class SolvedValues:
    """The values of a file.

    Attributes
    ----------
    writer
        Which solver's form it is.
    values
        Name -> value; what is left out of a sparse form is 0.
    sparse
        Whether zeros are left out.
    objective
        As the file says it, in the model's own units; None if it does not.
    """

    writer: str
    values: dict[str, float] = field(default_factory=dict)
    sparse: bool = False
    objective: float | None = None


MAX_LINE_BYTES = 2**16
"""Longest line: a name and a value."""


def read_sol(path: Path) -> SolvedValues:
    """Read a file in the form of HiGHS, SCIP, CBC or Gurobi, which is told from its first lines.

    Raises
    ------
    InputError
        If it is none of them, or holds no solution; one line with file, line and reason.
    """
    lines = read_lines(path, MAX_LINE_BYTES)
    number, first = next(lines, (0, ""))
    if first.strip() == "Model status":
        return _highs(path, lines)
    if first.startswith(("solution status:", "objective value:")):
        return _plain(path, "SCIP", chain([(number, first)], lines))
    if match := _CBC.match(first):
        if _CBC_WITHOUT.search(match[1]):
            _refuse(path, number, f"holds no solution: {shown(match[1])}")
        return _cbc(path, _number(path, number, match[2]), lines)
    if first.startswith("#"):
        return _plain(path, "Gurobi", chain([(number, first)], lines))
    if first.strip() == "Columns":
        _refuse(path, number, "HiGHS wrote it for people: use write_solution_style 0, its default")
    forms = "HiGHS, SCIP, CBC or Gurobi"
    raise InputError(f"{path}: is not a solution file of {forms}; it begins {shown(first)}")


def _highs(path: Path, lines: Iterator[tuple[int, str]]) -> SolvedValues:
    found = SolvedValues("HiGHS")
    left = None
    for number, line in lines:
        if left is None:
            if line.strip() in _NO_SOLUTION:
                _refuse(path, number, "holds no solution")
            if line.startswith("Objective "):
                found.objective = _number(path, number, line.removeprefix("Objective ").strip())
            if match := re.fullmatch(r"# Columns ([0-9]{1,9})\s*", line):
                left = int(match[1])
        elif left:
            _add(path, number, found, line.split())
            left -= 1
        else:
            break
    if left:
        raise InputError(f"{path}: ends {left} values before the last of its columns")
    return _not_empty(path, found)


def _cbc(path: Path, objective: float, lines: Iterator[tuple[int, str]]) -> SolvedValues:
    found = SolvedValues("CBC", sparse=True, objective=objective)
    for number, line in lines:
        words = line.replace("**", "  ", 1).split()  # which marks values beyond their bounds
        if len(words) != 4 or not words[0].isdecimal():
            _refuse(path, number, f"must be index, name, value and cost, not {shown(line)}")
        _add(path, number, found, words[1:3])
    return _not_empty(path, found)


def _plain(path: Path, writer: str, lines: Iterator[tuple[int, str]]) -> SolvedValues:
    """Read lines of name and value, after some of another kind."""
    found = SolvedValues(writer, sparse=writer == "SCIP")
    for number, line in lines:
        if line.strip() in _NO_SOLUTION:
            _refuse(path, number, "holds no solution")
        if match := _OBJECTIVE.match(line):
            found.objective = _number(path, number, match[1])
        elif not line.startswith(("#", "solution status:")):
            words = line.split()
            if writer == "SCIP" and len(words) == 3 and words[2].startswith("(obj:"):
                words = words[:2]
            _add(path, number, found, words)
    return _not_empty(path, found)


def _add(path: Path, number: int, found: SolvedValues, words: list[str]) -> None:
    if len(words) != 2:
        _refuse(path, number, f"must be a name and a value, not {shown(' '.join(words))}")
    name, text = words
    if name in found.values:
        _refuse(path, number, f"{shown(name)} stands twice")
    if len(found.values) == MAX_VARIABLES:
        _refuse(path, number, f"more than {MAX_VARIABLES} values")
    found.values[name] = _number(path, number, text)


def _number(path: Path, number: int, text: str) -> float:
    value = float(text) if len(text) < 60 and NUMBER.fullmatch(text) else math.nan
    if not math.isfinite(value):
        _refuse(path, number, f"must be a number, not {shown(text)}")
    return value


def _not_empty(path: Path, found: SolvedValues) -> SolvedValues:
    if not found.values and not found.sparse:
        raise InputError(f"{path}: holds no solution")
    return found


def _refuse(path: Path, number: int, reason: str) -> NoReturn:
    raise InputError(f"{path}: line {number}: {reason}")


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
    built = get_problem(instance.problem).model(instance, "milp")
    built.post()
    found = read_sol(path)
    names, whole = built.model.names, built.model.kept
    known = dict(zip(names, whole, strict=True))
    for name in found.values:
        if name not in known and name != CONSTANT:
            reason = f"{shown(name)} is no variable of {instance.name}'s model"
            raise InputError(f"{path}: {reason}")
    if not found.sparse and (missing := known.keys() - found.values.keys()):
        raise InputError(f"{path}: has no value of {shown(min(missing))}")
    for name, is_whole in known.items():
        if is_whole:
            _whole(path, name, found)

    def value(variable: int) -> int:
        return round(found.values.get(names[variable], 0.0))

    claim = None if found.objective is None else found.objective * built.objective_unit
    return OutsideAnswer(built.decode(value), found.writer, claim)


def _whole(path: Path, name: str, found: SolvedValues) -> None:
    value = found.values.get(name, 0.0)
    if abs(value - round(value)) > TOLERANCE:
        raise InputError(f"{path}: {name}: must be a whole number, not {value:g}")
