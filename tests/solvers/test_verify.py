"""``verify``: what floats claim is proven again in integers."""

import re
from collections.abc import Callable
from typing import Any

import pytest

import moeopt
from moeopt.cli.main import run
from moeopt.solvers.backends import cpsat, mathprog, milp
from moeopt.solvers.task import Outcome, Task
from tests.problems.tri_domain.random_instances import random_instance
from tests.solvers.test_statuses import partition

INSTANCE = random_instance(4, experts=7)
FLOATS = {"milp": milp, "mathprog": mathprog}


@pytest.mark.parametrize("method", FLOATS)
def test_a_proof_is_confirmed(method: str) -> None:
    """By CP-SAT, unasked as well where it is quick; else it is a proof of floats, and says so."""
    for verify in (True, None):
        result = moeopt.solve(INSTANCE, method, verify=verify)
        assert (result.status, result.proof) == ("optimal", "integers")
        assert result.raw_status.endswith("cp-sat on the proof: OPTIMAL")
    result = moeopt.solve(INSTANCE, method, verify=False)
    assert (result.status, result.said) == ("feasible", "optimal within floats")
    assert (result.proof, result.bound) == ("floats", result.objective)
    assert "cp-sat" not in result.raw_status


@pytest.mark.parametrize("method", ["auto", "threshold", "cp-sat", "brute-force", "greedy"])
def test_methods_in_integers_have_nothing_to_verify(method: str) -> None:
    """The same result."""
    results = [moeopt.solve(INSTANCE, method, verify=verify) for verify in (False, True)]
    assert len({(r.status, r.objective, r.bound, r.raw_status) for r in results}) == 1


def claims(bound: int) -> Callable[..., int]:
    """Return a safe bound that is not one."""
    return lambda *_: bound


@pytest.mark.parametrize("method", FLOATS)
def test_a_wrong_bound_is_found_out(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the incumbent is so bad that nothing else would contradict it."""
    optimum = moeopt.solve(INSTANCE, "brute-force").objective
    assert isinstance(optimum, int)
    heuristic = moeopt.solve(INSTANCE, "greedy")
    assert isinstance(heuristic.objective, int)
    assert heuristic.objective > optimum
    backend = FLOATS[method]
    honest = backend.verified

    def worse(task: Task, outcome: Outcome) -> Outcome:
        outcome.solution = heuristic.solution
        outcome.claim = outcome.bound = heuristic.objective  # type: ignore[assignment]
        return honest(task, outcome)

    monkeypatch.setattr(backend, "verified", worse)
    for verify in (True, None):
        result = moeopt.solve(INSTANCE, method, verify=verify, warm_start=False)
        assert (result.status, result.proof) == ("optimal", "integers")
        assert (result.objective, result.bound, result.violations) == (optimum, optimum, [])
        told = rf"REFUTED: {result.engine} claims the bound \d+, cp-sat finds {optimum}$"
        assert re.search(told, result.raw_status)
    with pytest.raises(moeopt.ModelMismatchError, match=r"claims the bound .*, cp-sat finds"):
        moeopt.solve(INSTANCE, method, verify=True, warm_start=False, without={"TD-C4"})


@pytest.mark.parametrize("method", FLOATS)
def test_without_time_to_confirm_it_is_feasible(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The solution stays; the bound is the combinatorial one."""
    monkeypatch.setattr(
        cpsat, "run", lambda task: Outcome(None, "UNKNOWN", termination="time_limit")
    )
    result = moeopt.solve(INSTANCE, method, verify=True)
    assert (result.status, result.termination) == ("feasible", "time_limit")
    assert result.bound is not None
    assert result.bound < result.objective  # type: ignore[operator]
    assert result.proof == "integers"
    unasked = moeopt.solve(INSTANCE, method)
    assert (unasked.said, unasked.bound) == ("optimal within floats", unasked.objective)


def test_wrong_infeasibility_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A MILP solver that cuts off everything within its tolerances."""
    from moeopt.solvers.backends.milp import FUNCTIONS
    from moeopt.solvers.engines import Answer

    said = Answer("infeasible", proven="infeasible")
    monkeypatch.setitem(FUNCTIONS, "highs", lambda *_: said)
    options: dict[str, Any] = {"warm_start": False}
    trusted = moeopt.solve(INSTANCE, "milp", verify=False, **options)
    assert (trusted.status, trusted.said) == ("unknown", "infeasible within floats")
    result = moeopt.solve(INSTANCE, "milp", verify=True, **options)
    assert (result.status, result.proof) == ("optimal", "integers")
    assert "REFUTED: highs claims infeasible, cp-sat finds" in result.raw_status


def test_a_limit_that_has_passed() -> None:
    """An instance that takes all the time leaves none to verify: no bound on trust."""
    result = moeopt.solve(partition(), "milp", verify=True, time_limit_s=1.0)
    assert result.status == "feasible"
    assert result.solution is not None


def test_the_command(tmp_path: object, capsys: pytest.CaptureFixture[str]) -> None:
    """``--verify``."""
    path = f"{tmp_path}/i.json"
    moeopt.save(INSTANCE, path)
    assert run(["solve", path, "--method", "milp", "--verify"]) == 0
    assert "cp-sat on the proof: OPTIMAL" in capsys.readouterr().out
