"""GLPK in a process of its own: its generator of models looks at no limit, so the process is ended.

A request is a model's file, that of its data, the constraints that are left out and the limits; the
answer says what came of it, in integers where anything rests on it. Under a work limit what counts
is GLPK's own: iterations of the simplex method.
"""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any

import numpy as np
import swiglpk as glpk
from scipy.sparse import csr_array

from moeopt.core.safe_bound import Program, Vector, safe_bound
from moeopt.solvers.process import Words, serve_pipes

TOLERANCE = 1e-7
"""To which GLPK keeps the signs of reduced costs within branch and bound; it cannot be set."""

NATIVE = ctypes.CDLL(glpk._swiglpk.__file__)
"""The same library, called as `ctypes` does."""

CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)

CALLBACK_AT = 48
"""Where a `glp_iocp` has its callback, in bytes: after four ints, two doubles, and four ints; SWIG
offers no way to set it."""

LONGEST_S = 2_000_000.0
"""GLPK's limit is an int of milliseconds."""

ITERATION_WORK, ENTRY_WORK = 1e-4, 2e-9
"""Units of work of an iteration of the simplex method: each, and for each nonzero, row, column."""

GENERATED_WORK = 1e-10
"""Units of work that generating a model takes for each byte of its data squared.

Sets within sets are looked through for each index: from 70,000 to 500,000 bytes it is mostly within
a factor of three, and far too much for long lists of plain numbers.
"""


def solved(asked: Words) -> Words:
    """Return what GLPK makes of a request.

    Parameters
    ----------
    asked
        ``model``, ``data``: files; ``bytes``: of the data; ``without``: as in the names of rows;
        ``seconds`` and ``work``: what is left, None for no limit.

    Returns
    -------
    dict
        ``rejected`` if it is no model; ``late``: no time for solving; else ``code`` and ``status``,
        ``proven``, ``objective``, ``bound``. ``build_s``, ``solve_s``, ``work``: what it took.
    """
    begin = perf_counter()
    generated = GENERATED_WORK * float(asked["bytes"]) ** 2
    if asked["work"] is not None and generated >= asked["work"]:
        return {"late": "its model may take longer than the work limit", "work": 0.0}
    glpk.glp_term_out(glpk.GLP_OFF)
    translator, problem = glpk.glp_mpl_alloc_wksp(), glpk.glp_create_prob()
    try:
        if (
            glpk.glp_mpl_read_model(translator, asked["model"], 1)
            or glpk.glp_mpl_read_data(translator, asked["data"])
            or glpk.glp_mpl_generate(translator, None)
        ):
            return {"rejected": True}
        glpk.glp_mpl_build_prob(translator, problem)
        _neutralise(problem, set(asked["without"]))
        build_s = perf_counter() - begin
        seconds = None if asked["seconds"] is None else asked["seconds"] - build_s
        work = None if asked["work"] is None else asked["work"] - generated
        if seconds is not None and seconds <= 0:
            return {"late": "TIME_LIMIT_BEFORE_SOLVING", "work": generated}
        answer = _solve(problem, seconds, work)
        if answer["objective"] is not None:
            glpk.glp_mpl_postsolve(translator, problem, glpk.GLP_MIP)
    finally:
        glpk.glp_mpl_free_wksp(translator)  # closes the printed file
        glpk.glp_delete_prob(problem)
    answer["build_s"], answer["solve_s"] = build_s, perf_counter() - begin - build_s
    answer["work"] += generated
    return answer


def _neutralise(problem: object, left_out: set[str]) -> None:
    """Free the rows of the constraints left out: ``TD_C1[3]`` belongs to TD_C1."""
    for row in range(1, glpk.glp_get_num_rows(problem) + 1):
        name = glpk.glp_get_row_name(problem, row).split("[")[0]
        if "_".join(name.split("_")[:2]) in left_out:
            glpk.glp_set_row_bnds(problem, row, glpk.GLP_FR, 0, 0)


def _solve(problem: object, seconds: float | None, work: float | None) -> Words:
    """Return status, objective, bound and work of GLPK's branch and bound."""
    parameters = glpk.glp_iocp()
    glpk.glp_init_iocp(parameters)
    parameters.presolve = glpk.GLP_ON if work is None else glpk.GLP_OFF
    ends = None if seconds is None else perf_counter() + seconds
    size = glpk.glp_get_num_nz(problem) + glpk.glp_get_num_rows(problem)
    each = ITERATION_WORK + ENTRY_WORK * (size + glpk.glp_get_num_cols(problem))
    code, most = 0, 0
    if work is not None:
        most = max(1, int(min(work / each, 1e9)))
        code = _relaxed(problem, most, seconds)
    if ends is not None and ends - perf_counter() < LONGEST_S:
        parameters.tm_lim = max(1, int((ends - perf_counter()) * 1000))
    if code == 0 and (work is None or glpk.glp_get_status(problem) == glpk.GLP_OPT):
        with _iterations(problem, parameters, most if work is not None else None):
            code = glpk.glp_intopt(problem, parameters)
    status = glpk.glp_mip_status(problem)
    relaxed = work is not None and glpk.glp_get_status(problem) == glpk.GLP_NOFEAS
    answer: Words = {"code": code, "status": status, "proven": None}
    answer |= {"objective": None, "bound": None, "work": glpk.glp_get_it_cnt(problem) * each}
    if code == glpk.GLP_ENOPFS or status == glpk.GLP_NOFEAS or relaxed:
        answer["proven"] = "infeasible"
    elif status == glpk.GLP_OPT:
        answer["proven"] = "optimal"
    if status not in (glpk.GLP_OPT, glpk.GLP_FEAS):
        return answer
    program = _program(problem)
    columns = range(1, glpk.glp_get_num_cols(problem) + 1)
    if not holds(program, np.array([glpk.glp_mip_col_val(problem, c) for c in columns])):
        return answer | {"status": "a solution that breaks its rows", "proven": None}
    value = glpk.glp_mip_obj_val(problem)
    answer["objective"] = round(value)
    if answer["proven"] == "optimal":
        answer["bound"] = safe_bound(program, value, TOLERANCE)
    return answer


def holds(program: Program, values: Vector) -> bool:
    """Return whether values keep a program's rows, to one part in a million.

    With numbers of 3e10 GLPK called 31,953,377,601 optimal, and an expert had no width: the optimum
    of that instance of `bitwidth` is 32,001,593,985.
    """
    sums = program.rows @ values
    slack = 1e-6 * np.maximum(1.0, abs(program.rows) @ abs(values))
    kept = (sums >= program.row_lower - slack) & (sums <= program.row_upper + slack)
    return bool(kept.all())


def _relaxed(problem: object, most: int, seconds: float | None) -> int:
    """Solve the linear relaxation within so many iterations; return GLPK's code."""
    parameters = glpk.glp_smcp()
    glpk.glp_init_smcp(parameters)
    parameters.it_lim, parameters.meth = most, glpk.GLP_DUALP
    if seconds is not None and seconds < LONGEST_S:
        parameters.tm_lim = max(1, int(seconds * 1000))
    glpk.glp_adv_basis(problem, 0)
    return int(glpk.glp_simplex(problem, parameters))


@contextmanager
def _iterations(problem: object, parameters: Any, most: int | None) -> Iterator[None]:
    """Let branch and bound end after so many iterations: GLPK calls back at each node."""
    if most is None:
        yield
        return

    def look(tree: int, _: None) -> None:
        if glpk.glp_get_it_cnt(problem) > most:
            NATIVE.glp_ios_terminate(ctypes.c_void_p(tree))

    called = CALLBACK(look)
    pointer = ctypes.cast(called, ctypes.c_void_p).value or 0
    at = int(parameters.this) + CALLBACK_AT
    ctypes.c_void_p.from_address(at).value = pointer
    try:
        yield
    finally:
        ctypes.c_void_p.from_address(at).value = None


def _program(problem: object) -> Program:
    """Return GLPK's problem as arrays."""
    rows = range(1, glpk.glp_get_num_rows(problem) + 1)
    columns = range(1, glpk.glp_get_num_cols(problem) + 1)
    index, entry = glpk.intArray(len(columns) + 1), glpk.doubleArray(len(columns) + 1)
    data: list[float] = []
    indices: list[int] = []
    starts = [0]
    for row in rows:
        count = glpk.glp_get_mat_row(problem, row, index, entry)
        indices += [index[place] - 1 for place in range(1, count + 1)]
        data += [entry[place] for place in range(1, count + 1)]
        starts.append(len(data))
    integer = [glpk.glp_get_col_kind(problem, c) != glpk.GLP_CV for c in columns]
    return Program(
        cost=np.array([glpk.glp_get_obj_coef(problem, c) for c in columns]),
        lower=_bounds([glpk.glp_get_col_lb(problem, c) for c in columns]),
        upper=_bounds([glpk.glp_get_col_ub(problem, c) for c in columns]),
        integer=np.array(integer, dtype=np.int64),
        rows=csr_array((data, indices, starts), shape=(len(rows), len(columns))),
        row_lower=_bounds([glpk.glp_get_row_lb(problem, r) for r in rows]),
        row_upper=_bounds([glpk.glp_get_row_ub(problem, r) for r in rows]),
        constant=glpk.glp_get_obj_coef(problem, 0),
    )


def _bounds(values: list[float]) -> Vector:
    """Return bounds as an array: GLPK's infinity is the largest double."""
    bounds = np.array(values)
    largest = np.finfo(float).max
    bounds[bounds >= largest], bounds[bounds <= -largest] = np.inf, -np.inf
    return bounds


if __name__ == "__main__":
    serve_pipes(solved)
