"""Measured bandwidths in pasted text: STREAM and Intel's Memory Latency Checker."""

import re

from moeopt.sim.machines.paths import TRIAD_READS

from .facts import MOST_DEVICES, Fact

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
    """Return the rates of reads that Intel's Memory Latency Checker measured.

    They are the peak of all cores, and by node: what each reads of its own memory and of another's.
    """
    if "Memory Latency Checker" not in text and "Peak Injection" not in text:
        return []
    facts = []
    rate = re.search(r"^ALL Reads\s*:\s*(\d{1,9}(?:\.\d{1,6})?)", text, re.MULTILINE)
    if rate is not None and LEAST_MB_S <= float(rate[1]) <= MOST_MB_S:
        facts = [_read("cpu.read_gb_s", float(rate[1]), "ALL Reads")]
    by_node = _matrix(text.partition("Bandwidths between nodes")[2])
    own = [row[number] for number, row in enumerate(by_node)]
    facts += [
        _read(f"node{number}.read_gb_s", rate, f"node {number} reads its own memory")
        for number, rate in enumerate(own)
    ]
    if own and rate is None:
        facts.append(_read("cpu.read_gb_s", sum(own), "each node reads its own memory, together"))
    if len(own) > 1:
        others = [rate for n, row in enumerate(by_node) for m, rate in enumerate(row) if m != n]
        facts.append(_read("socket.read_gb_s", min(others), "a node reads another one's memory"))
    return facts


def _read(name: str, mb_s: float, said: str) -> Fact:
    return Fact(name, round(mb_s / 1000, 2), "GB/s", f"Intel MLC: {said}")


def _matrix(text: str) -> list[list[float]]:
    """Return the first table of rates by reading node and node that is read; empty without one."""
    rows: list[list[float]] = []
    heads: list[str] = []
    for line in text.split("\n"):
        cells = line.split()
        if cells[:2] == ["Numa", "node"] and len(cells) > 2:
            heads = cells[2 : MOST_DEVICES + 2]
        elif heads and len(rows) < len(heads):
            if cells[:1] != [heads[len(rows)]] or len(cells) != len(heads) + 1:
                return []
            rates = [float(cell) for cell in cells[1:] if _RATE.fullmatch(cell)]
            if len(rates) < len(heads) or not LEAST_MB_S <= min(rates) <= max(rates) <= MOST_MB_S:
                return []
            rows.append(rates)
    return rows if len(rows) == len(heads) else []


_RATE = re.compile(r"\d{1,9}(?:\.\d{1,6})?")
