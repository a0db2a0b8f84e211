"""The study of copies on DIMMs: its tables of given rows, and the memory that it grants."""

import argparse
import json
from pathlib import Path

import pytest

import moeopt
from benchmarks.studies.dimm_copies import curve, with_memory

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
