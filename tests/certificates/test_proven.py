"""Certificates for a solve: a proof that is right, within its limit, or none."""

from pathlib import Path
from typing import Any

import pytest

import moeopt
from tests.exporters.test_export_exact_model import random_instances
from tests.rooms.certificates import (
    Model,
    RefusedError,
    form_of,
    neutral_model,
    proven,
    proven_by_any,
    verify,
)
from tests.rooms.core import by_work, clock, linear
from tests.rooms.problems import PROBLEMS, get_problem

LARGE = "replication/v3-windows/v3-windows8-nodes4-seed0.json.gz"
"""Its model takes 20 s to build."""

TO_PROVE = dict.fromkeys(PROBLEMS, 0) | {"joint": 2, "placement": 8}
"""Numbers of random instances that a unit of work is enough for."""


def solved(problem: str, number: int, root: Path) -> tuple[Any, int | None]:
    """Return a random instance and its packed optimum; None: it has no solution."""
    instance = random_instances(root, problem)(number)
    result = moeopt.solve(instance)
    assert result.status in ("optimal", "infeasible")
    if result.objective is None:
        return instance, None
    return instance, get_problem(problem).packing(instance).pack(result.objective)


@pytest.mark.parametrize("problem", PROBLEMS)
def test_an_optimum_is_proven_and_nothing_above_it(problem: str, root: Path) -> None:
    """The checker accepts the proof of what it says, and not of more."""
    instance, optimum = solved(problem, TO_PROVE[problem], root)
    assert optimum is not None
    grid = get_problem(problem).grid(instance)
    with by_work():
        found = proven(instance, optimum, 3.0)
        assert proven(instance, optimum + grid, 1.0) is None
        assert proven(instance, None, 0.3) is None
    assert found is not None
    model = Model(neutral_model(instance).data)
    assert verify(model, found) == optimum
    with pytest.raises(RefusedError):
        verify(model, found | {"bound": optimum + grid})


@pytest.mark.parametrize(
    ("problem", "number"), [("bitwidth", 14), ("bitwidth", 17), ("joint", 1), ("placement", 5)]
)
def test_that_there_is_no_solution_is_proven(problem: str, number: int, root: Path) -> None:
    """By a bound above every objective that the model has."""
    instance, optimum = solved(problem, number, root)
    assert optimum is None
    with by_work():
        found = proven(instance, None, 1.0)
    assert found is not None
    assert verify(Model(neutral_model(instance).data), found) == found["bound"] > 0


def test_a_limit_of_work_reads_no_clock(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same limit gives the same answer and the same work, be it enough or not."""
    instance, optimum = solved("layout", 0, root)
    answers = []
    for limit in (1.0, 1.0, 0.02, 0.02):
        with by_work() as units, monkeypatch.context() as patched:
            patched.setattr(clock, "perf_counter", lambda: pytest.fail("a clock was read"))
            answers.append((proven(instance, optimum, limit), units.units))
    assert answers[0] == answers[1]
    assert answers[2] == answers[3]
    assert answers[0][0] is not None
    assert answers[2][0] is None


@pytest.mark.slow
def test_a_model_that_is_too_large_is_not_built(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is given up by its size; no row of it is turned into one of a MILP."""
    instance = moeopt.load(root / "instances" / LARGE)
    monkeypatch.setattr(linear, "IntegerProgram", lambda *_: pytest.fail("rows were turned"))
    for limit in (0.0, 2.0):
        assert proven(instance, 1, limit) is None
        with by_work():
            assert proven(instance, 1, limit) is None


@pytest.mark.parametrize("problem", PROBLEMS)
def test_a_lemma_or_the_exact_model_proves_it(problem: str, root: Path) -> None:
    """Whichever does, the checker accepts it of that model; nothing above the optimum is proven."""
    instance, optimum = solved(problem, TO_PROVE[problem], root)
    assert optimum is not None
    grid = get_problem(problem).grid(instance)
    answers = []
    for _ in range(2):
        with by_work() as units:
            answers.append((proven_by_any(instance, optimum, 3.0), units.units))
            assert proven_by_any(instance, optimum + grid, 0.5) is None
    assert answers[0] == answers[1]
    found = answers[0][0]
    assert found is not None
    assert verify(Model(neutral_model(instance, form_of(found)).data), found) == optimum


def test_both_kinds_of_models_are_used(root: Path) -> None:
    """A lemma's where a problem has one that holds; the exact one for the others."""
    with by_work():
        for problem, by_lemma in (("balance", True), ("bitwidth", False)):
            found = proven_by_any(*solved(problem, 0, root), 1.0)
            assert found is not None
            assert ("form" in found) == by_lemma
        assert proven_by_any(*solved("placement", 5, root), 1.0) is not None  # has no solution
