"""Requests to MILP engines and their answers, as they pass between processes: arrays and JSON."""

import io
from typing import Literal, TypedDict

import numpy as np

from moeopt.core.safe_bound import Program, SparseRows

ROWS = ("data", "indices", "indptr")
VECTORS = ("cost", "lower", "upper", "integer", "row_lower", "row_upper")


class MilpRequest(TypedDict):
    """A request: an engine, its limits, and how it is to work.

    Attributes
    ----------
    seconds, nodes, work
        Limits: of time, of branch-and-bound nodes, of units of work; None: none.
    attempts
        Of HiGHS: tolerance, and whether with presolve; the next where it ends with an error.
    """

    engine: str
    constant: float
    seconds: float | None
    nodes: int | None
    work: float | None
    seed: int
    workers: int
    attempts: list[tuple[float, bool]]


class MilpAnswer(TypedDict, total=False):
    """An engine's answer in the program's units; what is unknown is absent.

    Attributes
    ----------
    raw_status
        Its own word.
    status
        What it claims; "other": it ended with an error.
    tolerance
        To which it keeps the signs of reduced costs.
    values
        Values of the best solution, by column.
    objective, bound
        The objective of `values`, and the proven bound.
    nodes
        How many nodes it took.
    refused
        Why it cannot be used here.
    parameters
        What it was asked with, in its own words.
    """

    raw_status: str
    status: Literal["optimal", "infeasible", "limit", "other"]
    tolerance: float
    values: list[float]
    objective: float
    bound: float
    nodes: int
    refused: str
    parameters: str


def packed(program: Program) -> bytes:
    """Return the arrays of a program as bytes."""
    stream = io.BytesIO()
    arrays = {name: getattr(program, name) for name in VECTORS}
    np.savez(stream, **arrays, **{name: getattr(program.rows, name) for name in ROWS})
    return stream.getvalue()


def unpacked(payload: bytes, constant: float) -> Program:
    """Return the program that `packed` was given."""
    with np.load(io.BytesIO(payload), allow_pickle=False) as arrays:
        vectors = {name: arrays[name] for name in VECTORS}
        shape = len(vectors["row_lower"]), len(vectors["cost"])
        rows = SparseRows(arrays["data"], arrays["indices"], arrays["indptr"], shape)
    return Program(**vectors, rows=rows, constant=constant)
