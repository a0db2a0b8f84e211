"""Several later instances as one: a decision costs there what it does in all of them."""

from importlib import import_module
from typing import Any

import pytest

import moeopt
from moeopt import InputError, run_on
from tests.rooms.cache import serve
from tests.rooms.problems import get_problem, joined


def windows_of(instance: Any) -> list[Any]:
    """Return an instance's windows."""
    return get_problem(instance.problem).windows_of(instance)


def random_instance(problem: str, seed: int, kind: str) -> Any:
    """Return a small random instance."""
    module = import_module(f"tests.problems.{problem}.{problem}_random_instances")
    if problem == "replication":
        made = [module.random_instance(number, current=None, move_cost=0) for number in range(20)]
        return [one for one in made if len(windows_of(one)) > 1][seed]
    return module.random_instance(seed, kind)


def parts_of(problem: str, seed: int, kind: str) -> list[Any]:
    """Return instances of the same shape with other loads."""
    whole = random_instance(problem, seed, kind)
    if problem in ("layout", "replication"):
        return windows_of(whole)
    if problem == "bitwidth":
        return [whole, with_other_losses(whole)]
    field = {"placement": "steps", "cache": "accesses"}[problem]
    loads = getattr(whole, field)
    cut = len(loads) // 2
    pieces = [loads[:cut], loads[cut:]] if cut else [loads, loads]
    return [whole.model_copy(update={field: of}) for of in pieces]


def with_other_losses(whole: Any) -> Any:
    """Return a bitwidth instance whose experts lose something else."""
    layers = [
        layer.model_copy(
            update={
                "experts": tuple(
                    expert.model_copy(update={"loss": tuple(reversed(expert.loss))})
                    for expert in layer.experts
                )
            }
        )
        for layer in whole.layers
    ]
    return whole.model_copy(update={"layers": tuple(layers)})


def decisions_of(instance: Any) -> list[Any]:
    """Return every valid decision; of layouts, each once whatever its schedules."""
    problem = get_problem(instance.problem)
    candidates = problem.candidates(instance)
    valid = [one for one in candidates if not problem.violations(instance, one)]
    if instance.problem == "layout":
        valid = list({(one.resident, one.dimm): one for one in valid}.values())
    return valid


@pytest.mark.parametrize(
    ("problem", "kind"),
    [
        ("layout", "several scenarios"),
        ("placement", "batched"),
        ("placement", "sizes"),
        ("cache", "compute-bound"),
        ("replication", "several windows"),
        ("bitwidth", "any losses"),
    ],
)
@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3, 4))]
)
def test_its_optimum_is_the_best_single_decision(problem: str, kind: str, seed: int) -> None:
    """By brute force over all decisions, each run on every part."""
    parts = parts_of(problem, seed, kind)
    assert len(parts) > 1
    whole = joined(parts)
    found = moeopt.solve(whole, "brute-force", time_limit_s=600)
    decisions = decisions_of(random_instance(problem, seed, kind))
    if found.status == "infeasible":
        assert decisions == []
        return
    best = min(sum(run_on(part, decision) for part in parts) for decision in decisions)
    assert found.objective == best
    separated = get_problem(problem).separated
    assert best == sum(run_on(part, separated(part, found.solution)) for part in parts)


@pytest.mark.parametrize("kind", ["mixed", "fetch-bound", "slow GPU"])
@pytest.mark.parametrize("seed", range(2))
def test_caches_start_empty_in_every_stretch(kind: str, seed: int) -> None:
    """Every layer's hits, fetches and time add up; the whole costs at most what all parts do."""
    parts = parts_of("cache", seed, kind)
    whole = joined(parts)
    for decision in decisions_of(random_instance("cache", seed, kind)):
        served = [serve(part, decision) for part in parts]
        for layer, together in enumerate(serve(whole, decision)):
            each = [of[layer] for of in served]
            assert together.layer_ns == sum(one.layer_ns for one in each)
            assert together.fetches == sum(one.fetches for one in each)
        costs = [run_on(part, decision) for part in parts]
        assert run_on(whole, decision) <= sum(costs)


def test_a_free_dispatch_is_made_anew_in_every_part() -> None:
    """What lives on the GPU is what is decided."""
    for seed in range(3):
        parts = parts_of("placement", seed, "free dispatch")
        found = moeopt.solve(joined(parts), time_limit_s=60)
        assert found.status == "optimal"
        assert found.objective == sum(run_on(part, found.solution) for part in parts)


def test_copies_are_moved_once() -> None:
    """What moving costs is in no later window, however many there are."""
    module = import_module("tests.problems.replication.replication_random_instances")
    moves = next(one for one in map(module.random_instance, range(0, 40, 4)) if one.move_cost)
    assert all(one.move_cost == 0 for one in [*windows_of(moves), joined(windows_of(moves))])


def test_a_window_without_tokens_is_left_out() -> None:
    """It has no optimum of interest; a single one is an instance already."""
    instance = random_instance("layout", 0, "several scenarios")
    empty = instance.scenarios[0].model_copy(update={"tokens": (0,) * instance.experts})
    more = instance.model_copy(update={"scenarios": (*instance.scenarios, empty)})
    active = [any(scenario.tokens) for scenario in instance.scenarios]
    assert len(windows_of(more)) == sum(active)
    assert windows_of(windows_of(more)[0]) == [windows_of(more)[0]]


@pytest.mark.parametrize(
    ("problem", "change", "reason"),
    [
        ("placement", {"gpu_expert_ns": (0, 3, 77)}, "gpu_expert_ns: differs"),
        ("bitwidth", {"loss_scale": 2.0}, "losses: are in different units"),
        ("bitwidth", {"layers": ()}, "losses: are in different units, or of other experts"),
    ],
)
def test_what_does_not_fit_together_is_refused(
    problem: str, change: dict[str, Any], reason: str
) -> None:
    """In one line that says what differs."""
    one = random_instance(problem, 0, {"placement": "batched", "bitwidth": "any losses"}[problem])
    with pytest.raises(InputError, match=f"{problem}: later instances cannot be joined: {reason}"):
        joined([one, one.model_copy(update=change)])


def test_problems_without_an_instance_of_several() -> None:
    """Migrations are for one step."""
    module = import_module("tests.problems.relayout.relayout_random_instances")
    one = module.random_instance(0)
    assert joined([one]) is one
    with pytest.raises(InputError, match="relayout: one later instance at most"):
        joined([one, one])
    cache = random_instance("cache", 0, "mixed")
    with pytest.raises(InputError, match=r"stretches of \d experts are too many"):
        joined([cache] * 4096)
