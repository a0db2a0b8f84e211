"""The ablation study: every stage on the same steps, and what its totals are made of."""

import json
import sys
from pathlib import Path

import pytest

from benchmarks.studies import trimoe_ablation as study


def test_every_stage_runs_every_step(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A small run: two steps; the optimal schedule is never above the refined one it replaces."""
    file = tmp_path / "ablation.json"
    small = "--models deepseek-v2-lite --batches 24 --seeds 1 --steps 2 --time-limit 600 --jobs 1"
    monkeypatch.setattr(sys, "argv", ["ablation", *small.split(), "--json", str(file)])
    study.main()
    (row,) = json.loads(file.read_text())
    spans = row["makespans_ns"]
    assert list(spans) == list(study.STAGES)
    assert {len(values) for values in spans.values()} == {2}
    assert min(min(values) for values in spans.values()) > 0
    pairs = zip(spans["+ relayout"], spans["+ optimal schedule"], strict=True)
    assert all(exact <= refined for refined, exact in pairs)
    printed = capsys.readouterr().out
    assert printed.count("| deepseek-v2-lite | 24 |") == 1
    assert "tri_domain: 0 of 8 exact solves not proven" in printed


def test_ratios_multiply_to_the_totals() -> None:
    """Each stage against the one before; the totals leave out the two that know the loads."""
    ratios = study.speedups([80.0, 40.0, 20.0, 10.0, 10.0, 8.0, 4.0, 2.0, 1.0])
    assert ratios == [2.0, 2.0, 2.0, 1.0, 1.25, 2.0, 2.0, 2.0, 8.0, 20.0]


def test_moves_stay_and_prefetched_experts_are_dropped() -> None:
    """The layout that the next step starts from."""
    run = study.Run(study.Point("deepseek-v2-lite", 24, 0, 1, 1, "trimoe-skew", "none", False, 1.0))
    layout = run.all_localized(run.loads[0])
    before = run.on(run.loads[0], layout)
    active = [expert for expert in before.experts if expert.tokens]
    moves = [
        study.Migration(expert=active[0].expert, kind="prefetch"),
        study.Migration(expert=active[1].expert, kind="stripe"),
        study.Migration(expert=active[2].expert, kind="rebalance", dimm=15 - active[2].dimm),
    ]
    after = study.moved(before, moves)
    assert not after.resident.any()
    changed = {int(expert) for expert in (after.dimm != layout.dimm).nonzero()[0]}
    assert changed == {active[1].expert, active[2].expert}
    assert after.dimm[active[1].expert] == study.STRIPED
    assert after.dimm[active[2].expert] == 15 - active[2].dimm
