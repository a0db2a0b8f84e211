"""HiGHS, through scipy: the one way to it that gives the dual bound and lives beside ortools."""

import warnings
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

from moeopt.core.clock import counts_work, solving_clock, spend
from moeopt.core.safe_bound import Program as Program
from moeopt.core.safe_bound import Vector as Vector

TOLERANCE = 1e-9
"""To which reduced costs keep their sign."""

WIDER_TOLERANCE = 1e-7
"""HiGHS's default, for programs in which it ends with an error at the narrower one.

That one is a hundred times narrower. Much narrower ones would cut off integer points for the
rounding of a row: at 1e7, the largest number here, a double is exact to 1e-9.
"""

ATTEMPTS = ((TOLERANCE, False), (WIDER_TOLERANCE, False), (WIDER_TOLERANCE, True))
"""Tolerance, and whether with presolve; the next where HiGHS ends with an error.

HiGHS was seen to cut off all optima: with presolve of 4 of 3,900 random instances of `replication`
(0 of 2,716 without), without it of 1 of 2,000 of `tri_domain` and 3 of 2,002 of `layout` (0 with
it; `benchmarks/studies/false_optima.py`). Neither is safe: what it proves is the word of floats,
and nothing is optimal by it before CP-SAT has confirmed it.
"""

NODE_WORK = 5e-7
"""Units of work that a node takes for each nonzero, row and column of the program."""

ROOT_NODES = 120
"""How many nodes' work the root takes: cuts, heuristics, and the first relaxation.

No limit of HiGHS ends it, neither of nodes nor of iterations (tried through scipy and through
MathOpt), and a program's size tells what it takes only to within a factor of ten.
"""

STATUS: dict[int, Literal["optimal", "limit", "infeasible"]] = {
    0: "optimal",
    1: "limit",
    2: "infeasible",
}


AT_ITS_NODES = "HiGHS Status 16:"
"""The number of a limit of nodes, which scipy does not recognise."""


@dataclass(frozen=True)
class Found:
    """HiGHS's answer to a program, in floats; None where it has none.

    `status` is "optimal", "limit", "infeasible" or "other"; `message` is its own word, and
    `tolerance` that to which its reduced costs keep their sign.
    """

    status: Literal["optimal", "limit", "infeasible", "other"]
    message: str
    tolerance: float = TOLERANCE
    objective: float | None = None
    values: Vector | None = None
    bound: float | None = None


def minimize(program: Program, limit_s: float) -> Found:
    """Solve a mixed-integer program; scipy offers neither HiGHS's seed nor its threads.

    Where this thread goes by work, `limit_s` is in units of it: it becomes a limit of nodes, by
    the program's size, and what was done is reported. The root node has no limit but its own.

    HiGHS prints a debug line on file descriptor 1 now and then, for 2 of 600 tiny random instances:
    see `moeopt.core.native_output`.
    """
    clock = solving_clock()
    begin = clock.now()
    first, *others = ATTEMPTS
    found = _minimize(program, limit_s, first)
    for attempt in others:
        left_s = limit_s - (clock.now() - begin)
        if found.status == "other" and left_s > 0:
            found = _minimize(program, left_s, attempt)
    return found


def work_of(program: Program, nodes: int) -> float:
    """Return what a solve by branch and bound takes, in units of work."""
    return (ROOT_NODES + nodes) * _node_work(program)


def fits(program: Program, work: float) -> bool:
    """Tell whether a program's root is likely to fit into a work limit; always without one."""
    return not counts_work() or work_of(program, 0) <= work


def nodes_within(program: Program, work: float) -> int:
    """Return how many nodes a work limit allows; one at least."""
    return max(1, int(min(work / _node_work(program), 1e9)) - ROOT_NODES)


def _node_work(program: Program) -> float:
    return NODE_WORK * (program.rows.nnz + sum(program.rows.shape) + 1)


def _minimize(program: Program, limit_s: float, attempt: tuple[float, bool]) -> Found:
    tolerance, presolve = attempt
    # scipy hands options that it does not know over to HiGHS, and warns that it does.
    warnings.filterwarnings("ignore", "Unrecognized options detected", RuntimeWarning)
    options: Any = {
        "presolve": presolve,
        "mip_rel_gap": 0.0,
        "mip_feasibility_tolerance": 10 * tolerance,  # in its trees it takes a tenth of this
        "dual_feasibility_tolerance": tolerance,  # for a program without integers
    }
    if counts_work():
        options["node_limit"] = nodes_within(program, limit_s)
    if (seconds := solving_clock().seconds_for(limit_s)) != np.inf:
        options["time_limit"] = max(0.0, seconds)
    try:
        found = milp(
            program.cost,
            integrality=program.integer,
            bounds=Bounds(program.lower, program.upper),
            constraints=LinearConstraint(program.rows, program.row_lower, program.row_upper),
            options=options,
        )
    except (ValueError, MemoryError) as error:  # vector::reserve, of a program too large for it
        return Found("other", f"HiGHS gave up: {error}", tolerance)
    spend(work_of(program, found.get("mip_node_count") or 0))
    bound = found.get("mip_dual_bound")
    return Found(
        status="limit" if AT_ITS_NODES in found.message else STATUS.get(found.status, "other"),
        message=found.message,
        tolerance=tolerance,
        objective=None if found.x is None else float(found.fun) + program.constant,
        values=found.x,
        bound=float(bound) + program.constant if bound is not None and np.isfinite(bound) else None,
    )
