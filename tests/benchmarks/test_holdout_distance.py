"""The study of hold-outs by distance: which stretches it pairs, and that it sees no text twice."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import moeopt
from benchmarks.studies import holdout_distance as study


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    """Return a folder with two traces of Mixtral's shape that read their first half twice."""
    folder = tmp_path / "hdmoe_mixtral_8x7b"
    folder.mkdir()
    for seed in (0, 1):
        rng = np.random.default_rng(seed)
        scores = rng.gumbel(size=(850, 32, 8)) - np.arange(8) / 3
        ids = np.argsort(-scores, axis=2)[:, :, :2].astype(np.uint8)
        np.savez(folder / f"{seed}.npz", topk_ids=np.concatenate([ids, ids[:700]]))
    return tmp_path


@pytest.mark.slow
def test_rows_by_distance(
    traces: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Two traces, stretches at 0, 40 and 200 of the 250 tokens that are left and not shared."""
    [setting] = (
        one for one in study.SETTINGS if (one.problem, one.folder) == ("cache", study.MIXTRAL)
    )
    small = replace(setting, quick=(0, 40, 200), options=setting.options | {"tokens": 40})
    rows = study.measured(small, traces)
    assert len(rows) == 2 * 3
    assert {(row.held_out.distance, row.held_out.decisions) for row in rows} == {
        ("next", 2),
        ("100-999 tokens on", 4),
    }
    optimum = rows[0].held_out
    assert (optimum.method, optimum.known, optimum.interval) == ("the optimum", 0, None)
    assert set(rows[0].by_trace) == {f"hdmoe_mixtral_8x7b/{seed}.npz" for seed in (0, 1)}
    assert all(0 <= share <= optimum.later_max for share in rows[0].by_trace.values())
    with pytest.raises(moeopt.InputError, match="tokens: tokens 220 to 260"):
        study.measured(replace(small, quick=(220,)), traces)  # the second reading is not there
    monkeypatch.setattr(study, "SETTINGS", [small])
    monkeypatch.setattr(study, "measured", lambda *_: rows)
    monkeypatch.setattr(sys, "argv", ["holdout_distance", "--traces", str(traces)])
    study.main()
    head, rule, *lines = capsys.readouterr().out.splitlines()
    assert lines == [study.line(row) for row in rows]
    assert {text.count("|") for text in (head, rule, *lines)} == {12}
    before, fair = study.figures(traces)
    assert before.startswith("layout: optimum 20 / 52 %")
    assert fair.count("cache, mixtral-8x7b, ") == len(rows)
    assert fair.startswith(f"cache, mixtral-8x7b, the optimum, next: {100 * optimum.later:.1f} %")
