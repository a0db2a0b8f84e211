"""HiGHS, through scipy: the one way to it that gives the dual bound and lives beside ortools."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array

Vector = NDArray[np.float64]

STATUS: dict[int, Literal["optimal", "limit", "infeasible"]] = {
    0: "optimal",
    1: "limit",
    2: "infeasible",
}


@dataclass(frozen=True)
class Program:
    """Minimise ``cost @ x`` with ``row_lower <= rows @ x <= row_upper`` and bounds on x.

    Arrays have the shape (columns,) or (rows,); `integer` is 0 for a continuous column. HiGHS works
    to tolerances of 1e-6: keep numbers below 1e7, and check what it says in integers.
    """

    cost: Vector
    lower: Vector
    upper: Vector
    integer: NDArray[np.int64]
    rows: csr_array
    row_lower: Vector
    row_upper: Vector


@dataclass(frozen=True)
class Found:
    """HiGHS's answer, in floats; None where it has none.

    `status` is "optimal", "limit", "infeasible" or "other"; `message` is its own word.
    """

    status: Literal["optimal", "limit", "infeasible", "other"]
    message: str
    objective: float | None = None
    values: Vector | None = None
    bound: float | None = None


def minimize(program: Program, limit_s: float, relative_gap: float = 0.0) -> Found:
    """Solve a mixed-integer program; scipy offers neither HiGHS's seed nor its threads.

    HiGHS prints a debug line on stdout now and then: callers in the main thread guard against it
    with `native_stdout_to_stderr`, which must not be done in a thread that may be left behind.
    """
    found = milp(
        program.cost,
        integrality=program.integer,
        bounds=Bounds(program.lower, program.upper),
        constraints=LinearConstraint(program.rows, program.row_lower, program.row_upper),
        options={"time_limit": limit_s, "mip_rel_gap": relative_gap},
    )
    bound = found.get("mip_dual_bound")
    return Found(
        status=STATUS.get(found.status, "other"),
        message=found.message,
        objective=None if found.x is None else float(found.fun),
        values=found.x,
        bound=float(bound) if bound is not None and np.isfinite(bound) else None,
    )
