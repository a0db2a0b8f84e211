"""Free dispatch: the best one of a placement, every method against the oracle, more memory."""

from itertools import product
from typing import Any

import numpy as np
import pytest

import moeopt
from moeopt import InputError, run_on
from tests.mathprog.solve import solve
from tests.problems.agreement import assert_agreement, assert_starts_help
from tests.problems.placement.placement_random_instances import FREE_KINDS, random_instance
from tests.rooms.placement import (
    CELLS,
    FEW,
    HEURISTICS,
    Instance,
    Solution,
    assume,
    best_dispatch,
    capacity_of,
    facts,
    held_of,
    layer_steps,
    lower_bound,
    objective,
    total_ns,
    violations,
)

MODELS = ("cp-sat", "milp", "mathprog")
PER_KIND = 30
SHARES = [range(1), pytest.param(range(1, PER_KIND), marks=pytest.mark.slow)]
MORE_MEMORY = [range(8), pytest.param(range(8, 200), marks=pytest.mark.slow)]

NESTED = (
    "frequency",
    "per-layer-frequency",
    "importance-hindsight",
    "offload-time",
    "front-loading",
    "random",
)
"""Rules that put experts on the GPU in one order, whatever its memory."""


def free(**changes: Any) -> Instance:
    """Return three experts in one layer: 9 ns on the GPU, 10 elsewhere, charge 1; two steps."""
    data: dict[str, Any] = {"layers": 1, "experts": 3, "gpu_slots": 3, "schema_version": 2}
    data |= {"gpu_expert_ns": [0, 9], "offload_expert_ns": [0, 10], "layer_offload_fixed_ns": 1}
    data |= {"steps": [[[[0, 1], [1, 1], [2, 1]]], [[[2, 1]]]], "dispatch": "free"}
    return Instance(name="free", **(data | changes))


def placed(*gpu: tuple[int, ...], computed: Any = None) -> Solution:
    """Return a solution of `free`."""
    return Solution(instance="free", gpu=gpu, computed_on_gpu=computed)


def test_by_hand() -> None:
    """All on the GPU, 27 and 9; expert 0 computed elsewhere in the first step: 18 against 11."""
    assert objective(free(), placed((0, 1, 2))) == 27 + 9
    better = placed((0, 1, 2), computed=[[[1, 2]], [[2]]])
    assert [(row.gpu_ns, row.offload_ns, row.fixed_ns) for row in layer_steps(free(), better)] == [
        (18, 10, 1),
        (9, 0, 0),
    ]
    assert (violations(free(), better), objective(free(), better)) == ([], 27)
    assert facts(free(), better)["dispatched_away"] == 1
    for method in ("brute-force", "price-and-swap", *MODELS):
        assert solve(free(), method).objective == 27
    assert solve(free(dispatch="resident"), "price-and-swap").objective == 18 + 9


def test_a_full_gpu_may_compute_nothing() -> None:
    """One expert, 2 or 30 ns on the GPU that must hold it, 10 or 20 elsewhere: 2 + 20 ns."""
    times = {"gpu_expert_ns": [0, 2, 30], "offload_expert_ns": [0, 10, 20]}
    steps = [[[[0, 1]]], [[[0, 2]]]]
    full = free(experts=1, gpu_slots=1, fill=True, steps=steps, layer_offload_fixed_ns=0, **times)
    assert solve(full, "price-and-swap").objective == 22
    assert lower_bound(full) <= 22


@pytest.mark.parametrize(
    ("changes", "solution", "claim", "rules"),
    [
        ({}, placed((0, 1), computed=[[[0]], [[]]]), None, []),
        ({}, placed((0, 1), computed=[[[0]], [[]]]), 21 + 11, []),
        ({}, placed((0, 1), computed=[[[0]], [[]]]), 21 + 10, ["PL-C8"]),
        ({}, placed((0, 1), computed=[[[2]], [[]]]), None, ["PL-C9"]),
        ({}, placed((0, 1), computed=[[[0]], [[0]]]), None, ["PL-C9"]),
        ({}, placed((0, 1), computed=[[[0, 0]], [[]]]), None, ["PL-C9"]),
        ({}, placed((0, 1), computed=[[[0]]]), None, ["PL-C9"]),
        ({}, placed((0, 1), computed=[[[0]], []]), None, ["PL-C9"]),
        ({"dispatch": "resident"}, placed((0, 1), computed=[[[0]], [[]]]), None, ["PL-C9"]),
        ({"dispatch": "resident"}, placed((0, 1), computed=[[[1, 0]], [[]]]), None, []),
    ],
)
def test_violations_name_the_rule(
    changes: dict[str, Any], solution: Solution, claim: int | None, rules: list[str]
) -> None:
    """What the GPU computes is on it and has tokens; without free dispatch it is all of that."""
    assert [rule for rule, _ in violations(free(**changes), solution, claim)] == rules


def rows(rng: np.random.Generator, size: int, longest: int) -> tuple[np.ndarray[Any, Any], ...]:
    """Return the arrays of one row: start, GPU and offload times, and who is on the GPU."""
    gpu, off = rng.integers(1, longest, (2, size))
    return np.array([0, size]), gpu, off, rng.random(size) < 0.99


@pytest.mark.parametrize("more", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("size", "longest"), [(2, 30), (6, 30), (13, 30), (13, 10**9)])
def test_the_best_dispatch_of_a_row(size: int, longest: int, more: bool) -> None:
    """Against all subsets: by subsets, by sums, and by sums that had to be rounded."""
    rng = np.random.default_rng(size)
    rounded = 0
    for _ in range(60 if size <= 6 else 6 if more else 2):
        start, gpu, off, on = rows(rng, size, longest)
        fixed = int(rng.integers(0, longest))
        runs = on.copy()
        unproven = best_dispatch(start, gpu, off, fixed, on, runs)

        def later(flags: Any, gpu: Any = gpu, off: Any = off, fixed: int = fixed) -> int:
            away = int(off[~flags].sum())
            return max(int(gpu[flags].sum()), away + (fixed if not flags.all() else 0))

        assert not (runs & ~on).any()
        able = np.flatnonzero(on)
        best = later(on)
        for chosen in product((False, True), repeat=len(able)):
            flags = np.zeros(size, dtype=bool)
            flags[able[list(chosen)]] = True
            best = min(best, later(flags))
        rounded += unproven
        assert later(runs) == best if not unproven else best <= later(runs) <= best * 1.01
        assert not unproven or (len(able) > FEW and gpu.sum() > CELLS)
    assert bool(rounded) == (longest > CELLS)


@pytest.mark.parametrize("seeds", SHARES)
@pytest.mark.parametrize("kind", FREE_KINDS)
def test_every_method_agrees_with_brute_force(kind: str, seeds: range) -> None:
    """On 30 instances of each kind of schema 2, 300 in all; see `assert_agreement`."""
    for seed in seeds:
        assert_agreement(random_instance(seed, kind))


def test_where_no_choice_of_dispatch_is_left() -> None:
    """All rows are decided beforehand: the linear relaxation has none."""
    assert_agreement(random_instance(16, "free, widths"))


def test_starting_solutions_change_nothing_but_time() -> None:
    """With a placement by rank and its dispatch as a start the answer is the same."""
    kinds = ("free, gpu-bound", "free, widths")
    assert_starts_help((random_instance(3, kind) for kind in kinds), "price-and-swap")


def with_slots(instance: Instance, slots: int, **changes: Any) -> Instance:
    """Return the instance with another memory, and nothing in its way."""
    return instance.model_copy(update={"gpu_slots": slots, "host_slots": None, **changes})


@pytest.mark.parametrize("seeds", MORE_MEMORY)
def test_more_memory_never_costs(seeds: range) -> None:
    """200 cases: neither an optimum, full or not, nor a rule that follows an order of its own."""
    kinds = ("free dispatch", "free, gpu-bound", "free, widths", "free, huge numbers")
    for seed in seeds:
        instance = random_instance(seed, kinds[seed % len(kinds)])
        total = int(instance.sizes.sum())
        few, many = sorted(np.random.default_rng(seed).integers(0, total + 1, 2).tolist())
        for fill in (False, True):
            less, more = (
                solve(with_slots(instance, slots, fill=fill), "price-and-swap").objective
                for slots in (few, many)
            )
            assert isinstance(less, int)
            assert isinstance(more, int)
            assert more <= less, (instance.name, few, many, fill)
        for name in NESTED:
            costs = [_ruled(with_slots(instance, slots), name) for slots in (few, many)]
            assert costs[1] <= costs[0], (instance.name, name, few, many)


def test_by_residents_more_memory_costs() -> None:
    """What free dispatch ends: a full GPU, and rules that fill it, are slower with more of it."""
    dearer = dict.fromkeys(("fill", *NESTED), 0)
    for seed in range(12):
        instance = random_instance(seed, "free, gpu-bound").model_copy(
            update={"dispatch": "resident"}
        )
        for slots in range(instance.layers * instance.experts):
            less, more = (with_slots(instance, count, fill=True) for count in (slots, slots + 1))
            optima = [solve(of, "price-and-swap").objective for of in (less, more)]
            assert isinstance(optima[0], int)
            assert isinstance(optima[1], int)
            dearer["fill"] += optima[1] > optima[0]
            for name in NESTED:
                dearer[name] += _ruled(more, name) > _ruled(less, name)
        if all(dearer.values()):
            return
    raise AssertionError(dearer)


def _ruled(instance: Instance, rule: str) -> int:
    solution = HEURISTICS[rule](instance)
    assert solution is not None
    return objective(instance, solution)


@pytest.mark.parametrize("kind", FREE_KINDS)
def test_a_dispatch_gives_nothing_away(kind: str) -> None:
    """A rule's dispatch is the best of its placement, and stopping early saves slots alone."""
    for seed in range(3):
        instance = random_instance(seed, kind)
        if instance.dispatch != "free" or (solution := HEURISTICS["frequency"](instance)) is None:
            continue
        held = held_of(solution, instance.layers, instance.experts)
        plain = solution.model_copy(update={"computed_on_gpu": None})
        cost = objective(instance, solution)
        fixed_ns = instance.layer_offload_fixed_ns
        assert cost == total_ns(instance.layer_steps, held, fixed_ns)
        assert cost <= objective(instance, plain)
        stopped = HEURISTICS["frequency-stop"](instance)
        if stopped is not None and instance.expert_slots is None:
            assert objective(instance, stopped) == cost
            assert sum(map(len, stopped.gpu)) <= sum(map(len, solution.gpu))
        assert capacity_of(instance).allows(held)


def test_later_steps_are_dispatched_anew() -> None:
    """What lives on the GPU stays; what the decision computed there says nothing about them."""
    decision = placed((0, 1, 2), computed=[[[1, 2]], [[2]]])
    later = free(steps=[[[[0, 1], [1, 1], [2, 1]]]] * 3)
    assert run_on(later, decision) == 3 * 18
    with pytest.raises(InputError, match="PL-C1"):
        run_on(later.model_copy(update={"experts": 2}), decision)


def test_the_assumption_makes_it_again() -> None:
    """Either way, in the schema that it takes; not where the host has no copy."""
    instance = free()
    plain = assume(instance, "dispatch", "resident")
    assert isinstance(plain, Instance)
    assert (plain.dispatch, plain.schema_version) == ("resident", 1)
    assert assume(plain, "dispatch", "free") == instance
    no_copy = plain.model_copy(update={"host_copy": False})
    assert assume(no_copy, "dispatch", "free") is None


@pytest.mark.parametrize("suffix", [".json", ".json.gz"])
def test_written_and_read_again(tmp_path: Any, suffix: str) -> None:
    """Instance and solution; a file of schema 1 does not mention the fields."""
    for kind in FREE_KINDS:
        instance = random_instance(1, kind)
        moeopt.save(instance, tmp_path / f"i{suffix}")
        assert moeopt.load(tmp_path / f"i{suffix}") == instance
    solution = solve(free(), "cp-sat").solution
    assert solution is not None
    moeopt.save(solution, tmp_path / f"s{suffix}")
    assert moeopt.load_solution(tmp_path / f"s{suffix}") == solution
    plain = free(dispatch="resident", schema_version=1)
    assert not {"dispatch", "expert_width"} & set(plain.model_dump())
    assert "computed_on_gpu" not in placed((0,)).model_dump()
