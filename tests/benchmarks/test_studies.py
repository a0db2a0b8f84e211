"""Studies say what their tables rest on; small ones, tried on a small case each."""

import argparse
import json
from pathlib import Path

import pytest

import moeopt
from benchmarks.studies import counts_enough
from benchmarks.studies.dimm_copies import curve, with_memory
from benchmarks.studies.prototype import rows as prototype_rows
from tests.real_traces import real_trace_file
from tests.rooms.sim import Workload, find, routing_trace


def test_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of independent tokens the counts tell all: within 3 %, and recorded steps tell no more."""
    monkeypatch.setattr(counts_enough, "STEPS", 30)
    law = find("workloads", Workload, "hdmoe-mixtral").model_copy(update={"recall": None})
    trace = routing_trace(law, 8, 2, 32, 1500, 2)
    cells = [
        cell.strip() for cell in counts_enough.row(trace, {"model": "mixtral-8x7b"}, 600).split("|")
    ]
    assert cells[1] == "workload hdmoe-mixtral"
    said, real = float(cells[2]), float(cells[3])
    assert said == pytest.approx(real, rel=0.03)
    assert cells[4] == f"{said / real - 1:+.1%}"
    assert float(cells[5].rstrip("%")) > 0
    assert abs(float(cells[6].rstrip("%"))) < 2


ROWS = [
    {"cell": f"c{n}", "rule": "dual-copies", "copies": 2.0, "later": [later, 0.2], "seen": 0.03}
    | {"proven": proven}
    for n, (later, proven) in enumerate([(0.01, 2), (0.09, 0)])
]


def test_the_curve_is_what_the_rows_say(tmp_path: Path) -> None:
    """Medians and maxima over pairs, the share within the target, and the proven schedules."""
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    figure = tmp_path / "figure.svg"
    lines = list(curve(argparse.Namespace(rows=rows, traces=None, cells=0, figure=figure)))
    assert lines[2:] == ["| `dual-copies` | 2 | 3.0 / 3.0 % | 14.5 / 20.0 % | 50% | 2 | 4 | 50% |"]
    assert "dual-copies, later windows" in figure.read_text()


@pytest.mark.parametrize("copies", [1.0, 1.25, 3.0])
def test_memory_is_whole_experts(copies: float, root: Path) -> None:
    """So many copies of all experts fit, striped, and no more."""
    instance = moeopt.load(root / "instances/layout/esft-windows/law-layer12-windows2.json")
    several = with_memory(instance, copies).copies
    assert several is not None
    assert several.room_bytes // several.share_bytes(instance.dimms) == int(copies * 64)
    assert with_memory(instance, None) is instance


def test_the_prototype_s_figures_come_out_or_are_named() -> None:
    """Six systems are within half a percent, rounded as there and with nothing uploaded ahead."""
    trace = real_trace_file("esft_deepseek_v2_lite/law.npz")
    found = {name: rest for name, *rest in prototype_rows(trace)}
    without = ("fiddler", "enhanced-ktransformers", "hybrimoe", "klotski")
    for name in ("ktransformers", "collaborative", *without):
        prototype, _, rounded, last = found[name]
        nearest = int(last.split()[0].replace(",", "")) if last else rounded
        assert nearest == pytest.approx(prototype, rel=0.005), name
