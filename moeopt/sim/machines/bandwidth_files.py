"""Bandwidths that other tools measured: any JSON with read, copy or triad rates, STREAM's say.

Such files have no common schema, so numbers are recognised by their keys, and what was taken and
what was not is reported.
"""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from moeopt.core.errors import InputError, expect
from moeopt.core.json_files import read_object
from moeopt.core.wording import shortened
from moeopt.sim.machines.edit import set_machine
from moeopt.sim.machines.machine import Machine

Of = Literal["cpu", "gpu", "pcie"]

LINK = re.compile(r"pci|h2d|host_?to_?device|htod")
GPU = re.compile(r"gpu|hbm|vram|cuda|rocm|device|d2d")
BACK = re.compile(r"d2h|device_?to_?host|dtoh")
"""The way back from the GPU, which carries no weights."""

RATES = (
    ("read", r"read"),
    ("triad", r"triad"),
    ("add", r"(^|[._])add"),
    ("copy", r"copy|memcpy"),
    ("scale", r"scale"),
    ("rate", r"stream|bandwidth|linear|peak|(^|[._])bw"),
)
"""Kinds of rate, the best first: weights are read, and a triad reads two of its three streams."""

ANOTHER = re.compile(
    r"moe|gather|overlap|kernel|time|second|latency|thread|core|byte|size|count|ratio|fraction"
    r"|threshold|percent|error|std|min(imum)?$|(^|[._])(n|index|version|elements|repeats)$"
)
"""Numbers that are no plain bandwidth: times, sizes, and kernels that do more than read."""

UNITS = (("mb", 1e-3), ("mib", 2**20 / 1e9), ("gib", 2**30 / 1e9), ("gb", 1.0), ("tb", 1e3))

LARGEST = 1e300
"""Integers above this are no rates; a float could not hold the largest of them."""

MOST_GB_S = {"cpu": 5e3, "gpu": 2e4, "pcie": 5e2}
"""Nothing is faster: a larger number without a unit is in MB/s, as STREAM prints them."""


LONGEST_KEY, MOST_NUMBERS = 200, 100_000
"""What stands below a longer path of keys is no rate: every number there would repeat it."""

STORING = {"triad": 4 / 3, "add": 4 / 3}
"""Rates of three streams that move four: a line that is stored to is read first, unless stores are
streamed past the cache, and STREAM counts three (J. D. McCalpin, STREAM's documentation). On the
A100 machine of the measured points llama.cpp reads 120-125 GB/s where Triad says 93.7."""


@dataclass(frozen=True)
class Bandwidth:
    """A rate found in a file.

    Attributes
    ----------
    of
        Whose it is: the "cpu" reading its memory, the "gpu" its own, or "pcie" to the GPU.
    rate
        Which rate: read, triad, add, copy, scale or just a rate.
    gb_s
        In GB/s.
    key
        Where it stands in the file.
    assumed
        What was assumed of its unit, or nothing.
    """

    of: Of
    rate: str
    gb_s: float
    key: str
    assumed: str


def read_bandwidths(path: str | Path) -> tuple[dict[Of, Bandwidth], list[str]]:
    """Return the best rate of each kind in a file, and the keys of all numbers not taken.

    Raises
    ------
    InputError
        If the file is no JSON object, or no number in it is recognised.
    """
    expect("path", path, str, Path, what="a path")
    path = Path(path)
    if not path.is_file():
        raise InputError(f"{path}: there is no such file")
    data = read_object(path)
    unit = next((str(data[key]) for key in ("unit", "units") if key in data), "")
    order = [rate for rate, _ in RATES]
    taken: dict[Of, Bandwidth] = {}
    keys: list[str] = []
    for key, value in _numbers(data, ""):
        if len(keys) == MOST_NUMBERS:
            raise InputError(f"{path}: has more than {MOST_NUMBERS} numbers")
        keys.append(key)
        found = _bandwidth(key, value, unit)
        if found is None:
            continue
        old = taken.get(found.of)
        rank = (order.index(found.rate), -found.gb_s)
        if old is None or rank < (order.index(old.rate), -old.gb_s):
            taken[found.of] = found
    if not taken:
        seen = ", ".join(shortened(key) for key in keys[:8]) or "none"
        raise InputError(
            f"{path}: no bandwidth was recognised: keys must say read, triad, copy or bandwidth,"
            f" as in cpu.read_gb_s, h2d_gb_s, gpu.copy_gb_s (numbers here: {seen})"
        )
    used = {found.key for found in taken.values()}
    return taken, [key for key in keys if key not in used]


def with_bandwidths(machine: Machine, found: Mapping[Of, Bandwidth], file: str) -> Machine:
    """Return a machine with measured rates: `cpu.bandwidth_gb_s`, `pcie_gb_s`, and the GPU's.

    The GPU's `hbm_gb_s` stays its peak: the measurement becomes `gpu.bandwidth_efficiency`. Rates
    of a GPU are left out where the machine has none.
    """
    for of, rate in found.items():
        source = f"{Path(file).name}: {rate.key} = {rate.gb_s:g} GB/s{rate.assumed}"
        changes: dict[str, object] = {}
        if of == "cpu":
            gb_s = _read_gb_s(machine, rate)
            changes = {"cpu.bandwidth_gb_s": gb_s}
            if gb_s != rate.gb_s:
                source += f"; {gb_s:g} are moved, as stored lines are read first"
        elif machine.gpu is not None and of == "pcie":
            changes = {"pcie_gb_s": rate.gb_s}
        elif machine.gpu is not None and rate.gb_s <= machine.gpu.hbm_gb_s:
            share = round(rate.gb_s / machine.gpu.hbm_gb_s, 4)
            changes = {"gpu.bandwidth_efficiency": share}
            source += f" of a peak of {machine.gpu.hbm_gb_s:g}"
        elif machine.gpu is not None:
            changes = {"gpu.hbm_gb_s": rate.gb_s}
        machine = set_machine(machine, changes, source=source)
    return machine


def import_bandwidths(machine: Machine, path: str | Path) -> Machine:
    """Return a machine with the bandwidths that another tool measured.

    Parameters
    ----------
    machine
        What to start from.
    path
        A JSON file with rates of reading, copying or a triad, as STREAM and its like measure them,
        in GB/s unless the key, the value or a key ``unit`` says otherwise.

    Returns
    -------
    Machine
        With `cpu.bandwidth_gb_s`, and where there is a GPU `gpu.bandwidth_efficiency` and
        `pcie_gb_s`; `sources` says which key each came from. Of a triad or an add it is 4/3, if
        the memory's peak allows: what the memory moves, of which STREAM counts three quarters.

    Raises
    ------
    InputError
        If the file cannot be read or nothing in it is recognised.

    Examples
    --------
    >>> import moeopt
    >>> moeopt.save({"host": {"copy": 81.0, "triad": 93.7}, "h2d_gb_s": 26.1}, "bench.json")
    >>> machine = moeopt.get_machine("a100+epyc-9004")
    >>> measured = moeopt.import_bandwidths(machine, "bench.json")
    >>> measured.cpu.bandwidth_gb_s, measured.pcie_gb_s
    (124.9333, 26.1)
    """
    expect("machine", machine, Machine, what="a machine")
    return with_bandwidths(machine, read_bandwidths(path)[0], str(path))


def _read_gb_s(machine: Machine, rate: Bandwidth) -> float:
    """Return what the memory moved while that rate was measured; its peak is the most."""
    moved = rate.gb_s * STORING.get(rate.rate, 1.0)
    peak = machine.dram.striped_gb_s
    return round(moved if moved <= peak else max(rate.gb_s, min(moved, peak)), 4)


def _numbers(data: Any, prefix: str) -> Iterator[tuple[str, float | str]]:
    """Yield every number, or text that begins with one, and its path; lists give their median."""
    if len(prefix) > LONGEST_KEY:
        return
    if isinstance(data, dict):
        for key, value in data.items():
            yield from _numbers(value, f"{prefix}.{key}" if prefix else str(key))
    elif isinstance(data, list) and data and all(_is_number(item) for item in data):
        yield from _numbers(sorted(data)[len(data) // 2], prefix)
    elif isinstance(data, list):
        for row, value in enumerate(data):
            name = value.get("name", value.get("kernel", row)) if isinstance(value, dict) else row
            yield from _numbers(value, f"{prefix}.{name}" if prefix else str(name))
    elif _is_number(data):
        yield prefix, float(data) if abs(data) < LARGEST else math.inf
    elif isinstance(data, str) and re.match(r"\s*\d+(\.\d+)?\s*[a-zA-Z]+(/s|ps)\s*$", data):
        yield prefix, data


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _bandwidth(key: str, value: float | str, unit: str) -> Bandwidth | None:
    low = key.lower().replace("-", "_").replace(" ", "_")
    if ANOTHER.search(low) or BACK.search(low):
        return None
    of: Of = "pcie" if LINK.search(low) else "gpu" if GPU.search(low) else "cpu"
    rate = next((name for name, pattern in RATES if re.search(pattern, low)), None)
    if rate is None and of != "cpu" and _factor(low) is not None:
        rate = "rate"
    if rate is None:
        return None
    if isinstance(value, str):
        unit = value.lower()
        value = float(re.match(r"\s*([\d.]+)", value)[1])  # type: ignore[index]  # it began so
    else:
        unit = low if _factor(low) is not None else unit.lower()
    factor, assumed = _factor(unit), ""
    if factor is None:
        large = value > MOST_GB_S[of]
        factor = 1e-3 if large else 1.0
        assumed = f" (no unit there: taken as {'MB/s' if large else 'GB/s'})"
    gb_s = round(value * factor, 4)
    if not math.isfinite(gb_s) or not 0 < gb_s <= MOST_GB_S[of]:
        return None
    return Bandwidth(of, rate, gb_s, key, assumed)


def _factor(text: str) -> float | None:
    """Return the unit in a key or text as a multiple of GB/s, or None if it names none."""
    for unit, factor in UNITS:
        if re.search(rf"(^|[^a-z]){unit}(_?p?e?r?_?s|/s|ps)(ec|$|[^a-z])", text):
            return factor
    return None
