"""The oracle against hand computation, and every exact method against the oracle."""

from pathlib import Path
from typing import Any

import pytest

from moeopt import load, solve
from tests.problems.agreement import assert_agreement, assert_anchors, assert_starts_help
from tests.problems.bitwidth.bitwidth_random_instances import KINDS, random_instance
from tests.rooms.bitwidth import WARM_START, Instance, candidates, count

LIBRARY = Path(__file__).parents[3] / "instances" / "bitwidth"
PER_KIND = 32
SHARES = [range(2), pytest.param(range(2, PER_KIND), marks=pytest.mark.slow)]
TWO: list[dict[str, Any]] = [
    {"expert": 0, "importance": 1, "loss": [90, 40, 30, 0]},
    {"expert": 1, "importance": 2, "loss": [50, 45, 10, 5]},
]


def small(**changes: Any) -> Instance:
    """Return one layer with the two experts of `TWO`, and what a test overrides."""
    data: dict[str, Any] = {"bits": [1, 2, 3, 4], "layers": [{"budget_bits": 5, "experts": TWO}]}
    return Instance(name="small", **(data | changes))


def layers(*budgets: int | None) -> list[dict[str, Any]]:
    """Return layers with the two experts of `TWO` each."""
    return [{"budget_bits": budget, "experts": TWO} for budget in budgets]


ANCHORS: dict[str, tuple[dict[str, Any], int | None]] = {
    # (4, 1): 0 + 50 = 50; (2, 3): 40 + 10 = 50; (3, 2): 75; (1, 4): 95; fewer bits: no better.
    "five bits": ({}, 50),
    # (4, 2): 45; (3, 3): 40; (2, 4): 45; (1, 4): 95; (2, 3): 50.
    "six bits": ({"layers": layers(6)}, 40),
    # (1, 1) is all there is.
    "two bits": ({"layers": layers(2)}, 140),
    "one bit": ({"layers": layers(1)}, None),
    # 10 bits: 5 + 5 gives 100; 4 + 6 gives (2, 2) 85 or (1, 3) 100 and 40: 125; 7 + 3: (4, 3) 10
    # and (2, 1) 90: 100; 8 + 2: 5 + 140. The layers' own budgets of 2 do not count.
    "ten bits for two layers": ({"layers": layers(2, 2), "model_budget_bits": 10}, 100),
    # 14 bits: 7 + 7.
    "fourteen bits": ({"layers": layers(None, None), "model_budget_bits": 14}, 20),
    # One width for both: 2 bits each, 85.
    "one width": ({"granularity": "layer"}, 85),
    # Layers of (2, 2) and (3, 3): 85 + 40; one width for the model: 2 x 85.
    "a width per layer": ({"layers": layers(5, 6), "granularity": "layer"}, 125),
    "a width per model": ({"layers": layers(5, 6), "granularity": "model"}, 170),
    # Exactly 3 bits for one of them: (2, 3), as before. One of exactly 2 bits and one of exactly 1:
    # (2, 1) 90 or (1, 2) 135. Two of 3 bits do not fit. Three experts are not there.
    "one of three bits": ({"min_count": {"3": 1}}, 50),
    "one of two and one of one": ({"min_count": {"2": 1, "1": 1}}, 90),
    "two of three bits": ({"min_count": {"3": 2}}, None),
    "three of one bit": ({"min_count": {"1": 3}}, None),
    # More bits that do harm are left unused.
    "losses that rise": (
        {"layers": [{"budget_bits": 9, "experts": [TWO[0] | {"loss": [3, 9, 9, 9]}]}]},
        3,
    ),
}


def test_hand_computed_anchors() -> None:
    """Each optimum is verifiable by hand from the comment beside it."""
    assert_anchors({name: (small(**changes), best) for name, (changes, best) in ANCHORS.items()})


def test_the_oracle_leaves_nothing_out() -> None:
    """Every choice of a width per expert, once."""
    instance = small(layers=layers(5, 6))
    found = [candidate.bits for candidate in candidates(instance)]
    assert len(found) == len(set(found)) == count(instance) == 4**4
    assert all(
        len(widths) == 2 and set(widths) <= {1, 2, 3, 4} for bits in found for widths in bits
    )


@pytest.mark.parametrize("seeds", SHARES)
@pytest.mark.parametrize("kind", KINDS)
def test_every_method_agrees_with_brute_force(kind: str, seeds: range) -> None:
    """Of every kind, some infeasible; see `assert_agreement`."""
    statuses = set()
    for seed in seeds:
        instance = random_instance(seed, kind)
        statuses.add(status := assert_agreement(instance))
        assert (WARM_START(instance) is None) == (status == "infeasible"), instance.name
    assert "optimal" in statuses


def test_cpsat_proves_whole_models_with_counts() -> None:
    """Its relaxation has BW-C1: without, it ends 14 and 1 % above the optimum."""
    for name in (
        "mixture-compressor-both/humanities-both-per-model-2bits.json",
        "mixture-compressor/humanities-3bit-per-model.json",
    ):
        instance = load(LIBRARY / name)
        result = solve(instance, "cp-sat", time_limit_s=10)
        assert (result.status, result.objective) == ("optimal", solve(instance, "dp").objective)


def test_infeasible_instances_are_among_them() -> None:
    """Budgets below the least sum of widths, and counts that the experts do not reach."""
    instances = [random_instance(seed, kind) for kind in KINDS for seed in range(PER_KIND)]
    infeasible = [instance for instance in instances if WARM_START(instance) is None]
    assert 20 < len(infeasible) < len(instances) / 2


@pytest.mark.parametrize("seeds", [range(1), pytest.param(range(1, 6), marks=pytest.mark.slow)])
def test_starting_solutions_change_nothing_but_time(seeds: range) -> None:
    """With the start and the bound the answer is the same."""
    assert_starts_help((random_instance(seed, kind) for kind in KINDS for seed in seeds), "dp")
