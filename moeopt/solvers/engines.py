"""The MILP engines: each takes a PuLP model, and its arrays, and says what it found.

HiGHS, on a large model in a process of its own, which is ended at the limit; SCIP, through the
MathOpt interface of ortools; what PuLP drives: CBC, which comes with it, and Gurobi and CPLEX where
they are.
"""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import pulp
from scipy.sparse import csr_array

from moeopt.core.clock import counts_work, solving_clock, spend
from moeopt.core.errors import InputError
from moeopt.core.highs import Found, fits, minimize, nodes_within, work_of
from moeopt.core.lazy import installed
from moeopt.core.matrix import Matrix as Matrix
from moeopt.core.matrix import to_matrix as to_matrix
from moeopt.core.safe_bound import Program

from .process import Process, ProcessEndedError, Words, serve_pipes
from .result import Termination

if TYPE_CHECKING:
    from ortools.math_opt.python import mathopt


@dataclass
class Answer:
    """A MILP engine's answer in the model's own units.

    Attributes
    ----------
    tolerance
        To which the engine keeps the signs of reduced costs.
    values
        Variable name -> value of the best solution; empty if there is none.
    objective, bound
        Its objective and the proven bound; None if unknown.
    """

    raw_status: str
    tolerance: float = 0.0
    termination: Termination = "completed"
    proven: Literal["optimal", "infeasible"] | None = None
    objective: float | None = None
    bound: float | None = None
    values: Mapping[str, float] = field(default_factory=dict)


def too_large() -> Answer:
    """Return what is answered where the root alone takes more than a work limit."""
    return Answer("its root may take longer than the work limit", termination="time_limit")


LARGE = 100_000
"""Nonzeros from which on it goes on for over 0.2 s after its limit: about 2 us for each."""

ROWS = ("data", "indices", "indptr")
VECTORS = ("cost", "lower", "upper", "integer", "row_lower", "row_upper")


def solve_highs(matrix: Matrix, limit_s: float, seed: int, workers: int) -> Answer:
    """Solve a model with HiGHS; scipy offers neither its seed nor its threads."""
    if not fits(matrix.program, limit_s):
        return too_large()
    large = matrix.program.rows.nnz > LARGE and not counts_work()
    found = (_apart if large else minimize)(matrix.program, limit_s)
    answer = Answer(found.message, found.tolerance)
    if found.status in ("optimal", "infeasible"):
        answer.proven = found.status
    elif found.status == "limit":
        answer.termination = "time_limit"
    if found.values is not None and found.objective is not None:
        answer.objective = found.objective
        answer.values = dict(zip(matrix.names, found.values.tolist(), strict=True))
    answer.bound = found.bound
    return answer


_idle: list[Process] = []
"""Processes that wait for the next program: starting one takes longer than many solves."""


def _apart(program: Program, limit_s: float) -> Found:
    """Solve a program in another process; it is ended if it is late."""
    with solving_clock().standing():
        process = _idle.pop() if _idle else Process("moeopt.solvers.engines")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "program.npz"
        arrays = {name: getattr(program, name) for name in VECTORS}
        np.savez(file, **arrays, **{name: getattr(program.rows, name) for name in ROWS})
        asked = {"file": str(file), "constant": program.constant, "limit_s": limit_s}
        try:
            running = process.ask_within(asked, limit_s)
        except ProcessEndedError as error:  # out of memory, say
            return Found("other", f"HiGHS gave up: {error}")
    if running.value is None:
        return Found("limit", "ended at the limit")
    _idle.append(process)
    answer = running.value
    values = None if answer["values"] is None else np.array(answer["values"])
    return Found(**answer | {"values": values})


def solved(asked: Words) -> Words:
    """Return HiGHS's answer to a request: ``file``, of the program's arrays, and ``limit_s``."""
    with np.load(asked["file"], allow_pickle=False) as arrays:
        vectors = {name: arrays[name] for name in VECTORS}
        shape = len(vectors["row_lower"]), len(vectors["cost"])
        rows = csr_array(tuple(arrays[name] for name in ROWS), shape=shape)
    program = Program(**vectors, rows=rows, constant=asked["constant"])
    found = minimize(program, asked["limit_s"])
    values = None if found.values is None else found.values.tolist()
    return vars(found) | {"values": values}


SCIP_TOLERANCE = 1e-9
"""To which reduced costs keep their sign."""


def solve_scip(matrix: Matrix, limit_s: float, seed: int, workers: int) -> Answer:
    """Solve a model with SCIP, on one thread."""
    from ortools.math_opt.python import mathopt
    from ortools.math_opt.solvers.gscip import gscip_pb2

    if not fits(matrix.program, limit_s):
        return too_large()
    translated, variables = _translate(matrix)
    seconds = solving_clock().seconds_for(limit_s)
    parameters = mathopt.SolveParameters(
        time_limit=None if seconds == inf else timedelta(seconds=seconds),
        node_limit=nodes_within(matrix.program, limit_s) if counts_work() else None,
        random_seed=seed,
        relative_gap_tolerance=0.0,
        gscip=gscip_pb2.GScipParameters(real_params={"numerics/dualfeastol": SCIP_TOLERANCE}),
    )
    found = mathopt.solve(translated, mathopt.SolverType.GSCIP, params=parameters)
    spend(work_of(matrix.program, found.solve_stats.node_count))
    reason = found.termination.reason
    answer = Answer(f"{reason.name} {found.termination.detail}".strip(), SCIP_TOLERANCE)
    if reason == mathopt.TerminationReason.OPTIMAL:
        answer.proven = "optimal"
    elif reason == mathopt.TerminationReason.INFEASIBLE:
        answer.proven = "infeasible"
    elif found.termination.limit is not None:
        answer.termination = "time_limit"
    if found.has_primal_feasible_solution():
        answer.objective = found.objective_value()
        values = found.variable_values(variables)
        answer.values = dict(zip(matrix.names, values, strict=True))
    bound = found.termination.objective_bounds.dual_bound
    if abs(bound) < 1e20:  # SCIP's infinity
        answer.bound = bound
    return answer


def _translate(matrix: Matrix) -> tuple["mathopt.Model", list["mathopt.Variable"]]:
    from ortools.math_opt.python import mathopt

    model = mathopt.Model()
    program = matrix.program
    columns = zip(program.lower, program.upper, program.integer, strict=True)
    variables = [model.add_variable(lb=lb, ub=ub, is_integer=bool(i)) for lb, ub, i in columns]
    starts = program.rows.indptr
    for row, (lb, ub) in enumerate(zip(program.row_lower, program.row_upper, strict=True)):
        constraint = model.add_linear_constraint(lb=lb, ub=ub)
        for entry in range(starts[row], starts[row + 1]):
            variable = variables[program.rows.indices[entry]]
            constraint.set_coefficient(variable, float(program.rows.data[entry]))
    for variable, cost in zip(variables, program.cost, strict=True):
        model.objective.set_linear_coefficient(variable, float(cost))
    model.objective.offset = matrix.program.constant
    return model, variables


TOLERANCE = 1e-9
"""To which CBC and Gurobi keep the signs of reduced costs; the least that Gurobi can be told."""

CPLEX_TOLERANCE = 1e-6
"""The same of CPLEX; PuLP sets none."""


def solve_cbc(matrix: Matrix, limit_s: float, seed: int, workers: int) -> Answer:
    """Solve with the CBC that PuLP brings along; constructing PULP_CBC_CMD itself is deprecated."""
    options = [f"randomCbcSeed {seed}", f"dualTolerance {TOLERANCE}"]
    own: dict[str, object] = {"path": pulp.PULP_CBC_CMD.pulp_cbc_path, "options": options}
    if counts_work():
        own["maxNodes"] = nodes_within(matrix.program, limit_s)
    threads = workers if workers > 1 else None  # asked for one thread, CBC now and then idles 10 s
    return _through_pulp(matrix.model, pulp.COIN_CMD, limit_s, TOLERANCE, threads=threads, **own)


def solve_gurobi(matrix: Matrix, limit_s: float, seed: int, workers: int) -> Answer:
    """Solve with Gurobi, if it is installed and licensed."""
    own: dict[str, object] = {"Threads": workers, "Seed": seed, "OptimalityTol": TOLERANCE}
    if counts_work():
        own["WorkLimit"] = limit_s
    _need("gurobi", "gurobipy")
    return _through_pulp(matrix.model, pulp.GUROBI, limit_s, TOLERANCE, **own)


def solve_cplex(matrix: Matrix, limit_s: float, seed: int, workers: int) -> Answer:
    """Solve with CPLEX, if it is installed and licensed."""
    _need("cplex", "cplex")
    own: dict[str, object] = {"threads": workers}
    if counts_work():
        own["maxNodes"] = nodes_within(matrix.program, limit_s)
    return _through_pulp(matrix.model, pulp.CPLEX_PY, limit_s, CPLEX_TOLERANCE, **own)


def _need(engine: str, package: str) -> None:
    """Refuse an engine whose Python package is not there, and say which it is."""
    if not installed(package):
        how = f"needs its own package and a licence: pip install {package}"
        raise InputError(f"engine: {engine} is not installed here; it {how}")


def _through_pulp(
    model: pulp.LpProblem,
    solver_class: type[pulp.LpSolver],
    limit_s: float,
    tolerance: float,
    **options: object,
) -> Answer:
    """Solve, and read the status from `sol_status`: at a limit PuLP's `status` says "Optimal".

    PuLP hands no dual bound over, so there is one only with a proof of optimality.
    """
    seconds = solving_clock().seconds_for(limit_s)
    options["timeLimit"] = None if seconds == inf else seconds
    solver = solver_class(msg=False, gapRel=0.0, **options)
    if not solver.available():
        name = solver.name.removesuffix("_PY").lower()
        raise InputError(f"engine: {name} is installed, but cannot be used here: is it licensed?")
    model.solve(solver)
    spend(limit_s / 2)  # none of them says what it did
    answer = Answer(
        f"{pulp.LpStatus[model.status]} / {pulp.LpSolution[model.sol_status]}", tolerance
    )
    if model.status == pulp.LpStatusInfeasible:  # at "Integer infeasible" `sol_status` says less
        answer.proven = "infeasible"
    elif model.sol_status == pulp.LpSolutionOptimal:
        answer.proven = "optimal"
    else:
        answer.termination = "time_limit"
    if model.sol_status in (pulp.LpSolutionOptimal, pulp.LpSolutionIntegerFeasible):
        answer.objective = pulp.value(model.objective)
        answer.values = {variable.name: variable.value() or 0.0 for variable in model.variables()}
        if answer.proven == "optimal":
            answer.bound = answer.objective
    return answer


if __name__ == "__main__":
    serve_pipes(solved)
