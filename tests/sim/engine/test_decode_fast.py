"""Both ways of timing a step give the same latencies, on plans that use everything."""

import random

import numpy as np
import pytest

from moeopt.sim.engine.decode.decide import widths_of
from moeopt.sim.engine.decode.run import simulate_loads
from tests.sim.engine.decode_cases import DIMMS, random_costs, random_loads, random_plan


@pytest.mark.parametrize(
    "block", [0, 1, *(pytest.param(block, marks=pytest.mark.slow) for block in range(2, 5))]
)
def test_sums_and_events_agree(block: int) -> None:
    """Layer by layer, resource by resource, on random costs, loads and plans."""
    seen = {"deferred": 0, "fetches": 0, "moved": 0, "missed": 0, "late": 0}
    for seed in range(60 * block, 60 * block + 60):
        rng = random.Random(seed)
        plan, loads = random_plan(rng), random_loads(rng)
        costs = random_costs(rng, max(1, len(widths_of(plan))))
        fast = simulate_loads(plan, costs, loads, DIMMS)
        slow = simulate_loads(plan, costs, loads, DIMMS, timeline=True)
        assert fast.timeline is None
        assert slow.timeline is not None
        assert fast.layer_ns.tolist() == slow.layer_ns.tolist(), seed
        assert fast.step_ns.tolist() == slow.step_ns.tolist(), seed
        assert fast.makespan_ns == slow.makespan_ns, seed
        for one, other in zip(fast.usage, slow.usage, strict=True):
            assert (one.resource, one.busy_ns, one.idle_ns, one.utilisation) == (
                other.resource,
                other.busy_ns,
                other.idle_ns,
                other.utilisation,
            ), seed
        seen["deferred"] += max(plan.deferred) > 0
        seen["fetches"] += fast.fetches > 0
        seen["moved"] += fast.migrations_done > 0
        seen["missed"] += fast.migrations_missed > 0
        seen["late"] += fast.makespan_ns > int(fast.step_ns.sum())
    assert min(seen.values()) > 0, seen


def test_work_is_what_the_decisions_say() -> None:
    """Every active expert runs once: in the counts of the result and among the tasks."""
    for seed in range(20):
        rng = random.Random(seed)
        plan, loads = random_plan(rng), random_loads(rng)
        costs = random_costs(rng, max(1, len(widths_of(plan))))
        found = simulate_loads(plan, costs, loads, DIMMS, timeline=True)
        active = int(np.count_nonzero(loads.counts))
        assert sum(found.experts_run.values()) == active
        assert found.timeline is not None
        bundles = found.timeline.bundles
        assert sum(bundle.count for bundle in bundles if bundle.kind == "expert") == active
        fetched = sum(bundle.count for bundle in bundles if bundle.kind == "fetch")
        assert fetched == found.fetches <= found.misses
