"""Measured bandwidths in pasted text: STREAM and Intel's Memory Latency Checker."""

import re

from moeopt.sim.machines.paths import TRIAD_READS

from .facts import Fact

LEAST_MB_S, MOST_MB_S = 100.0, 1e8
"""No host reads slower or faster."""


def of_stream(text: str) -> list[Fact]:
    """Return the rates of STREAM; a read rate is 4/3 of Triad, as a write reads its line first."""
    if "STREAM" not in text and "Best Rate" not in text:
        return []
    rates = re.findall(r"^(Copy|Scale|Add|Triad):\s+(\d{1,9}\.\d{1,6})\b", text, re.MULTILINE)
    found = {name.lower(): float(rate) for name, rate in rates}
    facts = [
        Fact(f"stream.{name}_gb_s", round(rate / 1000, 2), "GB/s", f"STREAM: {name.title()}")
        for name, rate in found.items()
        if LEAST_MB_S <= rate <= MOST_MB_S
    ]
    triad = found.get("triad", 0.0)
    if LEAST_MB_S <= triad <= MOST_MB_S:
        said = "STREAM: 4/3 of Triad, as what is written is read first"
        facts.append(Fact("cpu.read_gb_s", round(triad * TRIAD_READS / 1000, 2), "GB/s", said))
    return facts


def of_mlc(text: str) -> list[Fact]:
    """Return the peak rate of reads that Intel's Memory Latency Checker measured."""
    if "Memory Latency Checker" not in text and "Peak Injection" not in text:
        return []
    rate = re.search(r"^ALL Reads\s*:\s*(\d{1,9}(?:\.\d{1,6})?)", text, re.MULTILINE)
    if rate is None or not LEAST_MB_S <= float(rate[1]) <= MOST_MB_S:
        return []
    gb_s = round(float(rate[1]) / 1000, 2)
    return [Fact("cpu.read_gb_s", gb_s, "GB/s", "Intel MLC: ALL Reads")]
