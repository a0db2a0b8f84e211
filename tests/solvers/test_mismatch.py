"""A method and the checker disagree: what stands is returned, the rest is told or raised."""

from collections.abc import Callable

import pytest

import moeopt
from tests.problems.tri_domain.random_instances import random_instance, random_instance_for
from tests.rooms.tri_domain import Solution, bounds, check, cpsat, heuristics
from tests.shares import first

INSTANCE = random_instance(4, experts=7)
MODELS = {"cp-sat": cpsat.Model, "milp": cpsat.Model}  # whose rows the MILP has


@pytest.mark.parametrize("shift", [-1000, 1000])
@pytest.mark.parametrize("method", MODELS)
def test_another_objective_than_the_checkers(
    method: str, shift: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checker's value counts: nothing is proven by a model with another objective."""
    optimum = moeopt.solve(INSTANCE, "cp-sat").objective
    honest = check.objective
    monkeypatch.setattr(check, "objective", lambda i, s: honest(i, s) + shift)
    result = moeopt.solve(INSTANCE, method, warm_start=False)
    assert (result.status, result.objective) == ("feasible", optimum + shift)  # type: ignore[operator]
    assert result.evidence.refuted


def reasons(method: str, rule: str) -> str:
    """Return why claims on random instances, which a rule says something of, did not stand."""
    found = []
    for seed in range(6):
        try:
            result = moeopt.solve(random_instance_for(rule, seed), method, warm_start=False)
        except moeopt.ContradictionError as error:
            found.append(str(error))
        else:
            found += [claim.reason for claim in result.evidence.refuted]
    return "\n".join(found)


@pytest.mark.parametrize("method", first(1, [*MODELS]))
def test_a_model_that_forgot_a_constraint(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each constraint's method emptied in turn: the checker names the rule that is broken."""
    for rule, name in MODELS[method].constraints().items():
        assert reasons(method, rule) == ""
        with monkeypatch.context() as patch:
            patch.setattr(MODELS[method], name, lambda self: None)
            assert rule in reasons(method, rule)


def test_a_decoder_that_reads_the_wrong_thing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The decoded solution is checked, not the solver's variables."""
    nowhere = Solution(instance=INSTANCE.name, assignment=(None,) * 7)
    monkeypatch.setattr(cpsat.Model, "decode", lambda self, value: nowhere)
    with pytest.raises(moeopt.ContradictionError, match="TD-C1"):
        moeopt.solve(INSTANCE, "cp-sat", warm_start=False)
    kept = moeopt.solve(INSTANCE, "cp-sat")  # the starting solution stands
    assert kept.objective == moeopt.solve(INSTANCE, "trimoe").objective
    assert "REFUTED: cp-sat" in kept.raw_status


def test_a_heuristic_with_an_invalid_solution(monkeypatch: pytest.MonkeyPatch) -> None:
    """Heuristics are checked, too."""
    nowhere = Solution(instance=INSTANCE.name, assignment=(None,) * 7)
    monkeypatch.setattr(heuristics, "greedy", lambda instance: nowhere)
    with pytest.raises(moeopt.ContradictionError, match="TD-C1"):
        moeopt.solve(INSTANCE, "greedy")


def test_a_bound_above_the_optimum(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong proof is contradicted by any better solution; the engine's is then confirmed."""
    optimum = moeopt.solve(INSTANCE, "cp-sat").objective
    assert optimum is not None
    wrong: Callable[..., int] = lambda instance: optimum + 1  # noqa: E731
    monkeypatch.setattr(bounds, "lower_bound", wrong)
    monkeypatch.setattr(heuristics, "WARM_START", lambda instance: None)
    result = moeopt.solve(INSTANCE, "cp-sat")
    assert (result.status, result.objective, result.proof) == ("optimal", optimum, "confirmed")
    [fallen] = result.evidence.refuted
    assert fallen.engine == "the combinatorial bound"


def test_infeasible_although_a_solution_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that excludes the starting solution proves nothing."""

    def contradict(self: cpsat.Model) -> None:
        self.model.add(self.makespan < 0)

    monkeypatch.setattr(cpsat.Model, "td_c3_gpu_is_serial", contradict)
    monkeypatch.setattr(bounds, "lower_bound", lambda instance: 0)
    result = moeopt.solve(INSTANCE, "cp-sat")
    assert result.status == "feasible"
    assert {claim.kind for claim in result.evidence.refuted} == {"infeasible"}


def test_a_model_that_cpsat_rejects(monkeypatch: pytest.MonkeyPatch) -> None:
    """MODEL_INVALID raises with CP-SAT's own words."""

    def overflow(self: cpsat.Model) -> None:
        huge = self.model.new_int_var(0, 2**62, "huge")
        self.model.add(2**62 * huge + 2**62 * self.makespan <= 5)

    monkeypatch.setattr(cpsat.Model, "td_c3_gpu_is_serial", overflow)
    with pytest.raises(moeopt.ContradictionError, match=r"CP-SAT rejects the model: .*huge"):
        moeopt.solve(INSTANCE, "cp-sat", warm_start=False)
