"""Data sections of the algebraic models."""

from pathlib import Path

from tests.mathprog.data import data_section
from tests.rooms.cache import Instance

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
