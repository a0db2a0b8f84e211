"""The parts of price-and-swap: bounds against all placements, changes against the checker."""

import math
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import linprog

from moeopt import solve
from tests.problems.placement.placement_random_instances import (
    FREE_KINDS,
    KINDS,
    random_instance,
)
from tests.rooms.algorithms import Volume
from tests.rooms.core import Search
from tests.rooms.placement import (
    Decomposition,
    Flags,
    Instance,
    LocalSearch,
    Model,
    Relaxed,
    Residual,
    allowed,
    candidates,
    cheapest_layers,
    first_multipliers,
    held_of,
    lagrangian,
    linear_relaxation,
    objective,
    objective_grid,
    reduced_cost_fixing,
    relaxed,
    residual_of,
    solution_of,
    solve_residual,
    total_ns,
    violations,
    weighed,
)
from tests.rooms.placement import solve as price_and_swap
from tests.shares import first

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


def raised(model: Model, held: Flags) -> Volume[NDArray[np.float64], Relaxed]:
    """Return the volume algorithm at the multipliers of a placement."""
    dual = Decomposition(model)
    return Volume(dual, dual.evaluate(first_multipliers(model, held)))


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
        random = rng.normal(0, scale, sum(len(layer.expert) for layer in model.layers))
        volume = raised(model, found[0][0])
        first = volume.best
        volume.iterate(best, 30, lambda: False)
        assert volume.best.bound >= first.bound
        for proof in (relaxed(model, allowed(model, random)), first, volume.best):
            assert proof.bound <= best
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
        volume = raised(model, found[-1][0])
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


@pytest.mark.parametrize(
    "kind", first(4, ["mixed", "gpu-bound", "sizes, filled", "costly charge", "wide"])
)
def test_the_linear_relaxation_is_below_the_lagrangian_bound_at_its_weights(kind: str) -> None:
    """The program is written out again, as the problem has it.

    Both sides of every row and no charge but what each row must pay.
    """
    for seed in range(6):
        instance = drawn(seed, kind)
        model = model_of(instance)
        if model.capacity.least > model.capacity.most:
            continue
        linear = linear_relaxation(model, Search(limit_s=30.0))
        assert linear is not None
        assert len(linear.weights) == len(model.layers)
        program = both_sides(model)
        used = float((linear.x * model.capacity.sizes).sum())
        assert model.capacity.least - 1e-3 <= used <= model.capacity.most + 1e-3
        proof = relaxed(model, allowed(model, weighed(model, linear.weights)))
        rounding = sum(float(of.weight[of.row].sum()) for of in model.layers)  # to whole ns
        assert proof.bound >= program - 1e-3 * abs(program) - rounding
        for held, total in placements(instance):
            assert program <= total + 1e-6 * total
            assert proof.base_ns + int(proof.cost_ns[held].sum()) <= total


def both_sides(model: Model) -> float:
    """Return the linear relaxation's value, a row of the program for each side of a row."""
    sizes = model.capacity.sizes
    (layers, experts), columns = sizes.shape, sizes.size + sum(of.rows for of in model.layers)
    rows, right, cost, at = [], [], np.zeros(columns), sizes.size
    for layer in range(layers):
        of = model.layers[layer]
        for row in range(of.rows):
            part = slice(of.start[row], of.start[row + 1])
            where = layer * experts + of.expert[part]
            charge = min(model.fixed_ns, int(of.gpu_ns[part].sum()))
            for ns, due in ((of.gpu_ns, 0), (-of.offload_ns, of.offload_ns[part].sum() + charge)):
                line = np.zeros(columns)
                line[where], line[at] = ns[part], -1
                rows.append(line)
                right.append(-float(due))
            cost[at] = of.weight[row]
            at += 1
    for sign, limit in ((1, model.capacity.most), (-1, -model.capacity.least)):
        rows.append(np.append(sign * sizes.ravel(), np.zeros(columns - sizes.size)))
        right.append(float(limit))
    bounds = [(0, 1)] * sizes.size + [(0, None)] * (columns - sizes.size)
    return float(linprog(cost, np.array(rows), right, bounds=bounds).fun)


def test_the_linear_relaxation_is_left_out_where_it_takes_too_long() -> None:
    """What the time left is not expected to suffice for is not begun."""
    model = model_of(random_instance(0, "mixed"))
    assert linear_relaxation(model, Search(limit_s=0.0)) is None


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
        bound_ns, held = solve_residual(model, whole, proof, worst + 1, 30.0)
        assert best - 1 <= bound_ns <= best
        assert held is not None
        assert total_ns(model.layers, held, model.fixed_ns) == best
        residual = residual_of(model, proof, worst + model.grid)
        above = worst + model.grid
        bound_ns, _ = solve_residual(model, residual, proof, above, 30.0)
        assert best - 1 <= bound_ns <= best
        residual = residual_of(model, proof, best)
        assert solve_residual(model, residual, proof, best, 30.0)[0] >= best - 1


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


def test_it_stops_where_the_residual_problem_leaves_a_gap_that_is_good_enough() -> None:
    """The gap counts that is left afterwards: nothing is asked a second time."""
    brought = 0
    for seed in range(6):
        instance = random_instance(seed, "free, gpu-bound").model_copy(update={"host_slots": None})
        best: Any = solve(instance, "price-and-swap").objective
        search = Search(limit_s=30.0, enough_gap=0.02)
        asked = list[Any]()

        def nearly(
            *_: object, search: Search = search, asked: Any = asked, best: Any = best
        ) -> Any:
            asked.append(search.bound)
            return math.ceil(0.99 * best), None

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(lagrangian, "solve_residual", nearly)
            patch.setattr(lagrangian, "STEPS", 1)
            patch.setattr(lagrangian, "VERY_FEW", 10**9)
            price_and_swap(instance, search)
        if search.objective == best and asked and not search.closed:
            assert search.enough
            assert len(asked) == 1
            brought += asked[0] < 0.98 * best
    assert brought


def test_the_same_seed_gives_the_same_answer() -> None:
    """One worker, no limit that cuts in."""
    for kind in ("mixed", "gpu-bound"):
        instance = random_instance(5, kind)
        results = [solve(instance, "price-and-swap", seed=7) for _ in range(2)]
        assert results[0].solution == results[1].solution
        assert results[0].bound == results[1].bound
