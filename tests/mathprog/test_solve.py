"""GLPK's answers to the algebraic models, and what ends a solve without one."""

from typing import Any

import pytest

import moeopt
from benchmarks.studies import limits
from tests.mathprog.solve import by_glpk, solve
from tests.problems.tri_domain.random_instances import random_instance
from tests.rooms.solvers import Process, ProcessEndedError
from tests.rooms.tri_domain import check

INSTANCE = random_instance(4, experts=7)


def test_an_answer_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """The optimum; "refuted" where the checker computes another objective or rejects it."""
    truth = moeopt.solve(INSTANCE, "brute-force")
    found = by_glpk(INSTANCE)
    assert (found.status, found.objective, found.bound) == ("optimal", *2 * [truth.objective])
    assert moeopt.check(INSTANCE, found.solution).valid
    honest = check.objective
    with monkeypatch.context() as patch:
        patch.setattr(check, "objective", lambda i, s: honest(i, s) + 1000)
        assert by_glpk(INSTANCE).status == "refuted"
    monkeypatch.setattr(check, "violations", lambda *_: [("TD-C1", "an expert runs nowhere")])
    refuted = by_glpk(INSTANCE)
    assert (refuted.status, refuted.bound) == ("refuted", None)
    assert refuted.raw_status.endswith("the solution breaks ['TD-C1']")


def test_rules_can_be_left_out() -> None:
    """The objective is the model's own then, and the checker names the rules that are broken."""
    found = by_glpk(INSTANCE, without={"TD-C4"})
    known = moeopt.solve(INSTANCE, "cp-sat", without={"TD-C4"})
    assert (found.status, found.objective) == ("optimal", known.objective)
    assert {rule for rule, _ in found.violations} == {rule for rule, _ in known.violations}


def test_other_methods_are_those_of_the_package() -> None:
    """With all their options."""
    options: dict[str, Any] = {"engine": "cbc", "warm_start": False}
    assert solve(INSTANCE, "milp", **options).engine == "cbc"
    assert solve(INSTANCE, "mathprog", **options) == by_glpk(INSTANCE)


def test_a_model_that_is_late_is_ended() -> None:
    """It takes seconds to generate; the next model has a new process."""
    late = by_glpk(moeopt.load(limits.largest("deferral")), time_limit_s=0.2)
    assert (late.status, late.objective, late.raw_status) == ("unknown", None, "ended at the limit")
    assert by_glpk(INSTANCE).status == "optimal"


def test_an_abort_of_glpk_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its assertions abort the process on some large numbers."""

    def aborted(*_: object, **__: object) -> None:
        raise ProcessEndedError("its process was ended by SIGABRT")

    monkeypatch.setattr(Process, "ask", aborted)
    found = by_glpk(INSTANCE)
    assert (found.status, found.solution) == ("unknown", None)
    assert found.raw_status == "GLPK gave up: its process was ended by SIGABRT"
