"""Method robust, the forecast it decides on, and the generator whose windows it sees."""

import numpy as np
import pytest

import moeopt
from moeopt import Futures, InputError, run_on, solve
from tests.problems.replication.replication_random_instances import random_instance
from tests.rooms.core import Search
from tests.rooms.replication import (
    Instance,
    Options,
    decide,
    draw,
    eplb_hierarchical,
    joint_bound,
    round_robin,
    violations,
)
from tests.rooms.sim import Counts

FEW = Futures(samples=16, horizon=4)
OPTIONS = {
    "machine": "trimoe",
    "model": "deepseek-v3",
    "workload": "trimoe-skew",
    "batch": 64,
    "drawn_windows": 4,
    "devices": 16,
    "slots": 18,
}


def observed(**changes: object) -> Instance:
    """Return the first two windows of a layer of 256 experts."""
    options = {"windows": 2, "first_window": 1} | OPTIONS | changes
    made: Instance = moeopt.generate("replication", seed=0, **options)
    return made


def test_the_generators_windows_and_moves() -> None:
    """Windows in turn, the same whatever else is asked for; EPLB's map of the window before."""
    both = observed()
    assert [sum(window.loads) for window in both.windows] == [64 * 8] * 2
    later = observed(windows=1, first_window=2)
    assert later.windows[0] == both.windows[1]
    moving = observed(current="eplb", move_tokens=3)
    before = eplb_hierarchical(observed(windows=1, first_window=0))
    assert moving.current == before.copies
    assert moving.move_cost == 3 * 840
    assert both.provenance["options"]["first_window"] == 1
    assert set(Options.model_fields) > {"nodes", "groups", "split", "max_copies"}
    with pytest.raises(InputError, match="first_window: must be from 1 to 3, not 0"):
        observed(current="eplb", first_window=0, windows=1)


def test_counts_are_one_window() -> None:
    """Of a layer; what only a trace has is refused."""
    table = np.arange(26 * 64).reshape(1, 26, 64)
    counts = Counts("counts", table)
    common = {"machine": "trimoe", "model": "deepseek-v2-lite", "counts": counts}
    made = moeopt.generate("replication", layer=2, devices=8, **common)
    assert made.windows[0].loads == tuple(table[0, 2].tolist())
    with pytest.raises(InputError, match="counts are one window"):
        moeopt.generate("replication", windows=2, **common)


def test_futures_keep_the_devices_and_the_windows_totals() -> None:
    """And are the same again; other streams are others."""
    instance = observed()
    drawn = draw(instance, FEW, 0)
    sample = drawn(5, 0)
    assert sample == drawn(5, 0)
    assert sample.windows != drawn(5, 1).windows
    assert (sample.devices, sample.slots) == (16, 18)
    assert {sum(window.loads) for window in sample.windows} == {64 * 8}


def test_robust_is_valid_and_repeatable() -> None:
    """And better than knowing nothing on the window that comes; with nodes and moves too."""
    for changes in ({}, {"nodes": 2, "groups": 8, "current": "eplb", "move_tokens": 1}):
        instance = observed(**changes)
        search, again = Search(60), Search(60)
        for each in (search, again):
            decide(instance, draw(instance, FEW, 0), each, FEW)
        assert search.solution == again.solution
        assert violations(instance, search.solution) == []
        later = observed(windows=1, first_window=3)
        assert run_on(later, search.solution) < run_on(later, round_robin(instance))
    result = solve(observed(), "robust", futures=FEW, time_limit_s=600)
    assert result.status == "feasible"


def test_the_bound_by_copies_and_nodes_is_below_the_optimum() -> None:
    """And above the windows' own where they compete for copies, or groups for nodes."""
    higher = 0
    for seed in range(0, 60, 3):
        instance = random_instance(seed, current=None)
        truth = solve(instance, "cp-sat", warm_start=False)
        if truth.objective is not None:
            bound = joint_bound(instance, 10)
            assert bound <= truth.objective
            higher += bound > moeopt.replication.lower_bound(instance)
    assert higher
