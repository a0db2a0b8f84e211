"""HiGHS; on a large model in a process of its own, which is ended at the limit."""

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array

from moeopt.core.clock import counts_work, solving_clock
from moeopt.core.highs import Found, Program, fits, minimize
from moeopt.solvers.engines.answer import Answer, too_large
from moeopt.solvers.engines.matrix import Matrix
from moeopt.solvers.interrupt import run_interruptible
from moeopt.solvers.process import Process, ProcessEndedError, Words, serve_pipes

LARGE = 100_000
"""Nonzeros from which on it goes on for over 0.2 s after its limit: about 2 us for each."""

ROWS = ("data", "indices", "indptr")
VECTORS = ("cost", "lower", "upper", "integer", "row_lower", "row_upper")


def solve(matrix: Matrix, limit_s: float, seed: int, workers: int) -> Answer:
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
        process = _idle.pop() if _idle else Process("moeopt.solvers.engines.highs")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "program.npz"
        arrays = {name: getattr(program, name) for name in VECTORS}
        np.savez(file, **arrays, **{name: getattr(program.rows, name) for name in ROWS})
        asked = {"file": str(file), "constant": program.constant, "limit_s": limit_s}
        try:
            running = run_interruptible(lambda: process.ask(asked), process.end, limit_s)
        except ProcessEndedError as error:  # out of memory, say
            return Found(program, "other", f"HiGHS gave up: {error}")
    if running.value is None:
        return Found(program, "limit", "ended at the limit")
    _idle.append(process)
    answer = running.value
    values = None if answer["values"] is None else np.array(answer["values"])
    return Found(**answer | {"program": program, "values": values})


def solved(asked: Words) -> Words:
    """Return HiGHS's answer to a request: ``file``, of the program's arrays, and ``limit_s``."""
    with np.load(asked["file"], allow_pickle=False) as arrays:
        vectors = {name: arrays[name] for name in VECTORS}
        shape = len(vectors["row_lower"]), len(vectors["cost"])
        rows = csr_array(tuple(arrays[name] for name in ROWS), shape=shape)
    program = Program(**vectors, rows=rows, constant=asked["constant"])
    found = minimize(program, asked["limit_s"])
    values = None if found.values is None else found.values.tolist()
    return vars(replace(found, values=None)) | {"program": None, "values": values}


if __name__ == "__main__":
    serve_pipes(solved)
