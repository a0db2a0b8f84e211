"""The study of counts: what it prints of a trace of which everything is known."""

import importlib.util
from pathlib import Path

import pytest

from moeopt.sim.presets import find
from moeopt.sim.traces.synthetic import routing_trace
from moeopt.sim.traces.workload import Workload


def test_a_row(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of independent tokens the counts tell all: within 3 %, and recorded steps tell no more."""
    path = root / "benchmarks" / "studies" / "counts_enough.py"
    spec = importlib.util.spec_from_file_location("counts_enough", path)
    assert spec is not None
    assert spec.loader is not None
    study = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(study)
    monkeypatch.setattr(study, "STEPS", 30)
    law = find("workloads", Workload, "hdmoe-mixtral").model_copy(update={"recall": None})
    trace = routing_trace(law, 8, 2, 32, 1500, 2)
    cells = [cell.strip() for cell in study.row(trace, {"model": "mixtral-8x7b"}, 600).split("|")]
    assert cells[1] == "workload hdmoe-mixtral"
    said, real = float(cells[2]), float(cells[3])
    assert said == pytest.approx(real, rel=0.03)
    assert cells[4] == f"{said / real - 1:+.1%}"
    assert float(cells[5].rstrip("%")) > 0
    assert abs(float(cells[6].rstrip("%"))) < 2
