"""Bytes and operations become time in `sim.costs` and nowhere else."""

import re
from pathlib import Path

import moeopt

PACKAGE = Path(moeopt.__file__).parent

RATE = re.compile(r"(?:gb_s|GB_S)\w*\)? ?[*/] ?1e\d|/ ?\(?[\w.]*(?:gb_s|GB_S)\b|tflops\(.*\* ?1e12")
"""A rate that is brought to bytes or operations a second, or by which is divided."""

OTHERS = {
    "sim/machines/machine.py": "a link's own transfer",
    "sim/machines/detect.py": "the share of a peak that was measured",
    "problems/threads/generate.py": "an input's load, whose rate is an option, not the machine's",
    "sim/machines/runtimes/causes.py": "reads from a disk, of which no machine says anything",
}
"""Modules that have a rate in a formula, and why that is no cost of a step."""


def test_only_costs_turn_bytes_into_time() -> None:
    """Each exception is one still."""
    found = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if any(RATE.search(line) for line in path.read_text().splitlines())
    }
    assert {name for name in found if not name.startswith("sim/costs/")} == set(OTHERS)
