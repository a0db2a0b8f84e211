"""Bound and pack is exact: against brute force and CP-SAT, stopped early, and at paper scale."""

import random
from collections.abc import Iterator
from typing import Any, cast

import numpy as np
import pytest

import moeopt
from tests.problems.layout import by_arrays
from tests.problems.layout.layout_random_instances import KINDS, random_instance
from tests.rooms.core import Feasibility, Search
from tests.rooms.layout import (
    COSTS,
    ClassAnswer,
    Incumbent,
    Instance,
    Path,
    arc_flow,
    class_cpsat,
    objective,
    scenario_bounds,
    violations,
)
from tests.rooms.layout import solve_single_scenario as solve
from tests.shares import shares

SEEDS = range(1)
MORE_SEEDS = range(1, 12)


def first_scenario(instance: Instance) -> Instance | None:
    """Return the instance with its first scenario alone, None if that has no tokens."""
    scenario = instance.scenarios[0]
    if not any(scenario.tokens):
        return None
    changed = instance.model_dump() | {"scenarios": [scenario.model_dump()]}
    return Instance.model_validate(changed)


def larger_instance(seed: int) -> Instance:
    """Return an instance of 4 to 10 experts, beyond brute force, of arbitrary or monotone costs."""
    rng = random.Random(seed)
    experts, scale, most = rng.randint(4, 10), rng.choice([1, 7, 5000]), rng.choice([20, 60, 300])
    tokens = [rng.randint(0, 12) for _ in range(experts - 1)] + [3]
    row: dict[str, Any] = {"weight": rng.choice([1, 3]), "tokens": tokens}
    monotone = rng.random() < 0.6
    for name in COSTS:
        base, slope = rng.randint(0, most // 3), rng.randint(0, most // 12)
        row[name] = [
            (base + slope * t if monotone else rng.randint(0, most)) * scale for t in tokens
        ]
    if rng.random() < 0.5:
        row["ndp_ns"] = [3 * ns for ns in row["ndp_ns"]]
    return Instance(
        name=f"larger-{seed}",
        dimms=rng.randint(1, 4),
        hbm_slots=rng.choice([0, 0, 1, 2, experts + 3]),
        dimm_slots=rng.choice([None, None, None, 0, 1, 2, 3]),
        experts=experts,
        dram_striped_ns=rng.choice([0, rng.randint(0, most // 3)]) * scale,
        dram_localized_ns=rng.randint(0, most) * scale,
        scenarios=[row],
    )


def solved(instance: Instance, limit_s: float = 30.0) -> Search:
    """Run the algorithm, and have what it offers checked."""
    search = Search(limit_s=limit_s)
    solve(instance, search)
    assert violations(instance, search.solution) == []
    assert objective(instance, search.solution) == search.objective
    return search


def least(instance: Instance) -> int:
    """Return the optimum by brute force."""
    return by_arrays.optimum(instance)


def tiny_instances(kind: str, seeds: range = SEEDS) -> Iterator[Instance]:
    """Return the instances of a kind that have tokens in their first scenario."""
    for seed in seeds:
        if (instance := first_scenario(random_instance(seed, kind))) is not None:
            yield instance


@pytest.mark.parametrize("seeds", [SEEDS, pytest.param(MORE_SEEDS, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", KINDS)
def test_it_equals_brute_force(kind: str, seeds: range) -> None:
    """Optimum and bound, on every kind of tiny instance."""
    for instance in tiny_instances(kind, seeds):
        search = solved(instance)
        assert (search.objective, search.bound) == (least(instance),) * 2, instance.name


@pytest.mark.parametrize("seeds", shares(4, 10))
def test_it_equals_cpsat(seeds: range) -> None:
    """Optimum and bound on instances where hosts, slots, lattice and reads all play a part."""
    for seed in seeds:
        instance = larger_instance(seed)
        other = moeopt.solve(instance, "cp-sat", time_limit_s=30)
        assert other.status == "optimal"
        search = solved(instance)
        assert (search.objective, search.bound) == (other.objective,) * 2, instance.name


def test_rounded_sizes_never_refute_wrongly(monkeypatch: pytest.MonkeyPatch) -> None:
    """With costs far too fine for arc flows the bracket is valid."""
    monkeypatch.setattr(arc_flow, "MAX_NODES", 30)
    monkeypatch.setattr(arc_flow, "COARSE", 5)
    open_, closed = 0, 0
    for kind in ("mixed", "hosts bind", "dimm slots tight", "monotone"):
        for instance in tiny_instances(kind):
            search, optimum = solved(instance), least(instance)
            assert search.bound is not None
            assert search.objective is not None
            assert search.bound <= optimum <= search.objective  # type: ignore[operator]
            open_ += not search.closed
            closed += search.closed
    assert closed > open_


def test_no_time_leaves_a_valid_bracket() -> None:
    """Without any time there is an incumbent; a bound, where there is one, holds."""
    for seed in range(6):
        instance = larger_instance(seed)
        search = Search(limit_s=0.0)
        solve(instance, search)
        optimum = solved(instance).objective
        assert search.objective is not None
        assert search.objective >= optimum  # type: ignore[operator]
        assert search.bound is None or search.bound <= optimum  # type: ignore[operator]


@pytest.mark.parametrize("seeds", shares(8, 40))
def test_an_enough_gap_leaves_no_more_than_it(seeds: range) -> None:
    """The bound is valid, at most so far below the incumbent, and some are left open."""
    open_ = 0
    for seed in seeds:
        instance, search = larger_instance(seed), Search(limit_s=30.0, enough_gap=0.2)
        solve(instance, search)
        optimum: Any = solved(instance).objective
        bound, best = cast(int, search.bound), cast(int, search.objective)
        assert bound <= optimum <= best
        assert best - bound <= 0.2 * best
        assert search.enough == (bound < best)
        open_ += search.enough
    assert open_


def test_a_scenario_without_tokens_takes_no_time() -> None:
    """Its makespan is zero at any layout."""
    instance = random_instance(0, "several scenarios")
    empty = instance.scenarios[0].model_dump() | {"tokens": [0] * instance.experts}
    rows = [empty, *(s.model_dump() for s in instance.scenarios[1:])]
    changed = Instance.model_validate(instance.model_dump() | {"scenarios": rows})
    assert scenario_bounds(changed, Search(), 10.0)[0] == 0


@pytest.mark.slow
def test_the_heuristic_packing_may_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """It only saves time: arc flows find the same optimum."""
    monkeypatch.setattr(Incumbent, "pack", lambda *_: False)
    for kind in ("mixed", "hosts bind", "dimm slots tight"):
        for instance in tiny_instances(kind):
            search = solved(instance)
            assert (search.objective, search.bound) == (least(instance),) * 2, instance.name
    for seed in range(8):
        search = solved(larger_instance(seed))
        assert search.objective == search.bound


@pytest.mark.slow
def test_what_is_left_undecided_raises_no_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an answer of CP-SAT's the bracket is valid, and open on some instances."""
    unknown = Feasibility.UNKNOWN
    monkeypatch.setattr(class_cpsat, "pack_cpsat", lambda *_: (unknown, []))
    monkeypatch.setattr(class_cpsat, "solve_class_cpsat", lambda *_: ClassAnswer(unknown))
    notes = set()
    for kind in ("mixed", "hosts bind", "dimm slots tight", "monotone"):
        for instance in tiny_instances(kind, range(12)):
            search = solved(instance)
            assert search.bound <= least(instance)  # type: ignore[operator]
            notes.add(search.note)
    assert notes == {"PROVEN", "TOO_FINE_FOR_A_PROOF"}


SLOW = pytest.mark.slow


def paper_scale(model: str, **options: Any) -> Instance:
    """Return one window of the paper's machine and skew; batch 512 if not told otherwise."""
    options = {"batch": 512} | options
    return moeopt.generate(
        "layout", machine="trimoe", model=model, workload="trimoe-skew", **options
    )


@pytest.mark.parametrize(
    ("dimms", "hbm_slots", "dimm_slots"),
    [pytest.param(8, 0, None, marks=SLOW), pytest.param(16, 6, 6, marks=SLOW)],
)
def test_paper_scale_is_closed(dimms: int, hbm_slots: int, dimm_slots: int | None) -> None:
    """DeepSeek-V2 at batch 256: proven, with another seed as well, and both agree."""
    machine = {"dimms": dimms, "hbm_slots": hbm_slots, "dimm_slots": dimm_slots}
    instance = paper_scale("deepseek-v2", batch=256, seed=1, **machine)
    results = [moeopt.solve(instance, "bound-and-pack", seed=s) for s in (0, 1)]
    assert [result.status for result in results] == ["optimal"] * 2
    assert results[0].objective == results[1].objective


@pytest.mark.parametrize(
    ("model", "dimms"),
    [
        ("deepseek-v2-lite", 8),
        pytest.param("deepseek-v2", 8, marks=SLOW),
        pytest.param("qwen3-235b-a22b", 16, marks=SLOW),
    ],
)
def test_few_sizes_are_proven_to_the_nanosecond(model: str, dimms: int) -> None:
    """Some sixty items of few sizes: a graph of their sums, not of every nanosecond."""
    instance = paper_scale(model, dimms=dimms, table_noise=0.03, quantum_ns=1)
    assert np.gcd.reduce(instance.path_times.cost[Path.NDP].ravel()) == 1
    result = moeopt.solve(instance, "bound-and-pack", work_limit=60)
    assert (result.status, result.bound) == ("optimal", result.objective)


@pytest.mark.slow
def test_many_sizes_end_with_a_small_gap() -> None:
    """139 items of 29 sizes: within 0.5 %, and no other method goes on."""
    machine = {"dimms": 32, "hbm_slots": 6}  # the dominant set does not fit the hosts
    instance = paper_scale("deepseek-v3", table_noise=0.03, quantum_ns=1, **machine)
    result = moeopt.solve(instance, "bound-and-pack", work_limit=60)
    assert result.objective - result.bound <= 0.005 * result.objective


@pytest.mark.slow
def test_a_subproblem_without_gain_is_not_repeated_until_the_time_is_up() -> None:
    """A branch's bound is within 0.5 %, and what is left of it takes longer than a short try."""
    machine = {"dimms": 32, "hbm_slots": 6}
    table = {"table_noise": 0.03, "quantum_ns": 1}
    instance = paper_scale("deepseek-v2", batch=768, seed=1, **machine, **table)
    result = moeopt.solve(instance, "bound-and-pack", work_limit=120)
    assert result.termination == "completed"
    assert result.objective - result.bound <= 0.005 * result.objective


@pytest.mark.slow
@pytest.mark.parametrize("model", ["deepseek-v2", "qwen3-235b-a22b"])
def test_a_coarser_grid_is_proven(model: str) -> None:
    """Costs of a table, rounded up to 10 us."""
    instance = paper_scale(model, table_noise=0.03, quantum_ns=10_000)
    assert moeopt.solve(instance, "bound-and-pack").status == "optimal"


def test_exact_rooflines_are_proven_where_hosts_bind() -> None:
    """The DIMMs' work has a divisor, the hosts' has none: a nanosecond decides."""
    instance = paper_scale("qwen3-235b-a22b", hbm_slots=6, quantum_ns=1)
    result = moeopt.solve(instance, "bound-and-pack")
    assert (result.status, result.bound) == ("optimal", result.objective)
    assert result.objective % 1000 != 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"batch": 768, "seed": 1, "quantum_ns": 1},  # a nanosecond below a sum of the GPU's costs
        # Four experts per DIMM, 0.5 % to spare.
        pytest.param({"batch": 256, "seed": 2, "table_noise": 0.03}, marks=SLOW),
    ],
)
def test_32_dimms_are_proven(options: dict[str, Any]) -> None:
    """256 experts: hosts bind, and packing is tight."""
    instance = paper_scale("deepseek-v3", dimms=32, hbm_slots=6, **options)
    result = moeopt.solve(instance, "bound-and-pack", time_limit_s=120)
    assert (result.status, result.termination) == ("optimal", "completed")


def test_the_same_seed_gives_the_same_plan() -> None:
    """Twice the same solution."""
    for seed in range(4):
        instance = larger_instance(seed)
        assert solved(instance).solution == solved(instance).solution
