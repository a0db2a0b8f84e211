"""What theory says about changed instances: deletion of rules, and closed windows."""

from functools import cache

import pytest

from tests.mathprog.solve import solve
from tests.problems.agreement import assert_missed, changed
from tests.problems.agreement import proven as optimum
from tests.problems.relayout.relayout_random_instances import (
    KINDS,
    NEWER_KINDS,
    random_instance,
)
from tests.rooms.relayout import CONSTRAINTS, Instance, after_migrations

MODELS = ["cp-sat", "milp", "mathprog"]
SEEDS = range(2)
DELETION_KINDS = ("mixed", "dear rebalance", "dear relayout", "no slots", "dimms bind")
SPEAKING = {
    "RE-C1": ("dimms bind", 14),
    "RE-C2": ("no slots", 15),
    "RE-C3": ("dear rebalance", 15),
    "RE-C4": ("dear relayout", 15),
    "RE-C5": ("dear rebalance", 14),
    "RE-C6": ("dear relayout", 15),
    "RE-C7": ("dimms bind", 15),
    "RE-C8": ("dear relayout", 14),
    "RE-C9": ("dimms bind", 15),
    "RE-C10": ("no slots", 15),
}
"""An instance for each rule of schema 1 on which every model without it breaks it."""
NEWER_RULES = {"RE-C11": "channels bind", "RE-C12": "PCIe binds", "RE-C13": "own links bind"}
"""Rules of schema 2, and a kind of instances in which each binds."""


def cases() -> list[Instance]:
    """Return a few instances of every kind."""
    return [random_instance(seed, kind) for kind in KINDS for seed in SEEDS]


@cache
def deletion_cases(seeds: range) -> list[Instance]:
    """Return instances in which every rule binds somewhere, of a size that a model solves fast."""
    return [random_instance(seed, kind) for kind in DELETION_KINDS for seed in seeds]


@pytest.mark.parametrize("more", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("rule", [rule for rule in CONSTRAINTS if rule not in NEWER_RULES])
def test_a_deleted_constraint_is_missed(rule: str, more: bool) -> None:
    """See `assert_missed`."""
    if more:
        drawn = deletion_cases(range(10, 16))
    else:
        kind, seed = SPEAKING[rule]
        drawn = [random_instance(seed, kind)]
    assert_missed(rule, drawn, optimum)


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


def test_closed_windows_leave_tri_domain_on_todays_layout() -> None:
    """No migration fits: the optimum is tri_domain's."""
    closed = {"hbm_free_slots": 0, "dimm_link_window_ns": 0}
    for instance in cases():
        lengths = {"relayout_ns": instance.relayout_ns + 1, "rebalance_ns": 10**6}
        still = changed(instance, **closed, **lengths)
        assert optimum(still) == solve(after_migrations(still), "cp-sat").objective
