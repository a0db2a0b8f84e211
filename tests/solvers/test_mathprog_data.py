"""The data section of an algebraic model: what it is given of an instance; what GLPK says."""

from pathlib import Path

import numpy as np
from scipy.sparse import csr_array

from tests.rooms.cache import Instance
from tests.rooms.core import Program
from tests.rooms.solvers import data_section, holds

INSTANCE = Instance(
    name="i",
    layers=2,
    experts=3,
    slots=1,
    gpu_ns=1,
    cpu_ns=2,
    activation_ns=3,
    fetch_ns=4,
    other_ns=5,
    accesses=[[[0, 2], [1]], [[], [2]], [[1], []]],
)


def test_a_list_comes_with_its_length() -> None:
    """One index per level of nesting, and the number of entries of the outermost one."""
    model = "param accesses{0..2, 0..1, 0..2}, default -1;\nparam accesses_length;\nparam slots;"
    lines = data_section(model, INSTANCE, Path("out.json")).splitlines()
    assert lines == [
        "data;",
        "param slots := 1;",
        "param accesses := 0 0 0 0 0 0 1 2 0 1 0 1 1 1 0 2 2 0 0 1;",
        "param accesses_length := 3;",
        "end;",
    ]


def test_what_the_model_does_not_declare_is_left_out() -> None:
    """Neither the list nor its length."""
    assert data_section("param slots;", INSTANCE, Path("o")).count("param") == 1


def test_a_solution_that_breaks_its_rows_is_told_from_one_that_keeps_them() -> None:
    """One of two things is chosen, and 3e10 of the first cost no more than the second."""
    program = Program(
        cost=np.zeros(2),
        lower=np.zeros(2),
        upper=np.ones(2),
        integer=np.ones(2, dtype=np.int64),
        rows=csr_array([[1.0, 1.0], [3e10, -3e10]]),
        row_lower=np.array([1.0, -np.inf]),
        row_upper=np.array([1.0, 0.0]),
    )
    assert holds(program, np.array([0.0, 1.0]))
    assert not holds(program, np.array([0.0, 0.0]))
    assert not holds(program, np.array([1.0, 0.0]))
