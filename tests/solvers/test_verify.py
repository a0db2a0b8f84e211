"""Confirmation: what rests on one engine's word needs a second reason."""

from typing import Any

import pytest

import moeopt
from tests.problems.tri_domain.random_instances import random_instance
from tests.rooms.certificates import forms
from tests.rooms.cli import run
from tests.rooms.core import cpsat as engine
from tests.rooms.solvers import Claim, MilpAnswer, Outcome, Task, cpsat, milp, run_module
from tests.solvers.test_statuses import partition

INSTANCE = random_instance(4, experts=7)
MODELS = ("cp-sat", "milp")


@pytest.mark.parametrize("method", MODELS)
def test_a_proof_is_confirmed(method: str) -> None:
    """By CP-SAT without presolve; else it is one engine's word, and says so."""
    result = moeopt.solve(INSTANCE, method, warm_start=False)
    assert (result.status, result.proof) == ("optimal", "confirmed")
    last = result.evidence.claims[-1]
    assert last == Claim("cp-sat", "bound", result.objective, "no presolve")
    assert str(last) in result.raw_status
    alone = moeopt.solve(INSTANCE, method, warm_start=False, verify=False)
    assert (alone.status, alone.proof) == ("feasible", "single")
    assert alone.said == "feasible: closed by one engine, not confirmed"
    assert (alone.objective, alone.bound) == (result.objective, result.objective)
    assert alone.evidence.claims == ()


def test_infeasibility_is_confirmed() -> None:
    """The same; unconfirmed it is unknown."""
    tight = moeopt.load("tests/solvers/false_proofs/split_min.json")
    data = tight.model_dump() | {
        "devices": [d | {"capacity": 0} for d in tight.model_dump()["devices"]]
    }
    none = type(tight).model_validate(data)
    result = moeopt.solve(none, "cp-sat")
    assert (result.status, result.proof, result.solution) == ("infeasible", "confirmed", None)
    alone = moeopt.solve(none, "cp-sat", verify=False)
    assert (alone.status, alone.proof) == ("unknown", "single")
    assert alone.said == "unknown: called infeasible by one engine, not confirmed"


@pytest.mark.parametrize("method", ["auto", "threshold", "brute-force", "greedy"])
def test_what_the_package_computes_itself_needs_no_second_reason(method: str) -> None:
    """The same result, and the proof is the package's own."""
    results = [moeopt.solve(INSTANCE, method, verify=verify) for verify in (False, True)]
    assert len({(r.status, r.objective, r.bound, r.raw_status) for r in results}) == 1
    assert {r.proof for r in results} == {None if method == "greedy" else "own"}


@pytest.mark.parametrize("method", MODELS)
def test_a_wrong_bound_is_found_out(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the incumbent is so bad that nothing else would contradict it."""
    optimum = moeopt.solve(INSTANCE, "brute-force").objective
    heuristic = moeopt.solve(INSTANCE, "greedy")
    assert isinstance(heuristic.objective, int)
    assert isinstance(optimum, int)
    assert heuristic.objective > optimum
    honest = run_module.run_method

    def worse(task: Task) -> Outcome:
        outcome = honest(task)
        outcome.solution = heuristic.solution
        outcome.claim = outcome.bound = heuristic.objective  # type: ignore[assignment]
        return outcome

    monkeypatch.setattr(run_module, "run_method", worse)
    result = moeopt.solve(INSTANCE, method, warm_start=False)
    assert (result.status, result.proof) == ("optimal", "confirmed")
    assert (result.objective, result.bound, result.violations) == (optimum, optimum, [])
    [fallen] = result.evidence.refuted
    assert (fallen.kind, fallen.value) == ("bound", heuristic.objective)
    assert f"REFUTED: {fallen.engine}" in result.raw_status


def test_what_no_run_confirms_is_certified_or_feasible(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a certificate the solution stays, and the bound is one engine's word."""
    honest = cpsat.solved

    def undecided(task: Task, way: engine.Way, below: int | None = None) -> Outcome:
        if way is engine.SECOND:
            return Outcome(None, "UNKNOWN", "time_limit")
        return honest(task, way, below)

    monkeypatch.setattr(cpsat, "solved", undecided)
    certified = moeopt.solve(INSTANCE, "cp-sat", warm_start=False)
    assert (certified.status, certified.proof) == ("optimal", "certificate")
    monkeypatch.setattr(forms, "proven_by_any", lambda *_: None)
    result = moeopt.solve(INSTANCE, "cp-sat", warm_start=False)
    assert (result.status, result.termination, result.proof) == ("feasible", "time_limit", "single")
    assert result.bound == result.objective
    assert result.raw_status == "OPTIMAL" + 2 * "; cp-sat (no presolve): UNKNOWN"


def test_wrong_infeasibility_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A MILP solver that cuts off everything within its tolerances."""
    said = MilpAnswer(raw_status="infeasible", status="infeasible")
    monkeypatch.setattr(milp, "answer", lambda *_: said)
    trusted = moeopt.solve(INSTANCE, "milp", warm_start=False, verify=False)
    assert (trusted.status, trusted.proof) == ("unknown", "single")
    for warm in (True, False):
        result = moeopt.solve(INSTANCE, "milp", warm_start=warm)
        assert result.status == "optimal"
        assert [claim.kind for claim in result.evidence.refuted] == ["infeasible"]
        assert "REFUTED: highs: infeasible, but there is a solution of" in result.raw_status


@pytest.mark.parametrize("share", [0.99, 1.01])
def test_a_solution_that_costs_otherwise(share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an engine claims for its solution is told; the checker's number counts."""
    honest = milp.answer

    def lies(*arguments: Any) -> MilpAnswer:
        said: MilpAnswer = honest(*arguments)
        said["objective"] *= share
        said["bound"] = said["objective"]
        return said

    monkeypatch.setattr(milp, "answer", lies)
    truth = moeopt.solve(INSTANCE, "brute-force").objective
    result = moeopt.solve(INSTANCE, "milp", warm_start=False)
    assert (result.status, result.objective, result.bound) == ("optimal", truth, truth)
    assert result.evidence.refuted


def test_an_engine_whose_tolerance_is_too_wide_does_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """CP-SAT is asked both ways where it is as wide as two of the model's numbers."""
    honest = milp.answer

    def coarse(*arguments: Any) -> MilpAnswer:
        said: MilpAnswer = honest(*arguments)
        said["tolerance"] = 2.0
        return said

    monkeypatch.setattr(milp, "answer", coarse)
    result = moeopt.solve(INSTANCE, "milp", warm_start=False)
    asked = [claim.parameters for claim in result.evidence.claims if claim.engine == "cp-sat"]
    assert asked == [engine.SAFE.name, engine.SECOND.name]


def test_a_limit_that_has_passed() -> None:
    """An instance that takes all the time leaves a bracket."""
    result = moeopt.solve(partition(), "milp", time_limit_s=1.0)
    assert result.status == "feasible"
    assert result.solution is not None


@pytest.mark.parametrize("method", ["auto", "cp-sat", "milp"])
@pytest.mark.parametrize("work", [1e-6, 1e-3, 1.0])
def test_verification_reads_no_clock(
    method: str, work: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under a work limit the same comes out however long things take."""
    instance = moeopt.load("tests/solvers/false_proofs/split_min.json")
    first, second = (_told(instance, method, work) for _ in range(2))
    assert first == second


def _told(instance: Any, method: str, work: float) -> tuple[object, ...]:
    r = moeopt.solve(instance, method, work_limit=work)
    return r.status, r.objective, r.bound, r.proof, r.raw_status, r.work, r.evidence


def test_the_command(tmp_path: object, capsys: pytest.CaptureFixture[str]) -> None:
    """``--no-verify``."""
    path = f"{tmp_path}/i.json"
    moeopt.save(INSTANCE, path)
    assert run(["solve", path, "--method", "milp"]) == 0
    assert "status     optimal, completed" in capsys.readouterr().out
    assert run(["solve", path, "--method", "cp-sat", "--no-verify"]) == 0
    capsys.readouterr()
