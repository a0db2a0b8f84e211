"""Futures of relayout instances."""

from pathlib import Path

import pytest

import moeopt
from moeopt import Futures, relayout
from tests.rooms.relayout import draw

OBSERVED = ((9, 1, 0, 30), (8, 2, 1, 29), (10, 0, 1, 29))


def small(**more: object) -> relayout.Instance:
    """Return four experts on two DIMMs, with costs that rise with tokens."""
    tokens = [5, 5, 5, 25]
    rising = [40 + 2 * number for number in tokens]
    paths = ("gpu_hit_ns", "gpu_miss_striped_ns", "gpu_miss_localized_ns")
    paths += ("cpu_striped_ns", "cpu_localized_ns", "ndp_ns")
    return relayout.Instance.from_arrays(
        tokens=tokens,
        dimm=[0, 0, 1, -1],
        **dict.fromkeys(paths, rising),
        **{"dimms": 2, "hbm_free_slots": 1, "dram_striped_ns": 1, "dram_localized_ns": 2},
        **{"prefetch_ns": 3, "relayout_ns": 1, "rebalance_ns": 1},
        **{"pcie_window_ns": 4, "dimm_link_window_ns": 4, "name": "small"},
        **more,
    )


@pytest.mark.parametrize(
    "file", ["fair-esft/fair-law-layer4-batch128", "schema-2/deepseek-v2-batch32*"]
)
def test_futures_are_valid_instances_of_the_same_layout(root: Path, file: str) -> None:
    """Only tokens and costs differ; the same arguments give the same, other streams others."""
    path = next((root / "instances" / "relayout").glob(f"{file}.json"))
    today = moeopt.load(path)
    assert isinstance(today, relayout.Instance)
    drawn = draw(today, Futures(), 3)
    one = drawn(4, 0)
    changed = {"name", "provenance", "experts"}
    for future in one:
        assert relayout.Instance.model_validate(future.model_dump()) == future
        assert future.model_dump(exclude=changed) == today.model_dump(exclude=changed)
        places = [(e.expert, e.resident, e.dimm) for e in future.experts]
        assert places == [(e.expert, e.resident, e.dimm) for e in today.experts]
        total = sum(e.tokens for e in future.experts)
        assert total == sum(e.tokens for e in today.experts)
    assert [f.experts for f in one] == [f.experts for f in draw(today, Futures(), 3)(4, 0)]
    assert [f.experts for f in one] != [f.experts for f in drawn(4, 1)]


def test_futures_follow_what_was_observed_not_what_was_predicted() -> None:
    """The steps before say that the last expert has most tokens and the third hardly any."""
    futures = draw(small(observed_tokens=OBSERVED), Futures(), 0)(64, 0)
    mean = [sum(f.experts[e].tokens for f in futures) / 64 for e in range(4)]
    assert {sum(e.tokens for e in f.experts) for f in futures} == {40}
    assert mean == pytest.approx([9, 1, 0.7, 29.3], abs=1.5)
    blind = draw(small(), Futures(), 0)(64, 0)
    mean = [sum(f.experts[e].tokens for f in blind) / 64 for e in range(4)]
    assert max(mean[:3]) - min(mean[:3]) < 2
    assert mean[3] > 3 * max(mean[:3])


def test_a_count_that_the_instance_has_costs_what_it_costs_there() -> None:
    """Between counts costs are interpolated; an expert without tokens costs nothing."""
    for future in draw(small(observed_tokens=OBSERVED), Futures(), 0)(8, 0):
        for expert in future.experts:
            assert expert.ndp_ns == (40 + 2 * expert.tokens if expert.tokens else 0)
