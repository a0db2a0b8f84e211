"""The oracle against hand computation, and every exact method against the oracle."""

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

from tests.mathprog.solve import solve
from tests.problems.agreement import (
    assert_agreement,
    assert_anchors,
    assert_starts_help,
    exact,
)
from tests.problems.layout import by_arrays
from tests.problems.layout.layout_random_instances import KINDS, random_instance
from tests.rooms.layout import (
    COSTS,
    DOMAINS,
    HEURISTICS,
    Instance,
    Solution,
    average_load_ns,
    longest_expert_ns,
    lower_bound,
    makespan_grid,
    objective,
    striped_reads_ns,
    violations,
)

PER_KIND = 24
SHARES = [range(1), pytest.param(range(1, PER_KIND), marks=pytest.mark.slow)]
"""The models, and whatever exact algorithms the problem has of its own."""


def least(instance: Instance) -> int:
    """Return the optimum by trying everything; `test_brute_force_is_both_checkers_optimum`."""
    return by_arrays.optimum(instance)


BOUNDS = (longest_expert_ns, average_load_ns, striped_reads_ns)


def weighted(bound: Callable[[Instance], Any]) -> Callable[[Instance], int]:
    """Return the sum of a bound's makespans over the scenarios by their weights."""

    def total(of: Instance) -> int:
        rows = zip(of.scenarios, bound(of).tolist(), strict=True)
        return sum(scenario.weight * ns for scenario, ns in rows)

    return total


def instance_of(name: str, scenarios: list[dict[str, list[int]]], **given: Any) -> Instance:
    """Return an instance; costs not given are 1000, so high that nobody wants them."""
    experts = len(scenarios[0]["tokens"])
    rows = [dict.fromkeys(COSTS, [1000] * experts) | {"weight": 1} | row for row in scenarios]
    fields = {"dimms": 1, "hbm_slots": 0, "dimm_slots": None} | given
    reads = {"dram_striped_ns": 0, "dram_localized_ns": 0}
    return Instance(name=name, experts=experts, scenarios=rows, **(reads | fields))


ANCHORS = {
    # NDP costs 3, 3, 2, 2, 2 on two DIMMs: 12 in all, 3 + 3 and 2 + 2 + 2.
    "two DIMMs are packed": (
        instance_of("pack", [{"tokens": [1] * 5, "ndp_ns": [3, 3, 2, 2, 2]}], dimms=2),
        6,
    ),
    # The same with two slots on a DIMM: one expert too many, a host needs 1000.
    "a slot too few": (
        instance_of("slots", [{"tokens": [1] * 3, "ndp_ns": [1] * 3}], dimm_slots=2),
        1000,
    ),
    # Five experts of 4 on one DIMM: with one slot resident (hit 9) 16 stays, 9 < 16; both count.
    "a resident leaves the DIMM": (
        instance_of(
            "hit", [{"tokens": [1] * 5, "ndp_ns": [4] * 5, "gpu_hit_ns": [9] * 5}], hbm_slots=1
        ),
        16,
    ),
    # Two hits take 18 on the GPU and leave 12: worse than one hit. So one slot is left empty.
    "a slot is better left empty": (
        instance_of(
            "empty", [{"tokens": [1] * 5, "ndp_ns": [4] * 5, "gpu_hit_ns": [9] * 5}], hbm_slots=2
        ),
        16,
    ),
    # NDP 10 each on one DIMM: both 20. One read striped by the CPU (5): the DIMM 10 + 8 = 18. One
    # localized, read by the CPU (6): the DIMM 10 + 1 = 11. The restricted model says 18.
    "a host reads a localized expert": (
        instance_of(
            "localized read",
            [
                {
                    "tokens": [1] * 2,
                    "ndp_ns": [10] * 2,
                    "cpu_striped_ns": [5] * 2,
                    "cpu_localized_ns": [6] * 2,
                }
            ],
            dram_striped_ns=8,
            dram_localized_ns=1,
        ),
        11,
    ),
    # Each window alone: both experts on different DIMMs, or one resident. Window 0 has experts 0
    # and 1 (NDP 7), window 1 has 1 and 2, window 2 has 0 and 2: two DIMMs must put two of the three
    # together, which costs 14 in one window: 7 + 7 + 14; the weights 5, 5, 1 choose which: 84.
    "one layout for all windows": (
        instance_of(
            "windows",
            [
                {"weight": 5, "tokens": [1, 1, 0], "ndp_ns": [7] * 3},
                {"weight": 5, "tokens": [0, 1, 1], "ndp_ns": [7] * 3},
                {"weight": 1, "tokens": [1, 0, 1], "ndp_ns": [7] * 3},
            ],
            dimms=2,
        ),
        84,
    ),
    # Resident in both windows or in none: window 0 gains 10 - 4, window 1, where a hit is dearer
    # than a miss, can run on the CPU for 10 instead of 5: 4 + 10 < 10 + 5.
    "a dear hit cannot be declined on the GPU": (
        instance_of(
            "dear hit",
            [
                {"tokens": [1], "gpu_hit_ns": [4], "cpu_striped_ns": [10]},
                {
                    "tokens": [1],
                    "gpu_hit_ns": [30],
                    "gpu_miss_striped_ns": [5],
                    "cpu_striped_ns": [10],
                },
            ],
            hbm_slots=1,
        ),
        14,
    ),
}


def test_hand_computed_anchors() -> None:
    """Each optimum is verifiable by hand from the comment beside it."""
    assert_anchors(ANCHORS)


@pytest.mark.parametrize("kind", KINDS)
def test_brute_force_is_both_checkers_optimum(kind: str) -> None:
    """What other tests take for the truth, by arrays, is what brute force finds."""
    for seed in range(3):
        instance = random_instance(seed, kind, experts=2)
        value, solution = by_arrays.best(instance)
        found = solve(instance, "brute-force")
        assert value == found.objective == objective(instance, solution), instance.name
        assert violations(instance, solution) == [], instance.name


def test_brute_force_does_not_decompose_wrongly() -> None:
    """Layouts with the best schedule of each scenario: as good as any solution there is."""
    instance = random_instance(5, "several scenarios", experts=2)
    flat = [DOMAINS if tokens else (None,) for s in instance.scenarios for tokens in s.tokens]
    layouts = product((False, True), (False, True), *[(None, *range(instance.dimms))] * 2)
    every = (
        Solution(
            instance=instance.name,
            resident=(a, b),
            dimm=(c, d),
            assignment=tuple(zip(runs[::2], runs[1::2], strict=True)),
        )
        for a, b, c, d in layouts
        for runs in product(*flat)
    )
    values = [objective(instance, of) for of in every if not violations(instance, of)]
    assert min(values) == least(instance)


@pytest.mark.parametrize("seeds", SHARES)
@pytest.mark.parametrize("kind", KINDS)
def test_every_method_agrees_with_brute_force(kind: str, seeds: range) -> None:
    """On 24 instances of each kind; see `assert_agreement`."""
    for seed in seeds:
        instance = random_instance(seed, kind)
        assert_agreement(instance, least(instance), map(weighted, BOUNDS))


@pytest.mark.parametrize("kinds", [KINDS[:1], pytest.param(KINDS[1:], marks=pytest.mark.slow)])
@pytest.mark.parametrize("engine", ["cbc", "scip"])
def test_other_engines_agree_with_brute_force(kinds: tuple[str, ...], engine: str) -> None:
    """CBC and SCIP give the oracle's optimum, with and without a starting solution."""
    for kind in kinds:
        instance = random_instance(0, kind)
        for warm_start in (False, True):
            result = solve(instance, "milp", engine=engine, warm_start=warm_start)
            assert (result.status, result.objective) == ("optimal", least(instance)), instance.name


@pytest.mark.parametrize("kinds", [KINDS[:3], pytest.param(KINDS[3:], marks=pytest.mark.slow)])
def test_starting_solutions_change_nothing_but_time(kinds: tuple[str, ...]) -> None:
    """With the heuristic's solution and the bound as a start the optimum is the same."""
    assert_starts_help((random_instance(1, kind) for kind in kinds), "cp-sat")


@pytest.mark.parametrize("seeds", [range(8), pytest.param(range(26), marks=pytest.mark.slow)])
def test_bounds_are_not_trivial(seeds: range) -> None:
    """The combinatorial bounds together meet the optimum on a good share of the instances."""
    met = 0
    for seed in seeds:
        instance = random_instance(seed, KINDS[seed % len(KINDS)])
        met += lower_bound(instance) == by_arrays.optimum(instance)
    assert met >= 0.38 * len(seeds)


def test_each_bound_is_the_best_somewhere() -> None:
    """By hand: one long expert; hosts and DIMMs in balance; four equal experts on three DIMMs."""
    long = {"tokens": [1] * 2, "ndp_ns": [100, 1]}
    shared = {"tokens": [1] * 6, "ndp_ns": [10] * 6, "cpu_localized_ns": [10] * 6}
    packed = {"tokens": [1] * 4, "ndp_ns": [10] * 4}
    reads = {"dram_striped_ns": 500, "dram_localized_ns": 500}
    bounds = (longest_expert_ns, average_load_ns, striped_reads_ns)

    def values(scenario: dict[str, list[int]], dimms: int, **given: int) -> list[int]:
        instance = instance_of("bound", [scenario], dimms=dimms, **given)
        return [int(bound(instance)[0]) for bound in bounds]

    assert values(long, 3)[0] == 100 > values(long, 3)[1]
    # Without reads 60 ns of work is shared by the CPU and two DIMMs: 20 each.
    assert values(shared, 2)[1] == 20 > max(values(shared, 2)[::2])
    # Two experts meet on some DIMM: 20, the average is 14.
    assert values(packed, 3, **reads) == [10, 14, 20]


def test_a_scenario_without_tokens_costs_nothing() -> None:
    """Its costs mean nothing, its grid is harmless, its row of the solution is empty."""
    instance = instance_of(
        "idle", [{"tokens": [1], "ndp_ns": [7]}, {"tokens": [0], "ndp_ns": [3], "weight": 9}]
    )
    assert makespan_grid(instance, 1) == 1
    for method in ("brute-force", *exact("layout"), *HEURISTICS):
        result = solve(instance, method)
        assert result.objective is not None
        assert result.solution.assignment[1] == (None,)
    assert solve(instance, "cp-sat").objective == 7
