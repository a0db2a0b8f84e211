"""Instances on which an engine proves what is false: no answer rests on its word alone.

Their numbers are large and share no divisor. The truths come from brute force and from a judge
written from the specifications; `docs/proofs.md` tells the story.
"""

import ast
from pathlib import Path
from typing import Any

import pytest

import moeopt
from tests.rooms.core import Refutation, cpsat

FOLDER = Path(__file__).parent / "false_proofs"

TRUTH = {
    "split_min": 3_098_882,
    "split_labels_false_h3_1": 318_802_700,
    "split_cpsat_default_false": 11_920_864,
    "balance_dp_false": 9_895_604_649_978,
    "tri_cpsat_false": 41_620_779_498,
    "tri_infeasible": 34_359_738_371,
    "placement_cpsat_exc": 25_769_803_706,
    "cpsat_claim": 2_932_031_007_406,
    "milp_layout_x7-29": 65_536,
}

OLD = cpsat.Way("the old parameters", {"presolve_substitution_level": 0})
"""What every run of CP-SAT had before; its presolve is at fault."""

FALSE = {
    "split_min": ("auto", True),
    "split_labels_false_h3_1": ("auto", True),
    "split_cpsat_default_false": ("cp-sat", True),
    "tri_cpsat_false": ("cp-sat", False),
    "tri_infeasible": ("cp-sat", False),
    "placement_cpsat_exc": ("cp-sat", False),
}
"""The method, and whether with a starting solution, whose word is false with the old parameters."""


def load(name: str) -> Any:
    """Return an instance of the folder."""
    return moeopt.load(FOLDER / f"{name}.json")


@pytest.mark.parametrize("warm", [True, False])
@pytest.mark.parametrize("method", ["auto", "cp-sat", "milp"])
@pytest.mark.parametrize("name", TRUTH)
def test_the_truth_is_found(name: str, method: str, warm: bool) -> None:
    """By the default method, CP-SAT and HiGHS, each with a reason beyond one engine's word."""
    result = moeopt.solve(load(name), method, warm_start=warm)
    assert (result.status, result.objective, result.bound) == ("optimal", TRUTH[name], TRUTH[name])
    assert result.proof in ("own", "confirmed", "certificate")


@pytest.mark.parametrize("name", TRUTH)
def test_enumeration_says_what_is_true(name: str) -> None:
    """And so does the page beside the files."""
    found = moeopt.solve(load(name), "brute-force")
    assert (found.status, found.objective) == ("optimal", TRUTH[name])
    page = (FOLDER / "README.md").read_text()
    [line] = [line for line in page.splitlines() if line.startswith(f"| `{name}.json`")]
    assert line.endswith(f" {TRUTH[name]:,} |")


def test_no_bound_is_above_what_can_be_reached() -> None:
    """CP-SAT's bound of 428,327,924,616,221 was."""
    for method in ("auto", "cp-sat"):
        result = moeopt.solve(load("bal20"), method, work_limit=0.5)
        assert result.bound is not None
        assert result.bound <= 409_025_841_725_388


@pytest.mark.parametrize("name", FALSE)
def test_the_old_parameters_are_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A deliberate fault: the presolve's false answer is refuted, told, and not returned."""
    monkeypatch.setattr(cpsat, "SAFE", OLD)
    method, warm = FALSE[name]
    alone = moeopt.solve(load(name), method, warm_start=warm, verify=False)
    assert alone.objective != TRUTH[name]
    assert (alone.status, alone.proof) == ("unknown" if "inf" in name else "feasible", "single")
    result = moeopt.solve(load(name), method, warm_start=warm)
    assert (result.status, result.objective, result.bound) == ("optimal", TRUTH[name], TRUTH[name])
    assert result.evidence.refuted


def test_an_engine_that_lies_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """CP-SAT refutes whatever it is asked the first way: no result is optimal and false.

    Also where it is asked inside a method of the problem's own: nothing that rests on its answers
    is called the package's own proof.
    """
    honest = cpsat.Run.solve

    def lies(self: cpsat.Run, *arguments: Any, **options: Any) -> cpsat.Answer:
        answer = honest(self, *arguments, **options)
        if self.way is not cpsat.SAFE:
            return answer
        if options.get("proves") != "nothing":
            cpsat.record(lambda: Refutation(self.model.clone(), None))
        return cpsat.Answer("infeasible", None, (), answer.value, answer.effort)

    monkeypatch.setattr(cpsat.Run, "solve", lies)
    for name, truth in TRUTH.items():
        for method in ("auto", "cp-sat"):
            result = moeopt.solve(load(name), method, work_limit=3)
            assert result.status != "infeasible", (name, method)
            if result.status == "optimal":
                assert result.objective == truth, (name, method, result.raw_status)
            assert result.bound is None or result.bound <= truth, (name, method)


def test_every_use_of_cp_sat_goes_through_one_place(root: Path) -> None:
    """Its parameters and Ctrl-C are set there; textbook models in benchmarks are as users write."""
    found = [
        f"{path.relative_to(root)}:{node.lineno}"
        for folder in ("moeopt", "formulations", "instances")
        for path in sorted((root / folder).rglob("*.py"))
        if path != root / "moeopt" / "core" / "cpsat.py" and "CpSolver" in path.read_text()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("CpSolver")
    ]
    assert found == []
