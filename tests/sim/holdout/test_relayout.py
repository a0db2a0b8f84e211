"""Migrations decided on predictions: applied to the loads that came, held against the promise."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import moeopt
from moeopt import InputError
from tests.rooms.relayout import (
    COSTS,
    Expert,
    Instance,
    Migration,
    Solution,
    check,
    execute,
    migrated,
)
from tests.sim.holdout.test_layout import all_on_cpu, optimal

DIMMS = 3


def small(rng: np.random.Generator, places: list[Any], name: str = "small") -> Instance:
    """Return an instance of random loads and costs; `places` are (resident, dimm)."""
    rows = []
    for number, (resident, dimm) in enumerate(places):
        tokens = int(rng.integers(0, 4))
        costs = {cost: int(rng.integers(1, 30)) for cost in COSTS}
        rows.append(Expert(expert=7 * number, tokens=tokens, resident=resident, dimm=dimm, **costs))
    rows[0] = rows[0].model_copy(update={"tokens": 1})
    return Instance(
        name=name,
        dimms=DIMMS,
        hbm_free_slots=9,
        dram_striped_ns=2,
        dram_localized_ns=7,
        prefetch_ns=1,
        relayout_ns=1,
        rebalance_ns=1,
        pcie_window_ns=9,
        dimm_link_window_ns=9,
        experts=tuple(rows),
    )


def random_case(seed: int) -> tuple[Instance, Instance, Solution]:
    """Return predicted and actual loads on one layout, and migrations of the predicted ones."""
    rng = np.random.default_rng(seed)
    dimms = [None, *range(DIMMS)]
    places = [(bool(rng.random() < 0.2), dimms[rng.integers(0, 4)]) for _ in range(7)]
    predicted, actual = (small(rng, places, name) for name in ("predicted", "actual"))
    migrations = []
    for expert in predicted.experts:
        if not expert.tokens or rng.random() < 0.4:
            continue
        here = expert.dimm
        options = [("stripe", None)] if here is not None else []
        kind = "localize" if here is None else "rebalance"
        options += [(kind, dimm) for dimm in range(DIMMS) if dimm != here]
        if not expert.resident:
            options.append(("prefetch", None))
        kind, dimm = options[rng.integers(0, len(options))]
        migrations.append(Migration(expert=expert.expert, kind=kind, dimm=dimm))
    return (
        predicted,
        actual,
        Solution(instance="predicted", migrations=tuple(migrations), assignment=(None,) * 7),
    )


@settings(max_examples=150)
@given(st.integers(0, 2**32))
def test_the_run_is_what_the_checker_says_it_is(seed: int) -> None:
    """The solution is valid on the loads that came, and costs what is claimed."""
    _, actual, decision = random_case(seed)
    for schedule in (all_on_cpu, None):
        arguments = {} if schedule is None else {"schedule": schedule}
        run = execute(actual, decision.migrations, **arguments)
        assert check.violations(actual, run.solution, run.makespan_ns) == []
        assert check.objective(actual, run.solution) == run.makespan_ns
        active = {expert.expert for expert in actual.experts if expert.tokens}
        idle = [m for m in decision.migrations if m.expert not in active]
        assert len(run.solution.migrations) == len(decision.migrations) - len(idle)


def test_some_cases_have_migrations_in_vain_and_some_have_residents_that_move() -> None:
    """Were there none, the test above would prove less."""
    in_vain = set()
    for _, actual, decision in map(random_case, range(40)):
        run = execute(actual, decision.migrations)
        in_vain.add(len(run.solution.migrations) < len(decision.migrations))
    assert in_vain == {True, False}


def test_each_kind_of_migration_changes_one_thing() -> None:
    """A prefetch keeps the host copy, the others leave the GPU's memory as it is."""
    rng = np.random.default_rng(0)
    instance = small(rng, [(False, 1), (False, None), (True, 2), (False, 0)])
    kinds = [("prefetch", None), ("localize", 2), ("rebalance", 0), ("stripe", None)]
    moves = [Migration(expert=7 * n, kind=k, dimm=d) for n, (k, d) in enumerate(kinds)]
    after = [(expert.resident, expert.dimm) for expert in migrated(instance, moves)]
    assert after == [(True, 1), (False, 2), (True, 0), (False, None)]
    assert [(e.resident, e.dimm) for e in migrated(instance, ())] == [
        (e.resident, e.dimm) for e in instance.experts
    ]


@pytest.mark.parametrize("seed", range(12))
def test_hindsight_is_no_worse(seed: int) -> None:
    """With optimal schedules: than migrations decided before, and than none."""
    _, actual, decision = random_case(seed)
    hindsight = moeopt.solve(actual, "cp-sat", time_limit_s=600)
    assert hindsight.status == "optimal"
    for migrations in (decision.migrations, ()):
        assert hindsight.objective <= execute(actual, migrations, optimal).makespan_ns


def test_a_migration_of_an_unknown_expert_is_named() -> None:
    """The place in the list and the expert's number."""
    _, actual, _ = random_case(1)
    with pytest.raises(InputError, match=r"migrations\[0\]: there is no expert 5"):
        execute(actual, [Migration(expert=5, kind="prefetch")])
