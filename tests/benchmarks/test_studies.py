"""Studies say what their tables rest on; small ones, tried on a small case each."""

import argparse
import json
from pathlib import Path

import pytest

import moeopt
from benchmarks.studies import counts_enough
from benchmarks.studies.bitwidth_scale import BITS, rounding, splits
from benchmarks.studies.dimm_copies import curve, with_memory
from benchmarks.studies.prototype import rows as prototype_rows
from benchmarks.textbook import bitwidth
from tests.real_traces import real_trace_file
from tests.rooms.bitwidth import Instance, objective, violations
from tests.rooms.sim import Workload, find, routing_trace


def test_the_older_unit_hides_losses_and_the_layers_own_does_not() -> None:
    """Most losses at 8 bits and all at 16 were 0; the excess now is within what is stated."""
    before = rounding("growing with depth", "table", seeds=1)
    now = rounding("growing with depth", "own", seeds=1)
    assert before.zeros[8] > 0.5
    assert before.zeros[16] == 1
    assert before.worst_layer > 0.01
    assert set(now.zeros.values()) == {0}
    assert now.stated is not None
    assert now.worst_layer <= now.stated < 1e-4


@pytest.mark.slow
def test_only_the_largest_sum_is_worse_than_the_best_split() -> None:
    """On widths that are not evenly spaced; on the paper's all readings agree where losses fall."""
    for bits, budget, worse in (
        ((1, 2, 3, 4), "largest sum", False),
        (BITS, "equality", False),
        (BITS, "at most", False),
        (BITS, "largest sum", True),
    ):
        assert (splits(bits, budget, layers=60).worse > 0) == worse


def made(budget: str, seed: int) -> Instance:
    """Return two layers of eight experts."""
    instance = moeopt.generate(
        "bitwidth",
        machine="cxl-ndp",
        model="mixtral-8x7b",
        workload="hdmoe-mixtral",
        layers=2,
        budget=budget,
        seed=seed,
    )
    assert isinstance(instance, Instance)
    return instance


@pytest.mark.parametrize("solve", [bitwidth.cpsat, bitwidth.highs, bitwidth.pulp_cbc])
@pytest.mark.parametrize("budget", ["layer", "model"])
def test_textbook_models_prove_the_same_optimum(solve: object, budget: str) -> None:
    """As dp, with a valid solution of the value they claim."""
    for seed in range(2):
        instance = made(budget, seed)
        answer = solve(instance, 60.0)  # type: ignore[operator]
        assert answer.proven
        assert violations(instance, answer.solution) == []
        found = objective(instance, answer.solution)
        assert found == round(answer.objective) == moeopt.solve(instance, "dp").objective


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
