"""The parts of price-and-swap: bounds against all placements, changes against the checker."""

from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest

from moeopt import solve
from tests.problems.placement.placement_random_instances import (
    FREE_KINDS,
    KINDS,
    random_instance,
)
from tests.rooms.core import Search
from tests.rooms.placement import (
    Flags,
    Instance,
    LocalSearch,
    Model,
    Residual,
    VolumeAlgorithm,
    allowed,
    candidates,
    cheapest_layers,
    first_multipliers,
    held_of,
    lagrangian,
    objective,
    objective_grid,
    perturbed,
    reduced_cost_fixing,
    relaxed,
    residual_of,
    solution_of,
    solve_residual,
    total_ns,
    violations,
)
from tests.rooms.placement import solve as price_and_swap

WIDE = 12
"""Experts of a layer, more than are tried out subset by subset."""


def model_of(instance: Instance) -> Model:
    """Return what the algorithm computes with."""
    return Model.of(instance, objective_grid(instance))


def wide_instance(seed: int) -> Instance:
    """Return one layer in which rows have more experts than `kernels.FEW`."""
    rng = np.random.default_rng(seed)
    steps = []
    for _ in range(int(rng.integers(1, 5))):
        active = rng.permutation(WIDE)[: int(rng.integers(9, WIDE + 1))]
        steps.append([[[int(e), int(rng.integers(1, 5))] for e in active]])
    return Instance(
        name=f"wide-{seed}",
        layers=1,
        experts=WIDE,
        gpu_slots=int(rng.integers(0, WIDE + 1)),
        gpu_expert_ns=[0, *np.sort(rng.integers(1, 20, 5)).tolist()],
        offload_expert_ns=[0, *np.sort(rng.integers(5, 40, 5)).tolist()],
        layer_offload_fixed_ns=int(rng.integers(0, 60)),
        steps=steps,
    )


def drawn(seed: int, kind: str) -> Instance:
    """Return a random instance of a kind, or a wide one."""
    if "wide" not in kind:
        return random_instance(seed, kind)
    wide = wide_instance(seed)
    if kind == "wide":
        return wide
    free = {"schema_version": 2, "dispatch": "free", "gpu_slots": WIDE}
    return wide.model_copy(update=free | {"gpu_expert_ns": wide.offload_expert_ns})


def placements(instance: Instance) -> Iterator[tuple[Flags, int]]:
    """Yield every valid placement with its objective, both by the checker.

    Dispatches of wide rows are too many for the oracle: `test_placement_dispatch` checks them.
    """
    if instance.dispatch == "free" and instance.experts == WIDE:
        model = model_of(instance)
        for chosen in product((False, True), repeat=WIDE):
            held = np.array([chosen])
            yield held, total_ns(model.layers, held, model.fixed_ns)
        return
    for solution in candidates(instance):
        if not violations(instance, solution):
            held = held_of(solution, instance.layers, instance.experts)
            yield held, objective(instance, solution)


@pytest.mark.parametrize("seeds", [range(1), pytest.param(range(1, 9), marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", [*KINDS, *FREE_KINDS, "wide", "wide, free"])
def test_any_multipliers_give_a_bound(kind: str, seeds: range) -> None:
    """Random multipliers, first and raised ones: in integers below all placements.

    Not only in total: the constant plus the costs of the experts on the GPU is below each one's
    objective.
    """
    for seed in seeds:
        instance = drawn(seed, kind)
        model = model_of(instance)
        found = list(placements(instance))
        if not found:
            continue
        best = min(total for _, total in found)
        rng = np.random.default_rng(seed)
        scale = max(instance.offload_expert_ns)
        random = [rng.normal(0, scale, len(layer.expert)) for layer in model.layers]
        volume = VolumeAlgorithm(model, first_multipliers(model, found[0][0]))
        first = volume.best
        volume.iterate(best, 30, lambda: False)
        assert volume.best.bound_ns >= first.bound_ns
        for proof in (relaxed(model, allowed(model, random)), first, volume.best):
            assert proof.bound_ns <= best
            for held, total in found[:: max(1, len(found) // 60)]:
                assert proof.base_ns + int(proof.cost_ns[held].sum()) <= total


@pytest.mark.parametrize(
    "kind",
    [
        "mixed",
        "gpu-bound",
        "sizes",
        "equal counts",
        "fill",
        "wide",
        "free dispatch",
        "free, widths",
    ],
)
@pytest.mark.parametrize("more", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_what_cannot_be_is_in_no_better_placement(kind: str, more: bool) -> None:
    """`reduced_cost_fixing` keeps the places of every placement within the limit."""
    excluded = 0
    for seed in range(6 if more or kind == "gpu-bound" else 2):  # there the sixth excludes some
        instance = drawn(seed, kind)
        model = model_of(instance)
        found = list(placements(instance))
        if not found:
            continue
        best = min(total for _, total in found)
        volume = VolumeAlgorithm(model, first_multipliers(model, found[-1][0]))
        volume.iterate(best, 40, lambda: False)
        proof = volume.best
        for incumbent in (best + 1, best + model.grid, (11 * best) // 10 + 1):
            most = incumbent - 1 - proof.base_ns
            on, off = reduced_cost_fixing(proof.cost_ns, model.capacity, most)
            excluded += int((~(on & off)).sum())
            for held, total in found:
                if total < incumbent:
                    assert on[held].all()
                    assert off[~held].all()
    assert excluded


@pytest.mark.parametrize("kind", [*KINDS, *FREE_KINDS])
def test_every_change_is_what_the_judge_says(kind: str) -> None:
    """Moves claim the difference of two objectives and keep all rules, down to a local optimum."""
    for seed in range(4):
        instance = random_instance(seed, kind)
        model = model_of(instance)
        held = next((held for held, _ in placements(instance)), None)
        if held is None or instance.restriction == "whole-layers":
            continue
        local = LocalSearch(model, held)
        for _ in range(60):
            before = total_ns(model.layers, local.held, model.fixed_ns)
            assert local.total_ns == before
            moves = [move for move in local._moves() if move.experts and move.change_ns < 2**60]
            for move in moves:
                after = local.held.copy()
                for place in move.experts:
                    after[place] ^= True
                changed = total_ns(model.layers, after, model.fixed_ns) - before
                assert changed == move.change_ns
                assert not violations(instance, solution_of(instance, after))
            best = min(moves, key=lambda move: move.change_ns, default=None)
            if best is None or best.change_ns >= 0:
                break
            local.make(best.experts)
        else:
            raise AssertionError("no local optimum after 60 moves")


@pytest.mark.parametrize("kind", ["mixed", "sizes", "equal counts", "sizes, filled"])
def test_perturbations_keep_the_rules(kind: str) -> None:
    """And change something, where anything can be exchanged."""
    changed = 0
    for seed in range(8):
        instance = random_instance(seed, kind)
        model = model_of(instance)
        for held, _ in list(placements(instance))[:10]:
            found = perturbed(held, model.capacity, np.random.default_rng(seed))
            assert model.capacity.allows(found)
            changed += bool((found != held).any())
    assert changed


def test_whole_layers_are_a_knapsack() -> None:
    """The table against the best of all sets of layers, also with sizes and a full GPU."""
    none = 0
    for kind in ("mixed", "sizes", "sizes, filled", "fill", "host without copy"):
        for seed in range(8):
            drawn = random_instance(seed, kind).model_copy(update={"restriction": "whole-layers"})
            best = min((total for _, total in placements(drawn)), default=None)
            model = model_of(drawn)
            held = cheapest_layers(model)
            none += held is None
            assert (held is None) == (best is None), drawn.name
            if held is not None:
                assert total_ns(model.layers, held, model.fixed_ns) == best
                assert model.capacity.allows(held)
    assert none


@pytest.mark.parametrize(
    "kind",
    [
        "mixed",
        "gpu-bound",
        "sizes",
        "equal counts",
        "costly charge",
        "free dispatch",
        "free, sizes",
    ],
)
def test_cp_sat_closes_whatever_is_left(kind: str) -> None:
    """From nothing decided to much: its bound is the optimum, and it has a placement for it."""
    for seed in range(4):
        instance = random_instance(seed, kind)
        model = model_of(instance)
        found = list(placements(instance))
        if not found:
            continue
        best = min(total for _, total in found)
        worst = max(total for _, total in found)
        everything = np.ones(found[0][0].shape, dtype=bool)
        proof = relaxed(model, allowed(model, first_multipliers(model, found[0][0])))
        whole = Residual(everything, everything)
        bound_ns, held = solve_residual(instance, model, whole, proof, worst + 1, 30.0)
        assert best - 1 <= bound_ns <= best
        assert held is not None
        assert total_ns(model.layers, held, model.fixed_ns) == best
        residual = residual_of(model, proof, worst + model.grid)
        above = worst + model.grid
        bound_ns, _ = solve_residual(instance, model, residual, proof, above, 30.0)
        assert best - 1 <= bound_ns <= best
        residual = residual_of(model, proof, best)
        assert solve_residual(instance, model, residual, proof, best, 30.0)[0] >= best - 1


def test_it_stops_when_told_with_a_bound_and_a_placement() -> None:
    """A search that is stopped at its first placement keeps what it has."""
    instance = random_instance(3, "batched").model_copy(update={"host_slots": None})
    search = Search(limit_s=30.0)
    search.on_improvement = lambda objective, bound: search.stop()
    price_and_swap(instance, search)
    assert search.solution is not None
    assert search.objective == objective(instance, search.solution)


def test_it_stops_where_a_gap_is_good_enough() -> None:
    """Without a call for CP-SAT, and with a bound within that gap; else it goes on to the end."""
    stopped = 0
    for kind in ("gpu-bound", "free, gpu-bound", "costly charge"):
        for seed in range(4):
            instance = random_instance(seed, kind).model_copy(update={"host_slots": None})
            best = solve(instance, "price-and-swap").objective
            search = Search(limit_s=30.0, enough_gap=1.0)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(lagrangian, "solve_residual", lambda *_: (0, None))
                price_and_swap(instance, search)
            assert search.enough != search.closed
            stopped += search.enough
            assert search.bound is not None
            assert search.bound <= best <= search.objective  # type: ignore[operator]
    assert stopped


def test_the_same_seed_gives_the_same_answer() -> None:
    """One worker, no limit that cuts in."""
    for kind in ("mixed", "gpu-bound"):
        instance = random_instance(5, kind)
        results = [solve(instance, "price-and-swap", seed=7) for _ in range(2)]
        assert results[0].solution == results[1].solution
        assert results[0].bound == results[1].bound
