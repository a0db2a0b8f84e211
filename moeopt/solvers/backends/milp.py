"""Run a problem's MILP model on one of the engines, in a child process."""

from math import inf

from moeopt.core.clock import counts_work, solving_clock, spend
from moeopt.core.errors import InputError
from moeopt.core.lazy import installed
from moeopt.core.logs import logger_of
from moeopt.core.safe_bound import Program, claim_tolerance, is_fine, safe_bound
from moeopt.solvers.backends import ENGINES
from moeopt.solvers.limits import late_s
from moeopt.solvers.milp_messages import MilpAnswer, MilpRequest, packed
from moeopt.solvers.process import Process, ProcessEndedError, kept
from moeopt.solvers.task import Outcome, Task

logger = logger_of(__name__)

TOLERANCE = 1e-9
"""To which HiGHS keeps the signs of reduced costs."""

WIDER_TOLERANCE = 1e-7
"""HiGHS's default, for programs in which it ends with an error at the narrower one.

That one is a hundred times narrower. Much narrower ones would cut off integer points for the
rounding of a row: at 1e7, the largest number here, a double is exact to 1e-9.
"""

ATTEMPTS = ((TOLERANCE, False), (WIDER_TOLERANCE, False), (WIDER_TOLERANCE, True))
"""Tolerance of HiGHS, and whether with presolve; the next where it ends with an error.

HiGHS was seen to cut off all optima: with presolve of 4 of 3,900 random instances of `replication`
(0 of 2,716 without), without it of 1 of 2,000 of `tri_domain` and 3 of 2,002 of `layout` (0 with
it; `benchmarks/studies/false_optima.py`). Neither is safe: what it proves is the word of floats,
and nothing is optimal by it before CP-SAT has confirmed it.
"""

NODE_WORK = 5e-7
"""Units of work that a node takes for each nonzero, row and column of the program."""

ROOT_NODES = 120
"""How many nodes' work the root takes: cuts, heuristics, and the first relaxation.

No limit of HiGHS ends it, neither of nodes nor of iterations, and a program's size tells what it
takes only to within a factor of ten.
"""

PACKAGES = {"gurobi": "gurobipy", "cplex": "cplex"}
"""Engine that is not there by itself -> its Python package."""


def work_of(program: Program, nodes: int) -> float:
    """Return how much work a solve by branch and bound takes, in units."""
    return (ROOT_NODES + nodes) * _node_work(program)


def nodes_within(program: Program, work: float) -> int:
    """Return how many nodes a work limit allows; one at least."""
    return max(1, int(min(work / _node_work(program), 1e9)) - ROOT_NODES)


def _node_work(program: Program) -> float:
    return NODE_WORK * (len(program.rows.data) + sum(program.rows.shape) + 1)


def run(task: Task) -> Outcome:
    """Build the model in integers, have it solved in floats and read the solution off.

    An engine's word "optimal" is not taken for a proof: its bound is lowered by what floats may be
    off (`moeopt.core.safe_bound`), and the result is optimal if that, rounded up to the grid of
    objectives, still meets it and is confirmed (`moeopt.solvers.verification`).
    """
    engine, deadline = task.engine or ENGINES[0], task.deadline
    begin = deadline.elapsed_s
    built = task.model()
    program = built.model.in_floats(deadline.checkpoint)
    deadline.checkpoint()
    build_end = deadline.elapsed_s
    outcome = Outcome(None, "", engine=engine, by=engine)
    try:
        said = answer(engine, program, deadline.remaining_s, task.seed, task.workers)
    except KeyboardInterrupt:
        said = MilpAnswer(raw_status="INTERRUPTED", status="limit")
        outcome.termination = "interrupted"
    outcome.build_s, outcome.solve_s = build_end - begin, deadline.elapsed_s - build_end
    outcome.raw_status = said["raw_status"]
    if said["status"] in ("optimal", "infeasible"):
        outcome.proven = said["status"]
    elif said["status"] == "limit" and outcome.termination == "completed":
        outcome.termination = "time_limit"
    unit, tolerance = built.objective_unit, said.get("tolerance", 0.0)
    if "values" in said:
        values = said["values"]
        outcome.solution = built.decode(lambda variable: round(values[variable]))
        outcome.claim = round(said["objective"] * unit)
        outcome.tolerance = claim_tolerance(outcome.claim)
    if "bound" in said:
        outcome.bound = safe_bound(program, said["bound"], tolerance, unit)
    outcome.counts = is_fine(program, tolerance, task.grid / unit)
    return outcome


def answer(
    engine: str, program: Program, limit: float, seed: int = 0, workers: int = 1
) -> MilpAnswer:
    """Return an engine's answer to a program.

    Under a work limit it has a limit of nodes, by the program's size, and the work is reported.

    Parameters
    ----------
    limit
        What it may take by the clock of this thread; the child is ended soon after.

    Raises
    ------
    InputError
        If the engine cannot be used here.
    KeyboardInterrupt
        At Ctrl-C, after which the child is ended.
    """
    package = PACKAGES.get(engine)
    if package is not None and not installed(package):
        how = f"needs its own package and a licence: pip install {package}"
        raise InputError(f"{engine} is not installed here; it {how}", field="engine")
    by_nodes = counts_work() and engine != "gurobi"  # which has a work limit itself
    if counts_work() and work_of(program, 0) > limit:
        return MilpAnswer(raw_status="its root may take longer than the work limit", status="limit")
    seconds = solving_clock().seconds_for(limit)
    asked = MilpRequest(
        engine=engine,
        constant=program.constant,
        seconds=None if seconds == inf else seconds,
        nodes=nodes_within(program, limit) if by_nodes else None,
        work=limit if counts_work() else None,
        seed=seed,
        workers=workers,
        attempts=list(ATTEMPTS),
    )
    logger.debug("%s: asked %s", engine, asked)
    said = _asked(asked, program, late_s(limit))
    logger.debug("%s: parameters %s", engine, said.get("parameters"))
    claims = said.get("status"), said.get("bound"), said.get("objective")
    logger.debug("%s claims: %s, bound %s, objective %s", engine, *claims)
    if "refused" in said:
        raise InputError(f"{engine} {said['refused']}", field="engine")
    spend(work_of(program, said["nodes"]) if "nodes" in said else limit / 2)  # others do not say
    return said


def _asked(asked: MilpRequest, program: Program, seconds: float) -> MilpAnswer:
    """Return what a child answers; it is killed after so many seconds."""
    try:
        with kept("engines", lambda: Process("moeopt.solvers.engines")) as process:
            found = process.ask(dict(asked), packed(program), seconds)
    except ProcessEndedError as error:  # out of memory, say
        return MilpAnswer(raw_status=f"{asked['engine']} gave up: {error}", status="other")
    if found is None:
        return MilpAnswer(raw_status="ended at the limit", status="limit")
    said: MilpAnswer = found  # type: ignore[assignment]  # our own message
    return said
