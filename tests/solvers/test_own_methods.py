"""A problem's own exact algorithms: run, stopped, checked, and gone on from."""

import time
from typing import Any

import pytest

import formulations.TEMPLATE.problem.dynamic_program as dynamic_program
import moeopt
from formulations.TEMPLATE.problem import PROBLEM
from formulations.TEMPLATE.problem.instance import Solution
from formulations.TEMPLATE.tests.TEMPLATE_random_instances import random_instance as random_knapsack
from tests.rooms.core import ExactMethod, Search, TimeLimitError
from tests.rooms.problems import PROBLEMS
from tests.rooms.solvers import Deadline, Trace, cpsat

from .test_interrupt import press_ctrl_c_after

pytestmark = pytest.mark.usefixtures("template_problem")

INSTANCE = random_knapsack(17)
OPTIMUM = 4402
NOTHING = Solution(instance=INSTANCE.name, kept=(False,) * len(INSTANCE.experts))
COST_OF_NOTHING = sum(expert.miss_ns for expert in INSTANCE.experts)


def go_on_with(monkeypatch: pytest.MonkeyPatch, then: str | None) -> None:
    """Let a method go on after the dynamic program, or none."""
    monkeypatch.setattr(type(PROBLEM), "exact", (ExactMethod("dp", ".dynamic_program", then),))


def replace(monkeypatch: pytest.MonkeyPatch, algorithm: Any) -> None:
    """Let `algorithm` stand in for the dynamic program."""
    monkeypatch.setattr(dynamic_program, "solve", algorithm)


def test_the_instance_is_a_good_one() -> None:
    """Feasible with nothing kept, which is not optimal."""
    assert INSTANCE.min_kept == 0
    assert moeopt.solve(INSTANCE, "brute-force").objective == OPTIMUM < COST_OF_NOTHING


def test_it_is_listed_and_reports() -> None:
    """After `auto`, between the heuristics and the models; incumbent and bound are in the trace."""
    assert moeopt.methods("TEMPLATE")[:3] == ["auto", "densest-first", "dp"]
    result = moeopt.solve(INSTANCE, "dp")
    assert (result.status, result.objective, result.raw_status) == ("optimal", OPTIMUM, "ENDED")
    assert [point[1:] for point in result.trace] == [(OPTIMUM, None), (OPTIMUM, OPTIMUM)]


def test_what_it_claims_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong objective, an invalid solution and a contradicted bound are told, never returned."""
    everything = Solution(instance=INSTANCE.name, kept=(True,) * len(INSTANCE.experts))
    for solution, objective, bound, kind in (
        (NOTHING, COST_OF_NOTHING - 1, None, "solution"),
        (everything, 0, None, "solution"),
        (NOTHING, COST_OF_NOTHING, COST_OF_NOTHING + 1, "bound"),
    ):

        def algorithm(
            instance: Any, search: Search, claim: Any = (solution, objective, bound)
        ) -> None:
            search.offer(claim[0], claim[1])
            if claim[2] is not None:
                search.prove(claim[2])

        for then in (None, "cp-sat"):
            go_on_with(monkeypatch, then)
            replace(monkeypatch, algorithm)
            result = moeopt.solve(INSTANCE, "dp")
            assert (result.status, result.objective) == ("optimal", OPTIMUM)
            assert result.proof == "confirmed"
            assert [claim.kind for claim in result.evidence.refuted] == [kind]


def test_without_a_proof_it_is_feasible(monkeypatch: pytest.MonkeyPatch) -> None:
    """And with a lower bound the gap is known."""
    replace(monkeypatch, lambda instance, search: search.offer(NOTHING, COST_OF_NOTHING))
    result = moeopt.solve(INSTANCE, "dp")
    assert (result.status, result.termination, result.bound) == ("feasible", "completed", None)


@pytest.mark.parametrize("then", ["cp-sat", "milp"])
def test_another_method_goes_on(then: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the incumbent: it finds the optimum where that is better, and keeps it where not."""
    go_on_with(monkeypatch, then)
    best = moeopt.solve(INSTANCE, "cp-sat").solution
    for start, objective in ((NOTHING, COST_OF_NOTHING), (best, OPTIMUM)):

        def algorithm(instance: Any, search: Search, start: Any = (start, objective)) -> None:
            search.note = "GAVE UP"
            search.offer(*start)

        replace(monkeypatch, algorithm)
        result = moeopt.solve(INSTANCE, "dp")
        assert (result.status, result.objective) == ("optimal", OPTIMUM)
        assert result.raw_status.startswith(f"GAVE UP, then {then}: ")


def test_its_bracket_stays_where_no_time_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that takes longer to build than is left takes nothing away."""

    def algorithm(instance: Any, search: Search) -> None:
        search.offer(NOTHING, COST_OF_NOTHING)
        search.prove(1)

    def late(task: Any) -> Any:
        raise TimeLimitError

    go_on_with(monkeypatch, "cp-sat")
    replace(monkeypatch, algorithm)
    monkeypatch.setattr(cpsat, "run", late)
    result = moeopt.solve(INSTANCE, "dp", verify=False)
    assert (result.status, result.termination) == ("feasible", "time_limit")
    assert (result.objective, result.bound) == (COST_OF_NOTHING, 1)
    assert result.raw_status == "ENDED, then cp-sat: TIME_LIMIT_BEFORE_SOLVING"


def wait_until_stopped(instance: Any, search: Search) -> None:
    """Offer something, then wait to be stopped."""
    search.offer(NOTHING, COST_OF_NOTHING)
    search.prove(1)
    while not search.stopped:
        time.sleep(0.01)


def test_the_limit_stops_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its best so far is kept, and nothing goes on after it."""
    go_on_with(monkeypatch, "cp-sat")
    replace(monkeypatch, wait_until_stopped)
    result = moeopt.solve(INSTANCE, "dp", time_limit_s=0.3)
    assert (result.status, result.termination) == ("feasible", "time_limit")
    assert (result.objective, result.bound) == (COST_OF_NOTHING, 1)


def test_ctrl_c_stops_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same, and the result says why."""

    def wait_interrupted(instance: Any, search: Search) -> None:
        press_ctrl_c_after(0.3)
        wait_until_stopped(instance, search)

    replace(monkeypatch, wait_interrupted)
    result = moeopt.solve(INSTANCE, "dp", time_limit_s=600)
    assert (result.status, result.termination) == ("feasible", "interrupted")
    assert (result.objective, result.bound) == (COST_OF_NOTHING, 1)


def test_infeasible_is_its_word(monkeypatch: pytest.MonkeyPatch) -> None:
    """Proven without a solution."""
    infeasible = next(
        i for i in map(random_knapsack, range(40)) if moeopt.solve(i, "cp-sat").objective is None
    )
    assert moeopt.solve(infeasible, "dp").status == "infeasible"


SMALL = {
    "tri_domain": "esft-window/window-law-layer4-batch256.json",
    "relayout": "paper-scale/deepseek-v2-batch32.json",
    "layout": "dimm-slots/deepseek-v2-batch512-slots12.json",
    "deferral": "few-layers/deepseek-v3-bf16-layers2.json",
    "balance": "decode/decode-deepseek-moe-16b-edge-gpu-ndp-4-slices1.json",
    "cache": "mixtral/mixtral-coding-threads24.json.gz",
    "bitwidth": "mixtral/coding-per-model-2bits.json",
    "placement": "mixtral/mixtral-coding-decode.json.gz",
    "joint": "few-layers/mixtral-2-layers-ways0.json",
    "replication": "mixtral/mixtral-coding-slots3-free.json",
    "split": "two-gpus/2xrtx3090+epyc-7002-gpt-oss-120b-Q4_K_M.json",
    "threads": "tiny/tiny-mixtral-8x7b-threads2-gate-up.json",
}
"""Problem -> an instance of the library that its own exact method proves in an instant."""


@pytest.mark.parametrize("problem", PROBLEMS)
def test_the_default_proves(problem: str, root: Any) -> None:
    """On every problem; the result names the method that ran."""
    instance = moeopt.load(root / "instances" / problem / SMALL[problem])
    result = moeopt.solve(instance, time_limit_s=600)
    assert result.status == "optimal"
    exact = moeopt.methods(problem)
    own = result.method.removesuffix(", then cp-sat")  # joint's smallest are closed so
    assert own in exact
    assert own not in ("auto", "cp-sat")
    assert exact[0] == "auto"


KNAPSACK = random_knapsack(17)
AUTO_NOTHING = Solution(instance=KNAPSACK.name, kept=(False,) * len(KNAPSACK.experts))
COST = sum(expert.miss_ns for expert in KNAPSACK.experts)


def gives_up(instance: Any, search: Search) -> None:
    """Offer something that is not optimal, and end."""
    search.note = "GAVE UP"
    search.offer(AUTO_NOTHING, COST)


@pytest.mark.usefixtures("template_problem")
class TestTemplate:
    """On the miniature problem."""

    def test_cp_sat_goes_on_where_nothing_else_is_named(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """And the result says so."""
        go_on_with(monkeypatch, None)
        monkeypatch.setattr(dynamic_program, "solve", gives_up)
        result = moeopt.solve(KNAPSACK, warm_start=False)
        assert (result.status, result.method) == ("optimal", "dp, then cp-sat")
        assert result.raw_status.startswith("GAVE UP, then cp-sat: ")
        assert moeopt.solve(KNAPSACK, "dp").status == "feasible"

    def test_what_is_known_stays_where_cp_sat_refuses(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Numbers too large for it cost neither the incumbent nor the bound."""

        def refuse(task: Any) -> Any:
            raise moeopt.InputError("cp-sat: too large")

        monkeypatch.setattr(dynamic_program, "solve", gives_up)
        monkeypatch.setattr(cpsat, "run", refuse)
        result = moeopt.solve(KNAPSACK, warm_start=False)
        assert (result.status, result.objective) == ("feasible", COST)
        assert result.raw_status.endswith("then cp-sat: too large")

    def test_the_heuristic_counts_where_the_own_method_finds_nothing(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As with models."""
        go_on_with(monkeypatch, None)
        monkeypatch.setattr(dynamic_program, "solve", lambda instance, search: search.stop())
        result = moeopt.solve(KNAPSACK)
        assert result.objective == moeopt.solve(KNAPSACK, "densest-first").objective
        assert result.bound is not None

    def test_models_leave_constraints_out(self) -> None:
        """As the problem's own algorithm cannot."""
        result = moeopt.solve(KNAPSACK, without=["TM-C1"])
        assert (result.method, result.status) == ("cp-sat", "optimal")


def test_only_improvements_are_kept() -> None:
    """A worse incumbent, a worse bound or the same again add no point."""
    trace = Trace(Deadline(1))
    assert trace.bound is None
    for objective, bound in ((50, None), (60, None), (None, 10), (None, 5), (40, 10), (40, 10)):
        trace.record(objective, bound)
    assert [point[1:] for point in trace.points] == [(50, None), (50, 10), (40, 10)]
    assert trace.bound == 10
