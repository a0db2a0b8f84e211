"""The default method: the problem's own exact method, and CP-SAT after it."""

from typing import Any

import pytest

import formulations.TEMPLATE.problem as template
import formulations.TEMPLATE.problem.dynamic_program as dynamic_program
import moeopt
from formulations.TEMPLATE.problem.instance import Solution
from formulations.TEMPLATE.tests.TEMPLATE_random_instances import random_instance as random_knapsack
from moeopt.core.problem import ExactMethod
from moeopt.core.search import Search
from moeopt.problems.registry import PROBLEMS

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
}
"""Problem -> an instance of the library that its own exact method proves in an instant."""


def own_algorithm() -> Any:
    """Return the algorithm, which tests replace."""
    return dynamic_program


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
NOTHING = Solution(instance=KNAPSACK.name, kept=(False,) * len(KNAPSACK.experts))
COST = sum(expert.miss_ns for expert in KNAPSACK.experts)


def gives_up(instance: Any, search: Search) -> None:
    """Offer something that is not optimal, and end."""
    search.note = "GAVE UP"
    search.offer(NOTHING, COST)


@pytest.mark.usefixtures("template_problem")
class TestTemplate:
    """On the miniature problem."""

    def test_cp_sat_goes_on_where_nothing_else_is_named(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """And the result says so."""
        monkeypatch.setitem(template.PROBLEM.exact_methods, "dp", ExactMethod(own_algorithm))
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
        monkeypatch.setattr("moeopt.solvers.backends.cpsat.run", refuse)
        result = moeopt.solve(KNAPSACK, warm_start=False)
        assert (result.status, result.objective) == ("feasible", COST)
        assert result.raw_status.endswith("then cp-sat: too large")

    def test_the_heuristic_counts_where_the_own_method_finds_nothing(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As with models."""
        monkeypatch.setitem(template.PROBLEM.exact_methods, "dp", ExactMethod(own_algorithm))
        monkeypatch.setattr(dynamic_program, "solve", lambda instance, search: search.stop())
        result = moeopt.solve(KNAPSACK)
        assert result.objective == moeopt.solve(KNAPSACK, "densest-first").objective
        assert result.bound is not None

    def test_models_leave_constraints_out(self) -> None:
        """As the problem's own algorithm cannot."""
        result = moeopt.solve(KNAPSACK, without=["TM-C1"])
        assert (result.method, result.status) == ("cp-sat", "optimal")
