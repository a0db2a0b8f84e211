"""The exact MILP model of an instance, for other solvers: CPLEX LP and free MPS format.

Variables and rows have the names that `moeopt solve --method milp` uses; rows begin with the ID of
their constraint. Numbers have 12 (LP) and 13 (MPS) significant digits.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path

import pulp

from moeopt.exporters.exported import Exported, Job
from moeopt.exporters.target import Target
from moeopt.problems.registry import get_problem

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
    built = problem.milp()(job.instance)
    built.post()
    model = built.model
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


TARGETS = (
    Target(
        "lp",
        "the exact MILP model, CPLEX LP format",
        (),
        ".lp",
        export_lp,
        holds="the whole instance",
        loses="digits beyond the 12th",
        plan=False,
    ),
    Target(
        "mps",
        "the exact MILP model, free MPS format",
        (),
        ".mps",
        export_mps,
        holds="the whole instance",
        loses="digits beyond the 13th",
        plan=False,
    ),
)
