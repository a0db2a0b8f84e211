"""What theory says about changed instances: deletion, permutation, scaling, relaxation."""

import random
from functools import cache

import pytest

from moeopt.problems.relayout.check import CONSTRAINTS
from moeopt.problems.relayout.fixed_layout import after_migrations
from moeopt.problems.relayout.instance import Instance
from moeopt.solvers.run import solve
from tests.problems.agreement import assert_missed, changed
from tests.problems.agreement import proven as optimum
from tests.problems.relayout.relayout_random_instances import (
    KINDS,
    NEWER_KINDS,
    random_instance,
)

MODELS = ["cp-sat", "milp", "mathprog"]
SEEDS = range(2)
DELETION_KINDS = ("mixed", "dear rebalance", "dear relayout", "no slots", "dimms bind")
NEWER_RULES = {"RE-C11": "channels bind", "RE-C12": "PCIe binds", "RE-C13": "own links bind"}
"""Rules of schema 2, and a kind of instances in which each binds."""


def cases() -> list[Instance]:
    """Return a few instances of every kind."""
    return [random_instance(seed, kind) for kind in KINDS for seed in SEEDS]


@cache
def deletion_cases(seeds: range) -> list[Instance]:
    """Return instances in which every rule binds somewhere, of a size that a model solves fast."""
    return [random_instance(seed, kind) for kind in DELETION_KINDS for seed in seeds]


@pytest.mark.parametrize(
    "seeds", [range(14, 16), pytest.param(range(10, 16), marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("rule", [rule for rule in CONSTRAINTS if rule not in NEWER_RULES])
def test_a_deleted_constraint_is_missed(rule: str, seeds: range) -> None:
    """See `assert_missed`."""
    assert_missed(rule, deletion_cases(seeds), optimum)


@pytest.mark.parametrize("seeds", [range(3), pytest.param(range(3, 40), marks=pytest.mark.slow)])
@pytest.mark.parametrize("rule", NEWER_RULES)
def test_a_deleted_constraint_of_schema_2_is_missed(rule: str, seeds: range) -> None:
    """The same for the rules that instances of schema 1 do not have."""
    drawn = (random_instance(seed, NEWER_RULES[rule]) for seed in seeds)
    assert_missed(rule, drawn, optimum, names=False)


@pytest.mark.slow
@pytest.mark.parametrize("without", [*CONSTRAINTS, ("RE-C3", "RE-C13"), ("RE-C4", "RE-C13")])
def test_models_agree_without_any_rule_in_schema_2(without: str | tuple[str, str]) -> None:
    """Whatever rule is left out, the three models mean the same on every kind of schema 2."""
    rules = {without} if isinstance(without, str) else set(without)
    for kind in NEWER_KINDS[:-1]:
        for seed in range(4):
            instance = random_instance(seed, kind)
            found = [
                solve(instance, model, without=rules, warm_start=False).objective
                for model in MODELS
            ]
            assert len(set(found)) == 1, (instance.name, found)


def test_models_agree_without_two_constraints() -> None:
    """Also where two rules that speak of the same migrations are left out together."""
    for pair in ({"RE-C3", "RE-C4"}, {"RE-C2", "RE-C4"}, {"RE-C1", "RE-C7"}, {"RE-C3", "RE-C7"}):
        for instance in deletion_cases(range(10, 16))[::4]:
            optima = {
                solve(instance, model, without=pair, warm_start=False).objective for model in MODELS
            }
            assert len(optima) == 1, (pair, instance.name)


def test_numbering_does_not_matter() -> None:
    """Renumbered DIMMs and reordered, renamed experts have the same optimum."""
    for seed, instance in enumerate(cases()):
        rng = random.Random(seed)
        names = rng.sample(range(instance.dimms), instance.dimms)
        rows = [
            e.model_dump() | {"dimm": None if e.dimm is None else names[e.dimm], "expert": 99 - n}
            for n, e in enumerate(instance.experts)
        ]
        rng.shuffle(rows)
        assert optimum(changed(instance, experts=rows)) == optimum(instance)


@pytest.mark.parametrize("factor", [7, 1000])
def test_the_optimum_scales_with_the_times(factor: int) -> None:
    """All times multiplied, windows too: optimum multiplied."""

    def scaled(row: dict[str, object]) -> dict[str, object]:
        return {
            k: v * factor if k.endswith("_ns") and isinstance(v, int) else v
            for k, v in row.items()
            if k != "quantum_ns"
        }

    for seed in SEEDS:
        for kind in ("mixed", "arbitrary costs", "wide windows", "dear rebalance"):
            instance = random_instance(seed, kind)
            longer = scaled(instance.model_dump())
            longer["experts"] = [scaled(e.model_dump()) for e in instance.experts]
            assert optimum(Instance.model_validate(longer)) == factor * optimum(instance)


def test_larger_windows_never_hurt() -> None:
    """More slots, a longer window, shorter migrations: the optimum never rises, and falls once."""
    fell = set()
    for instance in cases():
        before = optimum(instance)
        for name, value in (
            ("hbm_free_slots", instance.hbm_free_slots + 1),
            ("pcie_window_ns", instance.pcie_window_ns + instance.prefetch_ns),
            ("dimm_link_window_ns", instance.dimm_link_window_ns + instance.relayout_ns),
            ("rebalance_ns", 0),
            ("relayout_ns", 0),
            ("prefetch_ns", 0),
        ):
            after = optimum(changed(instance, **{name: value}))
            assert after <= before
            if after < before:
                fell.add(name)
    assert len(fell) >= 5


def test_closed_windows_leave_tri_domain_on_todays_layout() -> None:
    """No migration fits: the optimum is tri_domain's."""
    closed = {"hbm_free_slots": 0, "dimm_link_window_ns": 0}
    for instance in cases():
        lengths = {"relayout_ns": instance.relayout_ns + 1, "rebalance_ns": 10**6}
        still = changed(instance, **closed, **lengths)
        assert optimum(still) == solve(after_migrations(still), "cp-sat").objective


def test_open_windows_give_the_best_of_all_layouts() -> None:
    """With one non-resident expert that may do anything, the optimum is its best option's span."""
    for seed in range(20):
        instance = random_instance(seed, "arbitrary costs", experts=1)
        [e] = instance.experts
        windows = {"hbm_free_slots": 1, "pcie_window_ns": 99, "dimm_link_window_ns": 99}
        free = changed(instance, **windows)
        striped, localized = instance.dram_striped_ns, instance.dram_localized_ns
        spans = [
            e.gpu_hit_ns,
            e.ndp_ns,
            max(e.cpu_striped_ns, striped),
            max(e.cpu_localized_ns, localized),
        ]
        if not e.resident:
            spans += [max(e.gpu_miss_striped_ns, striped), max(e.gpu_miss_localized_ns, localized)]
        assert optimum(free) == min(spans)


def test_more_work_never_helps_and_idle_experts_change_nothing() -> None:
    """Dropping an expert never raises the optimum; one without tokens leaves it alone."""
    for instance in cases()[::2]:
        rows = [e.model_dump() for e in instance.experts]
        if any(row["tokens"] for row in rows[1:]):
            assert optimum(changed(instance, experts=rows[1:])) <= optimum(instance)
        idle = rows[0] | {"expert": 70, "tokens": 0}
        assert optimum(changed(instance, experts=[*rows, idle])) == optimum(instance)
