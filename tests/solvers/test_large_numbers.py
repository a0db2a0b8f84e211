"""Objectives above 2**53, which a double does not hold."""

import random

import pytest
from ortools.sat.python import cp_model

import moeopt
from tests.rooms.deferral import Instance, second_key_radix
from tests.rooms.solvers import integer_bound

EXACT_DOUBLE = 2**53


def large_instance(seed: int) -> Instance:
    """Return an instance whose makespans and penalties pack into numbers of 2**54 and more."""
    rng = random.Random(seed)
    layers, top_k = rng.randint(2, 4), rng.randint(1, 3)

    def times(most: int) -> list[int]:
        return [rng.randint(most // 10, most) for _ in range(layers)]

    penalty = [0, *sorted(rng.randint(10**6, 4 * 10**7) for _ in range(top_k))]
    times_ns = {key: times(10**9) for key in ("attention_ns", "shared_ns", "expert_cpu_ns")}
    return Instance(
        name=f"large {seed}",
        layers=layers,
        top_k=top_k,
        min_immediate=0,
        sync_ns=times(10**6),
        penalty=penalty,
        **times_ns,
    )


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("warm_start", [True, False])
def test_every_method_agrees(seed: int, warm_start: bool) -> None:
    """CP-SAT proves what the dynamic program proves, to the last unit; a MILP claims no more."""
    instance = large_instance(seed)
    best = moeopt.solve(instance, "dp").objective
    assert isinstance(best, tuple)
    radix = second_key_radix(instance)
    assert best[0] * radix > EXACT_DOUBLE
    result = moeopt.solve(instance, "cp-sat", warm_start=warm_start)
    assert (result.status, result.objective, result.bound) == ("optimal", best, best)
    for _, objective, bound in result.trace:
        assert objective is None or objective >= best  # type: ignore[operator]
        assert bound is None or bound <= best  # type: ignore[operator]
    result = moeopt.solve(instance, "milp", warm_start=warm_start)
    assert result.objective is not None
    assert result.objective >= best  # type: ignore[operator]
    assert result.bound is None or result.bound <= best  # type: ignore[operator]


def test_what_the_callback_sees_is_never_above() -> None:
    """CP-SAT's callback has bounds as doubles only: whatever integer it was, less is claimed."""
    for exact in (7, 2**53 - 1, 2**53 + 1, 2**55 + 3, 2**59 - 1, -(2**55) - 3):
        claimed = integer_bound(float(exact))
        assert claimed <= exact
        assert exact - claimed <= (0 if abs(exact) < EXACT_DOUBLE else abs(exact) / 2**50)
    assert integer_bound(250.99999999999997) == 251
    assert integer_bound(250.5) == 251


def test_incumbents_are_recorded_in_integers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that the search passes on its way, too."""
    instance = large_instance(3)
    seen: list[int] = []
    honest = cp_model.CpSolver.solve

    def slow(self: cp_model.CpSolver, model: object, callback: object) -> object:
        self.parameters.cp_model_presolve = False  # more incumbents on the way
        return honest(self, model, callback)

    monkeypatch.setattr(cp_model.CpSolver, "solve", slow)
    result = moeopt.solve(
        instance,
        "cp-sat",
        warm_start=False,
        on_progress=lambda _, objective, bound: seen.append(objective),
    )
    assert result.status == "optimal"
    assert seen[-1] == result.objective
    assert {type(entry) for objective in seen if objective for entry in objective} == {int}
