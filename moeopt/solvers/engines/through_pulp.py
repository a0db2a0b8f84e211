"""The solvers that PuLP drives: CBC, which comes with it, and Gurobi and CPLEX where they are."""

from math import inf

import pulp

from moeopt.core.clock import counts_work, solving_clock, spend
from moeopt.core.errors import InputError
from moeopt.core.highs import nodes_within
from moeopt.core.lazy import installed
from moeopt.solvers.engines.answer import Answer
from moeopt.solvers.engines.matrix import Matrix

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
    return _solve(matrix.model, pulp.COIN_CMD, limit_s, TOLERANCE, threads=threads, **own)


def solve_gurobi(matrix: Matrix, limit_s: float, seed: int, workers: int) -> Answer:
    """Solve with Gurobi, if it is installed and licensed."""
    own: dict[str, object] = {"Threads": workers, "Seed": seed, "OptimalityTol": TOLERANCE}
    if counts_work():
        own["WorkLimit"] = limit_s
    _need("gurobi", "gurobipy")
    return _solve(matrix.model, pulp.GUROBI, limit_s, TOLERANCE, **own)


def solve_cplex(matrix: Matrix, limit_s: float, seed: int, workers: int) -> Answer:
    """Solve with CPLEX, if it is installed and licensed."""
    _need("cplex", "cplex")
    own: dict[str, object] = {"threads": workers}
    if counts_work():
        own["maxNodes"] = nodes_within(matrix.program, limit_s)
    return _solve(matrix.model, pulp.CPLEX_PY, limit_s, CPLEX_TOLERANCE, **own)


def _need(engine: str, package: str) -> None:
    """Refuse an engine whose Python package is not there, and say which it is."""
    if not installed(package):
        how = f"needs its own package and a licence: pip install {package}"
        raise InputError(f"engine: {engine} is not installed here; it {how}")


def _solve(
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
