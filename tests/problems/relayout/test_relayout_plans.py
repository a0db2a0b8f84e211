"""Combinations of plans: against the arrival model, an enumeration of offers, and the optimum."""

from itertools import combinations_with_replacement

import numpy as np
import pytest

from moeopt import solve
from tests.problems.relayout.relayout_random_instances import KINDS, NEWER_KINDS, random_instance
from tests.rooms.algorithms import LabelSetting, labels
from tests.rooms.core import Feasibility, Search
from tests.rooms.relayout import (
    READS,
    SHARED,
    Dimm,
    Limits,
    Modes,
    Offers,
    PlanModel,
    Subproblem,
    _Decomposition,
    objective,
    plan_model,
    striped_reads,
    tabulate,
    violations,
)

BIG = 10**6
SHARED_LINKS = [kind for kind in NEWER_KINDS if "links" not in kind and "of schema 2" not in kind]


@pytest.fixture
def plans_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take CP-SAT away, so that plans alone must prove the optimum."""

    def refuse(*_: object) -> None:
        raise AssertionError("plans left a subproblem undecided")

    monkeypatch.setattr(_Decomposition, "_by_cp_sat", refuse)
    monkeypatch.setattr(striped_reads, "lower_bound", lambda _: 0)


@pytest.mark.usefixtures("plans_alone")
@pytest.mark.parametrize("seeds", [range(1), pytest.param(range(1, 60), marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", [*KINDS, "base load", "shares", "two parts", "PCIe binds"])
def test_plans_alone_prove_the_optimum(kind: str, seeds: range) -> None:
    """Value and bound are those of brute force, and the solution passes the checker."""
    for seed in seeds:
        instance = random_instance(seed, kind)
        result = solve(instance, "evacuation")
        assert result.status == "optimal"
        assert violations(instance, result.solution, result.objective) == []
        assert result.objective == solve(instance, "brute-force").objective, seed


@pytest.mark.usefixtures("plans_alone")
@pytest.mark.parametrize("seeds", [range(2), pytest.param(range(2, 40), marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", ["dear rebalance", "mixed"])
def test_plans_alone_agree_with_the_textbook_models(kind: str, seeds: range) -> None:
    """Seven experts, several on one DIMM: CP-SAT and MILP from nothing give the same optimum."""
    for seed in seeds:
        instance = random_instance(seed, kind, experts=7)
        values = {
            solve(
                instance, method, **({} if method == "evacuation" else {"warm_start": False})
            ).objective
            for method in ("evacuation", "cp-sat", "milp")
        }
        assert len(values) == 1, (seed, values)


@pytest.mark.parametrize("seeds", [range(1), pytest.param(range(1, 60), marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", ["dimms bind", *SHARED_LINKS])
def test_each_subproblem_is_decided_as_by_the_arrival_model(kind: str, seeds: range) -> None:
    """A refutation is one there as well; so is a solution, unless channels leave it open."""
    for seed in seeds:
        instance = random_instance(seed, kind, experts=5)
        modes = Modes(instance)
        best = solve(instance, "cp-sat").objective // modes.step_ns
        model = PlanModel(modes, 2 * best)
        dimms = [Dimm(modes, dimm) for dimm in range(modes.dimms)]
        for reads in modes.reads:
            for makespan in (best - 1, best, best + 2):
                found, solution = model.solve(makespan, reads, Search(), BIG)
                if found == Feasibility.UNKNOWN:
                    assert not model.exact
                    continue
                assert (found == Feasibility.FEASIBLE) == (solution is not None)
                if solution is not None:
                    assert objective(instance, solution) <= makespan * modes.step_ns
                capacity = makespan - reads * modes.striped_read
                if capacity >= 0 and makespan >= reads * modes.channel_read:
                    other = Subproblem(modes, dimms, makespan, reads).solve(Search(), 100)
                    assert found == other, (seed, reads, makespan)


def test_too_few_labels_refute_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dropped labels leave the subproblem open, and a block at a time drops none."""
    instance = random_instance(5, "hosts bind", experts=7)
    modes = Modes(instance)
    monkeypatch.setattr(plan_model, "multipliers", lambda *_: None)  # nothing is pruned
    makespan = solve(instance, "cp-sat").objective // modes.step_ns
    whole = {
        r: PlanModel(modes, makespan).solve(makespan, r, Search(), BIG)[0] for r in modes.reads
    }
    few = {r: PlanModel(modes, makespan).solve(makespan, r, Search(), 1)[0] for r in modes.reads}
    assert Feasibility.FEASIBLE in whole.values()
    assert Feasibility.UNKNOWN in few.values()
    monkeypatch.setattr(labels, "MAX_CANDIDATES", 7)
    blocks = {
        r: PlanModel(modes, makespan).solve(makespan, r, Search(), BIG)[0] for r in modes.reads
    }
    assert blocks == whole


def test_any_multipliers_keep_every_solution() -> None:
    """With random ones a makespan that can be reached is never refuted."""
    rng = np.random.default_rng(0)
    for seed in range(6):
        instance = random_instance(seed, "mixed", experts=5)
        modes, limits = Modes(instance), Limits.of(Modes(instance))
        makespan = solve(instance, "cp-sat").objective // modes.step_ns
        open_reads = []
        for reads in modes.reads:
            capacity = makespan - reads * modes.striped_read
            if capacity < 0:
                continue
            groups = [plans.fitting(capacity) for plans in tabulate(modes, limits)]
            if not all(map(len, groups)):
                continue
            limit = limits.vector(modes, makespan, reads, 0)
            price = rng.integers(0, 50, SHARED)
            price[-1] -= 25
            uses = [plans.uses for plans in groups]
            found = LabelSetting(uses, limit, price, equal=READS)
            if len(found.run(BIG, lambda: False)):
                open_reads.append(reads)
        assert open_reads, seed


def test_offers_are_the_greatest_sets_for_which_there_is_room() -> None:
    """By definition: experts of the thresholds' lengths fit, and no greater set does."""
    rng = np.random.default_rng(1)
    for _ in range(40):
        lengths = np.unique(rng.integers(1, 12, rng.integers(1, 4)))
        most, slack = int(rng.integers(1, 4)), int(rng.integers(0, 25))
        sets = [
            tuple(int(sum(n >= t for n in chosen)) for t in lengths)
            for number in range(most + 1)
            for chosen in combinations_with_replacement(lengths.tolist(), number)
            if sum(chosen) <= slack
        ]
        greatest = {
            s
            for s in sets
            if not any(o != s and all(a <= b for a, b in zip(s, o, strict=True)) for o in sets)
        }
        offers = Offers.of(lengths.tolist(), most, slack)
        taken = (offers.room <= slack) & (offers.room + offers.upgrade > slack)
        assert {tuple(row) for row in offers.counts[taken].tolist()} == greatest
