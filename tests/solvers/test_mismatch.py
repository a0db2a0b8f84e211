"""A method and the checker disagree: that is raised, never returned."""

from collections.abc import Callable

import pytest

import moeopt
import moeopt.problems.tri_domain.bounds as bounds
import moeopt.problems.tri_domain.check as check
import moeopt.problems.tri_domain.cpsat as cpsat
import moeopt.problems.tri_domain.heuristics as heuristics
from moeopt.problems.tri_domain.instance import Solution
from tests.problems.tri_domain.random_instances import random_instance, random_instance_for

INSTANCE = random_instance(4, experts=7)
MODELS = {"cp-sat": cpsat.Model, "milp": cpsat.Model}  # whose rows the MILP has


@pytest.mark.parametrize("shift", [-1000, 1000])
@pytest.mark.parametrize("method", ["cp-sat", "milp", "mathprog"])
def test_another_objective_than_the_checkers(
    method: str, shift: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checker's value counts: a solver that claims more or less is refused."""
    honest = check.objective
    monkeypatch.setattr(check, "objective", lambda i, s: honest(i, s) + shift)
    with pytest.raises(moeopt.ModelMismatchError, match=r"claims \d+, the checker computes -?\d+"):
        moeopt.solve(INSTANCE, method, warm_start=False)


def solve_a_dozen(method: str, rule: str) -> None:
    """Solve random instances that a rule says something of, from scratch."""
    for seed in range(12):
        moeopt.solve(random_instance_for(rule, seed), method, warm_start=False)


@pytest.mark.parametrize("method", MODELS)
def test_a_model_that_forgot_a_constraint(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each constraint's method emptied in turn: the checker names the rule that is broken."""
    for rule, name in MODELS[method].constraints().items():
        with monkeypatch.context() as patch:
            patch.setattr(MODELS[method], name, lambda self: None)
            with pytest.raises(moeopt.ModelMismatchError, match=rule):
                solve_a_dozen(method, rule)


def test_a_decoder_that_reads_the_wrong_thing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The decoded solution is checked, not the solver's variables."""
    everything_on_gpu = Solution(instance=INSTANCE.name, assignment=("gpu",) * 7)
    monkeypatch.setattr(cpsat.Model, "decode", lambda self, value: everything_on_gpu)
    with pytest.raises(moeopt.ModelMismatchError):
        moeopt.solve(INSTANCE, "cp-sat", warm_start=False)


def test_a_heuristic_with_an_invalid_solution(monkeypatch: pytest.MonkeyPatch) -> None:
    """Heuristics are checked, too."""
    nowhere = Solution(instance=INSTANCE.name, assignment=(None,) * 7)
    monkeypatch.setitem(heuristics.HEURISTICS, "greedy", lambda instance: nowhere)
    with pytest.raises(moeopt.ModelMismatchError, match="TD-C1"):
        moeopt.solve(INSTANCE, "greedy")


def test_a_bound_above_the_optimum(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong proof is contradicted by any better solution."""
    optimum = moeopt.solve(INSTANCE, "cp-sat").objective
    assert optimum is not None
    wrong: Callable[..., int] = lambda instance: optimum + 1  # noqa: E731
    monkeypatch.setattr(bounds, "lower_bound", wrong)
    monkeypatch.setattr(heuristics, "WARM_START", lambda instance: None)
    with pytest.raises(moeopt.ModelMismatchError, match="is above objective"):
        moeopt.solve(INSTANCE, "cp-sat")


def test_infeasible_although_a_solution_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that excludes the starting solution is wrong."""

    def contradict(self: cpsat.Model) -> None:
        self.model.add(self.makespan < 0)

    monkeypatch.setattr(cpsat.Model, "td_c3_gpu_is_serial", contradict)
    with pytest.raises(moeopt.ModelMismatchError, match="called infeasible"):
        moeopt.solve(INSTANCE, "cp-sat")


def test_a_model_that_cpsat_rejects(monkeypatch: pytest.MonkeyPatch) -> None:
    """MODEL_INVALID raises with CP-SAT's own words."""

    def overflow(self: cpsat.Model) -> None:
        huge = self.model.new_int_var(0, 2**62, "huge")
        self.model.add(2**62 * huge + 2**62 * self.makespan <= 5)

    monkeypatch.setattr(cpsat.Model, "td_c3_gpu_is_serial", overflow)
    with pytest.raises(moeopt.ModelMismatchError, match=r"CP-SAT rejects the model: .*huge"):
        moeopt.solve(INSTANCE, "cp-sat", warm_start=False)
