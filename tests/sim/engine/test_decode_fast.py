"""Both ways of timing a step give the same latencies, on plans that use everything."""

import random

import numpy as np
import pytest

import moeopt
from tests.rooms.core import split_name
from tests.rooms.systems import HEURISTICS, Offer, get_policy, run, simulate_loads
from tests.rooms.systems import policy_widths_of as widths_of
from tests.rooms.tri_domain import DOMAINS, STRIPED, Solution, objective
from tests.sim.engine.decode_cases import (
    DIMMS,
    POLICIES,
    random_costs,
    random_loads,
    random_plan,
)
from tests.sim.engine.reference_decider import SlowDecider, heuristic_policy, layer_instance


def test_a_dimm_without_work_waits_for_nothing() -> None:
    """On a plan whose last layer hands over to the CPU what no DIMM is read for."""
    rng = random.Random(296)
    plan, loads = random_plan(rng), random_loads(rng)
    costs = random_costs(rng, max(1, len(widths_of(plan))))
    fast = simulate_loads(plan, costs, loads, DIMMS)
    slow = simulate_loads(plan, costs, loads, DIMMS, timeline=True)
    assert fast.makespan_ns == slow.makespan_ns == int(fast.step_ns.sum())


@pytest.mark.parametrize(
    "block", [0, *(pytest.param(block, marks=pytest.mark.slow) for block in range(1, 5))]
)
def test_sums_and_events_agree(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Layer by layer, resource by resource, on random costs, loads and plans.

    The clock follows decisions by arrays, and the event engine those of loops over experts.
    """
    seen = {"deferred": 0, "fetches": 0, "moved": 0, "missed": 0, "late": 0}
    for seed in range(60 * block, 60 * block + 60):
        rng = random.Random(seed)
        plan, loads = random_plan(rng), random_loads(rng)
        costs = random_costs(rng, max(1, len(widths_of(plan))))
        fast = simulate_loads(plan, costs, loads, DIMMS)
        with monkeypatch.context() as patch:
            patch.setattr(run, "Decider", SlowDecider)
            slow = simulate_loads(plan, costs, loads, DIMMS, timeline=True)
        assert fast.timeline is None
        assert slow.timeline is not None
        for name in ("experts_run", "hits", "misses", "fetches", "migrations_missed"):
            assert getattr(fast, name) == getattr(slow, name), (seed, name)
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


@pytest.mark.parametrize("name", [name for name in POLICIES if split_name(name)[0] in HEURISTICS])
def test_policies_are_the_heuristics(name: str) -> None:
    """All layers at once give what tri_domain's heuristics give on each layer's instance."""
    rng = np.random.default_rng(0)
    by_instance = heuristic_policy(*split_name(name))
    domains = set()
    for number in range(12):
        offer = random_offer(rng, costs=4 if number % 2 else 1000)
        active = offer.tokens > 0
        found, expected = get_policy(name)(offer)[active], by_instance(offer)[active]
        assert found.tolist() == expected.tolist()
        domains |= {*found.tolist()}
    assert len(domains) > 1 or name == "klotski"


@pytest.mark.parametrize("scale", [1, 3, 10**6, 10**9])
def test_fiddler_s_split_is_the_heuristic_s(scale: int) -> None:
    """Also on costs beyond 32 bits, on a coarse grid, with ties and experts that cost nothing."""
    rng = np.random.default_rng(scale)
    for number in range(60):
        size, most = int(rng.integers(1, 40)), int(rng.choice([3, 50, 4000]))
        gpu, cpu = rng.integers(0, most, size=(2, size)) * scale
        gpu += rng.integers(0, 2) * (scale // 2)
        rows = {"gpu_ns": gpu[None], "cpu_ns": cpu[None], "ndp_ns": cpu[None]}
        reads = {"gpu_dram_ns": cpu[None], "cpu_dram_ns": cpu[None]}
        striped, nobody = np.full((1, size), STRIPED), np.zeros((1, size), dtype=np.bool_)
        offer = Offer(1, np.ones_like(striped), nobody, striped, **rows, **reads)
        found = get_policy("fiddler")(offer)[0]
        assert found.tolist() == heuristic_policy("fiddler")(offer)[0].tolist(), number


def test_threshold_is_optimal() -> None:
    """The policy's makespan is the optimum of each layer's instance."""
    rng = np.random.default_rng(1)
    better = 0
    for _ in range(3):
        offer = random_offer(rng, costs=1000)
        found, rule = get_policy("threshold")(offer), get_policy("trimoe")(offer)
        for layer, active in enumerate(offer.tokens > 0):
            if active.any():
                instance = layer_instance(offer, layer)

                def makespan(choice: np.ndarray, instance=instance, active=active) -> int:
                    assignment = tuple(DOMAINS[d] for d in choice[active])
                    return objective(
                        instance, Solution(instance=instance.name, assignment=assignment)
                    )

                best = moeopt.solve(instance, "cp-sat").objective
                assert makespan(found[layer]) == best <= makespan(rule[layer])
                better += best < makespan(rule[layer])
    assert better > 0


def random_offer(rng: np.random.Generator, costs: int) -> Offer:
    """Return an offer of four layers; few different costs make many ties."""
    shape = (4, 14)
    tokens = rng.integers(0, 5, size=shape) * (rng.random((4, 1)) < 0.9)
    resident, dimm = rng.random(shape) < 0.3, rng.integers(STRIPED, 4, size=shape)
    dram = rng.integers(0, costs, size=shape)

    def path() -> np.ndarray:
        return np.where(tokens > 0, rng.integers(0, costs, size=shape), 0)

    hosts = {"gpu_ns": path(), "cpu_ns": path(), "ndp_ns": path()}
    reads = {"gpu_dram_ns": np.where(resident, 0, dram), "cpu_dram_ns": dram}
    return Offer(4, tokens, resident, dimm, **hosts, **reads)
