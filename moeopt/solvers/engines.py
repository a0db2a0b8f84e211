"""The MILP engines, as they run in a child process: arrays in, an answer in floats out.

HiGHS and SCIP run through MathOpt of the installed OR-tools, all others through PuLP: CBC, which
comes with it, and Gurobi and CPLEX where they are installed. `moeopt.solvers.backends.milp` asks.

MathOpt hands HiGHS time and node limits, seed and gaps, and refuses threads and limits of
iterations or the objective for programs with integers; HiGHS ignores an interrupt.
"""

from collections.abc import Callable
from datetime import timedelta
from time import perf_counter
from typing import Any, Literal

import numpy as np
import pulp
from ortools.math_opt import model_pb2
from ortools.math_opt.python import mathopt
from ortools.math_opt.solvers import highs_pb2
from ortools.math_opt.solvers.gscip import gscip_pb2

from moeopt.core.logs import one_line
from moeopt.core.safe_bound import Program
from moeopt.solvers.milp_messages import MilpAnswer, MilpRequest, unpacked
from moeopt.solvers.process import Words, serve_pipes
from moeopt.solvers.pulp_model import to_pulp

TOLERANCE = 1e-9
"""To which SCIP, CBC and Gurobi keep the signs of reduced costs; the least Gurobi can be told."""

CPLEX_TOLERANCE = 1e-6
"""The same of CPLEX; PuLP sets none."""


def highs(program: Program, asked: MilpRequest) -> MilpAnswer:
    """Solve with HiGHS, on one thread: once more, and with a wider tolerance, after an error."""
    begin, model, said = perf_counter(), to_mathopt(program), MilpAnswer()
    for tolerance, presolve in asked["attempts"]:
        options = {
            "mip_feasibility_tolerance": 10 * tolerance,  # in its trees it takes a tenth of this
            "dual_feasibility_tolerance": tolerance,  # for a program without integers
        }
        chosen = mathopt.SolveParameters(
            presolve=None if presolve else mathopt.Emphasis.OFF,
            highs=highs_pb2.HighsOptionsProto(double_options=options),
        )
        said = _by_mathopt(model, mathopt.SolverType.HIGHS, chosen, asked, begin)
        said["tolerance"] = tolerance
        if said["status"] != "other":
            break
    return said


def scip(program: Program, asked: MilpRequest) -> MilpAnswer:
    """Solve with SCIP, on one thread."""
    begin, model = perf_counter(), to_mathopt(program)
    chosen = mathopt.SolveParameters(
        gscip=gscip_pb2.GScipParameters(real_params={"numerics/dualfeastol": TOLERANCE}),
    )
    said = _by_mathopt(model, mathopt.SolverType.GSCIP, chosen, asked, begin)
    said["tolerance"] = TOLERANCE
    return said


INFINITE = 1e20
"""SCIP's infinity."""

STATUS: dict[Any, Literal["optimal", "infeasible"]] = {
    mathopt.TerminationReason.OPTIMAL: "optimal",
    mathopt.TerminationReason.INFEASIBLE: "infeasible",
}


def _by_mathopt(
    model: mathopt.Model, kind: Any, chosen: Any, asked: MilpRequest, begin: float
) -> MilpAnswer:
    """Return MathOpt's answer; what translating took, before and after, is part of the limit."""
    if asked["seconds"] is not None:
        seconds = asked["seconds"] - 2 * (perf_counter() - begin)
        chosen.time_limit = timedelta(seconds=max(seconds, 0.0))
    chosen.node_limit = asked["nodes"]
    chosen.random_seed = asked["seed"]
    chosen.relative_gap_tolerance = 0.0
    try:
        found = mathopt.solve(model, kind, params=chosen)
    except Exception as error:  # of any kind: what it raises for a status is not documented
        return MilpAnswer(raw_status=f"gave up: {error}", status="other")
    ended = found.termination
    words = f"{ended.reason.name} {ended.detail}".strip()
    at_limit = ended.limit is not None
    said = MilpAnswer(
        raw_status=words,
        status=STATUS.get(ended.reason, "limit" if at_limit else "other"),
        nodes=found.solve_stats.node_count,
        parameters=one_line(chosen.to_proto()),
    )
    if found.has_primal_feasible_solution():
        said["objective"] = found.objective_value()
        said["values"] = found.variable_values([*model.variables()])
    if abs(bound := ended.objective_bounds.dual_bound) < INFINITE:
        said["bound"] = bound
    return said


def to_mathopt(program: Program) -> mathopt.Model:
    """Return a program as MathOpt's model, with its variables in order."""
    proto, rows = model_pb2.ModelProto(), program.rows
    variables, sides = proto.variables, proto.linear_constraints
    variables.ids.extend(range(len(program.cost)))
    variables.lower_bounds.extend(program.lower.tolist())
    variables.upper_bounds.extend(program.upper.tolist())
    variables.integers.extend(program.integer.astype(bool).tolist())
    costly = np.flatnonzero(program.cost)
    proto.objective.offset = program.constant
    proto.objective.linear_coefficients.ids.extend(costly.tolist())
    proto.objective.linear_coefficients.values.extend(program.cost[costly].tolist())
    sides.ids.extend(range(len(program.row_lower)))
    sides.lower_bounds.extend(program.row_lower.tolist())
    sides.upper_bounds.extend(program.row_upper.tolist())
    row = np.repeat(np.arange(len(program.row_lower)), np.diff(rows.indptr))
    order = np.lexsort((rows.indices, row))
    matrix = proto.linear_constraint_matrix
    matrix.row_ids.extend(row[order].tolist())
    matrix.column_ids.extend(rows.indices[order].tolist())
    matrix.coefficients.extend(rows.data[order].tolist())
    return mathopt.Model.from_model_proto(proto)


def cbc(program: Program, asked: MilpRequest) -> MilpAnswer:
    """Solve with the CBC that PuLP brings along; constructing PULP_CBC_CMD itself is deprecated."""
    options = [f"randomCbcSeed {asked['seed']}", f"dualTolerance {TOLERANCE}"]
    # MilpRequest for one thread, CBC now and then idles 10 s.
    threads = asked["workers"] if asked["workers"] > 1 else None
    path = pulp.PULP_CBC_CMD.pulp_cbc_path
    limits = {"maxNodes": asked["nodes"], "threads": threads}
    return _by_pulp("COIN_CMD", program, asked, TOLERANCE, path=path, options=options, **limits)


def gurobi(program: Program, asked: MilpRequest) -> MilpAnswer:
    """Solve with Gurobi, if it is installed and licensed."""
    own: dict[str, object] = {"Threads": asked["workers"], "Seed": asked["seed"]}
    if asked["work"] is not None:
        own["WorkLimit"] = asked["work"]
    return _by_pulp("GUROBI", program, asked, TOLERANCE, OptimalityTol=TOLERANCE, **own)


def cplex(program: Program, asked: MilpRequest) -> MilpAnswer:
    """Solve with CPLEX, if it is installed and licensed."""
    own: dict[str, object] = {"threads": asked["workers"]}
    if asked["nodes"] is not None:
        own["maxNodes"] = asked["nodes"]
    return _by_pulp("CPLEX_PY", program, asked, CPLEX_TOLERANCE, **own)


def _by_pulp(
    name: str, program: Program, asked: MilpRequest, tolerance: float, **options: object
) -> MilpAnswer:
    """Return PuLP's answer, by `sol_status`: at a limit PuLP's `status` says "Optimal".

    PuLP hands no dual bound over, so there is one only with a proof of optimality.
    """
    solver = pulp.getSolver(name, msg=False, gapRel=0.0, timeLimit=asked["seconds"], **options)
    if not solver.available():
        return MilpAnswer(refused="is installed, but cannot be used here: is it licensed?")
    model = to_pulp(program)
    model.solve(solver)
    words = f"{pulp.LpStatus[model.status]} / {pulp.LpSolution[model.sol_status]}"
    said = MilpAnswer(raw_status=words, status="limit", tolerance=tolerance)
    said["parameters"] = one_line(options)
    if model.status == pulp.LpStatusInfeasible:  # at "Integer infeasible" `sol_status` says less
        said["status"] = "infeasible"
    elif model.sol_status == pulp.LpSolutionOptimal:
        said["status"] = "optimal"
    found = (pulp.LpSolutionOptimal, pulp.LpSolutionIntegerFeasible)
    if model.sol_status in found and said["status"] != "infeasible":
        values = {variable.name: variable.value() for variable in model.variables()}
        said["objective"] = pulp.value(model.objective)
        said["values"] = [values.get(f"x{n}") or 0.0 for n in range(len(program.cost))]
        if said["status"] == "optimal":
            said["bound"] = said["objective"]
    return said


ENGINES: dict[str, Callable[[Program, MilpRequest], MilpAnswer]] = {
    "highs": highs,
    "scip": scip,
    "cbc": cbc,
    "gurobi": gurobi,
    "cplex": cplex,
}
"""Engine -> its function."""


def solved(asked: Words, payload: bytes) -> Words:
    """Return an engine's answer to a request, `MilpRequest`, and the arrays of a program."""
    wanted: MilpRequest = asked  # type: ignore[assignment]  # our own message
    said = ENGINES[wanted["engine"]](unpacked(payload, wanted["constant"]), wanted)
    return dict(said)


if __name__ == "__main__":
    serve_pipes(solved)
