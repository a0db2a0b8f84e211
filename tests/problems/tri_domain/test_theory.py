"""What theory says about changed instances: deletion, permutation, scaling, relaxation."""

import random

import pytest

from tests.problems.agreement import assert_missed, changed
from tests.problems.agreement import proven as optimum
from tests.problems.tri_domain.random_instances import random_instance, random_instance_for
from tests.rooms.tri_domain import CONSTRAINTS

SEEDS = range(12)
SPEAKING = {"TD-C1": 2, "TD-C3": 0, "TD-C6": 0, "TD-C7": 4}
"""Seed on which every model without a rule breaks it; of other rules 3."""


@pytest.mark.parametrize("more", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("rule", CONSTRAINTS)
def test_a_deleted_constraint_is_missed(rule: str, more: bool) -> None:
    """See `assert_missed`."""
    seeds = SEEDS if more else [SPEAKING.get(rule, 3)]
    assert_missed(rule, (random_instance_for(rule, seed) for seed in seeds), optimum)


def test_numbering_does_not_matter() -> None:
    """Renumbered DIMMs and reordered, renamed experts have the same optimum."""
    for seed in SEEDS:
        instance, rng = random_instance(seed), random.Random(seed)
        names = rng.sample(range(instance.dimms), instance.dimms)
        rows = [
            e.model_dump() | {"dimm": None if e.dimm is None else names[e.dimm], "expert": 99 - n}
            for n, e in enumerate(instance.experts)
        ]
        rng.shuffle(rows)
        assert optimum(changed(instance, experts=rows)) == optimum(instance)


def test_hosts_are_exchangeable() -> None:
    """GPU and CPU differ only by their costs: exchanged costs, same optimum."""
    pairs = [("gpu_ns", "cpu_ns"), ("gpu_dram_ns", "cpu_dram_ns")]
    for seed in SEEDS:
        instance = random_instance(seed)
        rows = []
        for e in instance.experts:
            row = e.model_dump() | {"resident": False}
            for a, b in pairs:
                row[a], row[b] = row[b], row[a]
            rows.append(row)
        assert optimum(changed(instance, experts=rows)) == optimum(instance)


def test_more_work_never_helps_and_an_idle_dimm_changes_nothing() -> None:
    """Dropping an expert never raises the optimum; a DIMM that holds nothing leaves it alone."""
    for seed in SEEDS:
        instance = random_instance(seed)
        fewer = [e.model_dump() for e in instance.experts[1:]]
        assert optimum(changed(instance, experts=fewer)) <= optimum(instance)
        if any(e.dimm is None for e in instance.experts) or instance.dimms > 1:
            assert optimum(changed(instance, dimms=instance.dimms + 1)) == optimum(instance)


def test_localizing_adds_an_option_and_lifts_a_read() -> None:
    """A striped expert put on one DIMM at equal costs never raises the optimum."""
    for seed in SEEDS:
        instance = random_instance(seed)
        rows = [e.model_dump() for e in instance.experts]
        striped = [row for row in rows if row["dimm"] is None]
        for row in striped[:1]:
            row |= {"dimm": 0, "ndp_ns": 10**9}
        assert optimum(changed(instance, experts=rows)) <= optimum(instance)
