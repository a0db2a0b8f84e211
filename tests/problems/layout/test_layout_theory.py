"""What theory says about changed instances: deletion, permutation, scaling, relaxation."""

import random
from functools import cache
from typing import Any

import pytest

from moeopt import solve
from tests.problems.agreement import assert_missed, changed
from tests.problems.layout.layout_random_instances import (
    KINDS,
    copies_matter,
    random_instance,
    with_schema_2,
)
from tests.rooms.layout import CONSTRAINTS, COSTS, Instance, Solution, loads
from tests.shares import shares


@pytest.fixture(params=shares(4, 13))
def seeds(request: pytest.FixtureRequest) -> range:
    """Return seeds of random instances."""
    found: range = request.param
    return found


def some(seed: int) -> Instance:
    """Return an instance; the kinds take turns."""
    return random_instance(seed + 100, KINDS[seed % len(KINDS)])


def result(instance: Instance, **options: Any) -> Any:
    """Return the proven result of CP-SAT."""
    found = solve(instance, "cp-sat", warm_start=False, **options)
    assert found.status == "optimal"
    return found


def optimum(instance: Instance) -> int:
    """Return the proven optimum by CP-SAT, found once for each instance."""
    return _optimum(instance.model_dump_json())


@cache
def _optimum(instance: str) -> int:
    objective = result(Instance.model_validate_json(instance)).objective
    assert isinstance(objective, int)
    return objective


DELETION_KIND = {"LA-C4": "dimm slots tight", "LA-C3": "residents tight", "LA-C6": "hosts bind"}
"""Kinds in which a rule matters, other than mixed."""

OF_SCHEMA_2 = {"LA-C8": ("channels", "share"), "LA-C9": ("two parts",)}
"""What must be stated for a rule to say something."""

OF_COPIES = ("LA-C10", "LA-C11")
"""Rules that say something only where several copies are permitted."""


SPEAKING = {"LA-C3": 0, "LA-C4": 11, "LA-C6": 2, "LA-C9": 3, "LA-C11": 5}
"""Seed on which every model without a rule breaks it; of other rules 1."""


@pytest.mark.parametrize("more", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("rule", CONSTRAINTS)
def test_a_deleted_constraint_is_missed(rule: str, more: bool) -> None:
    """See `assert_missed`."""
    kinds = ("several scenarios", DELETION_KIND.get(rule, "mixed"))
    seeds = range(13) if more else [SPEAKING.get(rule, 1)]
    if rule in OF_COPIES:
        drawn = [copies_matter(seed, rule) for seed in seeds]
    else:
        drawn = [random_instance(seed, kinds[seed % 2]) for seed in seeds]
    if rule in OF_SCHEMA_2:
        pairs = zip(drawn, seeds, strict=True)
        drawn = [with_schema_2(of, seed, OF_SCHEMA_2[rule]) for of, seed in pairs]
    assert_missed(rule, drawn, optimum)


def renumbered(instance: Instance, order: list[int]) -> Instance:
    """Return the instance with its experts in another order."""
    scenarios = [
        s.model_dump() | {name: [getattr(s, name)[row] for row in order] for name in columns()}
        for s in instance.scenarios
    ]
    return changed(instance, scenarios=scenarios)


def columns() -> tuple[str, ...]:
    """Return the fields of a scenario that have one entry per expert."""
    return ("tokens", *COSTS)


def test_numbering_does_not_matter(seeds: range) -> None:
    """Reordered experts and scenarios: the same optimum. Renumbered DIMMs: the same loads."""
    for seed in seeds:
        instance, rng = some(seed), random.Random(seed)
        order = rng.sample(range(instance.experts), instance.experts)
        shuffled = renumbered(instance, order)
        reverse = changed(shuffled, scenarios=shuffled.model_dump()["scenarios"][::-1])
        found = result(instance)
        assert optimum(reverse) == found.objective
        names = rng.sample(range(instance.dimms), instance.dimms)
        solution = found.solution
        moved = [None if dimm is None else names[dimm] for dimm in solution.dimm]
        again = Solution.model_validate(solution.model_dump() | {"dimm": moved})
        for before, after in zip(loads(instance, solution), loads(instance, again), strict=True):
            assert [after.dimm_ns[name] for name in names] == list(before.dimm_ns)
            assert (after.gpu_ns, after.cpu_ns) == (before.gpu_ns, before.cpu_ns)


def test_hosts_are_exchangeable_without_residents(seeds: range) -> None:
    """GPU and CPU differ only by their costs then: exchanged costs, same optimum."""
    for seed in seeds:
        instance = changed(some(seed), hbm_slots=0)
        scenarios = instance.model_dump()["scenarios"]
        for row in scenarios:
            for way in ("striped", "localized"):
                gpu, cpu = f"gpu_miss_{way}_ns", f"cpu_{way}_ns"
                row[gpu], row[cpu] = row[cpu], row[gpu]
        assert optimum(changed(instance, scenarios=scenarios)) == optimum(instance)


def test_the_optimum_scales_with_the_times(seeds: range) -> None:
    """All times multiplied, or all weights: the optimum multiplied."""
    factor = 7
    for seed in seeds:
        instance = some(seed)
        if "huge" in instance.name:
            continue
        scenarios = instance.model_dump()["scenarios"]
        heavier = [row | {"weight": factor * row["weight"]} for row in scenarios]
        longer = [row | {n: [factor * ns for ns in row[n]] for n in COSTS} for row in scenarios]
        reads = {
            name: factor * getattr(instance, name)
            for name in ("dram_striped_ns", "dram_localized_ns")
        }
        value = optimum(instance)
        assert optimum(changed(instance, scenarios=longer, **reads)) == factor * value
        assert optimum(changed(instance, scenarios=heavier)) == factor * value


def test_a_weight_is_so_many_equal_scenarios(seeds: range) -> None:
    """A scenario of weight 2 split into two of weight 1 changes nothing."""
    for seed in seeds:
        instance = some(seed)
        first, *others = instance.model_dump()["scenarios"]
        double = [first | {"weight": 2}, *others]
        split = [first | {"weight": 1}, first | {"weight": 1}, *others]
        assert optimum(changed(instance, scenarios=double)) == optimum(
            changed(instance, scenarios=split)
        )


def test_scenarios_apart_are_a_bound_and_equal_ones_no_constraint() -> None:
    """Each scenario with a layout of its own is never worse; the same scenario twice loses none."""
    apart_is_better = 0
    for seed in range(6):
        instance = random_instance(seed, "several scenarios")
        scenarios = instance.model_dump()["scenarios"]
        alone = [
            optimum(changed(instance, scenarios=[row])) for row in scenarios if any(row["tokens"])
        ]
        assert sum(alone) <= optimum(instance)
        apart_is_better += sum(alone) < optimum(instance)
        if any(scenarios[0]["tokens"]):
            assert optimum(changed(instance, scenarios=scenarios[:1] * 2)) == 2 * alone[0]
    assert apart_is_better


def test_more_room_never_hurts() -> None:
    """More HBM slots, more DIMM slots, another DIMM: the optimum does not rise."""
    for seed in range(6):
        instance = random_instance(seed, "dimm slots tight" if seed % 2 else "residents tight")
        value = optimum(instance)
        assert optimum(changed(instance, hbm_slots=instance.hbm_slots + 1)) <= value
        assert optimum(changed(instance, dimms=instance.dimms + 1)) <= value
        if instance.dimm_slots is not None:
            assert optimum(changed(instance, dimm_slots=instance.dimm_slots + 1)) <= value
            assert optimum(changed(instance, dimm_slots=None)) <= value
        assert optimum(changed(instance, hbm_slots=10**6, dimm_slots=10**6)) <= value


def test_striping_only_is_a_restriction(seeds: range) -> None:
    """No DIMM slot forbids localizing: then NDP runs nothing, and the optimum does not fall."""
    for seed in seeds:
        instance = some(seed)
        found = result(changed(instance, dimm_slots=0))
        assert set(found.solution.dimm) <= {None}
        assert not any("ndp" in row for row in found.solution.assignment)
        assert found.objective >= optimum(instance)


def test_without_host_reads_of_localized_experts_it_is_no_bound() -> None:
    """Making such reads dear never lowers the optimum, and on some instances raises it."""
    raised = 0
    for seed in range(10):
        instance = random_instance(seed, "cheap localized reads")
        scenarios = instance.model_dump()["scenarios"]
        for row in scenarios:
            for name in ("gpu_miss_localized_ns", "cpu_localized_ns"):
                row[name] = [10**9] * instance.experts
        restricted = optimum(changed(instance, scenarios=scenarios))
        assert restricted >= optimum(instance)
        raised += restricted > optimum(instance)
    assert raised


def test_less_work_never_hurts(seeds: range) -> None:
    """An expert that loses its tokens does not raise the optimum; idle experts change nothing."""
    for seed in seeds:
        instance = some(seed)
        scenarios = instance.model_dump()["scenarios"]
        fewer = [row | {"tokens": [0, *row["tokens"][1:]]} for row in scenarios]
        if any(any(row["tokens"]) for row in fewer):
            assert optimum(changed(instance, scenarios=fewer)) <= optimum(instance)
        wider = [
            row | {"tokens": [*row["tokens"], 0]} | {n: [*row[n], 99] for n in COSTS}
            for row in scenarios
        ]
        grown = changed(instance, experts=instance.experts + 1, scenarios=wider)
        assert optimum(grown) == optimum(instance)
