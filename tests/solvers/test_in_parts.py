"""Independent parts: models of one layer each, sums of objectives and bounds, and what couples."""

from random import Random
from typing import Any

import pytest

import moeopt
from tests.problems.bitwidth.bitwidth_random_instances import random_instance
from tests.rooms.bitwidth import Instance, cpsat, greedy_marginal, joined, objective, parts, split
from tests.rooms.solvers import in_parts

EXACT = ("cp-sat", "milp")


def layered(seed: int = 0, layers: int = 6, experts: int = 5, **changes: Any) -> Instance:
    """Return layers with budgets of their own, from random ones with a budget each."""
    rng = Random(seed)
    loss = [[[rng.randint(0, 99) for _ in range(4)] for _ in range(experts)] for _ in range(layers)]
    instance = Instance.from_arrays(loss=loss, bits=[1, 2, 4, 8], budget_bits=17, name="layered")
    return instance.model_copy(update=changes)


@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count the layers of every CP-SAT model that is built."""
    sizes: list[int] = []

    class Counted(cpsat.Model):
        def __init__(self, instance: Instance) -> None:
            sizes.append(len(instance.layers))
            super().__init__(instance)

    monkeypatch.setattr(cpsat, "Model", Counted)
    return sizes


def test_every_model_has_one_layer(models: list[int]) -> None:
    """Six of them, and the sum is the optimum; without warm start no layer is closed before."""
    instance = layered()
    result = moeopt.solve(instance, "cp-sat", warm_start=False, verify=False)
    assert models == [1] * 6
    best = moeopt.solve(instance, "dp").objective
    assert (result.proof, result.objective, result.bound) == ("single", best, best)
    assert result.raw_status == "OPTIMAL"


def test_each_part_is_confirmed(models: list[int]) -> None:
    """By a second model of its own; the whole is as well proven as its least proven part."""
    result = moeopt.solve(layered(), "cp-sat", warm_start=False)
    assert models == [1] * 12
    assert (result.status, result.proof) == ("optimal", "confirmed")


@pytest.mark.parametrize(
    ("change", "layers"),
    [
        ({"granularity": "layer"}, [1] * 6),
        ({"granularity": "model"}, [6]),
        ({"model_budget_bits": 100}, [6]),
        ({"min_count": {2: 1}}, [1] * 6),
    ],
)
def test_only_what_is_coupled_stays_together(
    models: list[int], change: dict[str, Any], layers: list[int]
) -> None:
    """A model's budget or width couples layers; a layer's width or counts do not."""
    instance = layered(**change)
    result = moeopt.solve(instance, "cp-sat", warm_start=False, verify=False)
    assert models == layers
    assert result.objective == moeopt.solve(instance, "dp").objective


@pytest.mark.parametrize("method", EXACT)
def test_parts_give_what_brute_force_gives(method: str) -> None:
    """Random instances, some infeasible, with and without a start."""
    seen = set()
    for seed in range(12):
        instance = random_instance(seed, largest=3)
        truth = moeopt.solve(instance, "brute-force")
        for warm_start in (True, False):
            found = moeopt.solve(instance, method, warm_start=warm_start)
            assert (found.status, found.objective) == (truth.status, truth.objective), seed
        seen.add((truth.status, len(parts(instance)) > 1))
    assert {("optimal", True), ("infeasible", True)} <= seen


@pytest.mark.parametrize("method", EXACT)
def test_a_rule_can_be_left_out_of_every_part(method: str) -> None:
    """Without budgets every expert takes its least loss."""
    instance = layered()
    free = moeopt.solve(instance, method, without=["BW-C2"])
    assert free.objective == sum(min(e.loss) for layer in instance.layers for e in layer.experts)
    assert {rule for rule, _ in free.violations} == {"BW-C2"}


def test_what_is_open_after_the_limit_is_a_bracket(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts that ended count with their optimum, the others with start and bound."""
    instance = layered(seed=1, layers=12, experts=9)
    best = moeopt.solve(instance, "dp").objective
    assert isinstance(best, int)
    tasks = []
    run = in_parts.run_in_parts

    def only_one(task: Any, found: Any, backend: Any) -> Any:
        def slow(part: Any) -> Any:
            tasks.append(part)
            if len(tasks) > 1:
                part.deadline.limit = 0.0
                task.deadline.limit = 0.0
            return backend(part)

        return run(task, found, slow)

    monkeypatch.setattr(in_parts, "run_in_parts", only_one)
    result = moeopt.solve(instance, "cp-sat")
    assert (result.status, result.termination) == ("feasible", "time_limit")
    assert isinstance(result.objective, int)
    assert isinstance(result.bound, int)
    assert result.bound < best <= result.objective
    assert result.raw_status.count(" x ") >= 2


def test_a_solution_falls_into_parts_and_comes_together_again() -> None:
    """Objectives add up."""
    instance = layered()
    solution = greedy_marginal(instance)
    assert solution is not None
    layers = parts(instance)
    pieces = split(solution, layers)
    assert joined(instance, pieces) == solution
    losses = [objective(part, piece) for part, piece in zip(layers, pieces, strict=True)]
    assert sum(losses) == objective(instance, solution)


def test_progress_is_that_of_the_whole() -> None:
    """Bounds rise to the optimum, never above it."""
    instance = layered(seed=2)
    seen: list[tuple[Any, Any]] = []
    result = moeopt.solve(instance, "cp-sat", on_progress=lambda _, o, b: seen.append((o, b)))
    assert seen[-1] == (result.objective, result.bound)
    assert all(b is None or b <= result.objective for _, b in seen)
