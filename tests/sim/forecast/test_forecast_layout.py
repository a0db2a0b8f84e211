"""Futures of layout instances."""

from pathlib import Path

import pytest

import moeopt
from moeopt import Futures, layout
from tests.rooms.layout import draw


@pytest.mark.parametrize(
    "file", ["windows/deepseek-v2-batch256-windows8", "own-two-parts/*-layer4-batch512"]
)
def test_futures_are_valid_instances_of_the_same_machine(root: Path, file: str) -> None:
    """Nothing but the scenarios differs; the same arguments give the same, others another."""
    path = next((root / "instances" / "layout").glob(f"{file}.json"))
    seen = moeopt.load(path)
    assert isinstance(seen, layout.Instance)
    drawn = draw(seen, Futures(), seed=3)
    one = drawn(16, 0)
    assert layout.Instance.model_validate(one.model_dump()) == one
    changed = {"name", "provenance", "scenarios"}
    assert one.model_dump(exclude=changed) == seen.model_dump(exclude=changed)
    assert one.scenarios == draw(seen, Futures(), seed=3)(16, 0).scenarios
    assert drawn(16, 1).scenarios != one.scenarios != draw(seen, Futures(), 4)(16, 0).scenarios
    totals = {sum(scenario.tokens) for scenario in seen.scenarios}
    assert {sum(scenario.tokens) for scenario in one.scenarios} <= totals


def test_costs_are_the_instances_own_where_it_has_the_count(root: Path) -> None:
    """A count of the observed windows costs what it costs there."""
    path = root / "instances" / "layout" / "windows" / "deepseek-v2-batch256-windows8.json"
    seen = moeopt.load(path)
    assert isinstance(seen, layout.Instance)
    for field in ("gpu_hit_ns", "ndp_ns"):
        pairs = [zip(s.tokens, getattr(s, field), strict=True) for s in seen.scenarios]
        known = {tokens: ns for pair in pairs for tokens, ns in pair}
        for scenario in draw(seen, Futures(), seed=0)(8, 0).scenarios:
            for tokens, ns in zip(scenario.tokens, getattr(scenario, field), strict=True):
                assert ns == known.get(tokens, ns) or not tokens
