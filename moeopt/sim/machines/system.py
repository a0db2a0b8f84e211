"""What the operating system and the vendors' tools say of this machine; every answer may be absent.

Each reader takes a `Probe`, so that it can be tried on text from other machines.
"""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from moeopt.core.units import GIB

LONGEST_ANSWER_S = 20
MOST_BYTES = 4 * 2**20
"""Most that is read of a file or a command's output."""

LANE_GB_S = {1: 0.25, 2: 0.5, 3: 8 * 128 / 130 / 8, 4: 16 * 128 / 130 / 8, 5: 32 * 128 / 130 / 8}
"""PCIe generation -> GB/s of one lane, one direction (PCI-SIG: GT/s and line code)."""


@dataclass(frozen=True)
class Probe:
    """Where answers come from.

    Attributes
    ----------
    read
        Returns a file's text, or None.
    run
        Returns what a command prints, or None if it is not there, not allowed or fails.
    """

    read: Callable[[str], str | None]
    run: Callable[[Sequence[str]], str | None]


def this_system() -> Probe:
    """Return the machine that this runs on."""
    return Probe(_read, _run)


@dataclass(frozen=True)
class CpuFacts:
    """A CPU.

    Attributes
    ----------
    cores, counted
        Of all sockets, and what is counted: physical cores, or of a CPU with cores of two kinds the
        fast ones, which runtimes use.
    source
        Where this was read.
    """

    name: str
    sockets: int
    cores: int
    counted: str
    kernel: str
    cache_bytes: int
    virtual: bool
    source: str


def cpu_facts(system: Probe) -> CpuFacts | None:
    """Return what lscpu says, or else /proc/cpuinfo."""
    text, source, counted = system.run(["lscpu"]), "lscpu", "physical cores"
    if text:
        lines = dict(_pairs(text))
        sockets = _whole(lines.get("Socket(s)", "")) or 1
        cores = (_whole(lines.get("Core(s) per socket", "")) or 0) * sockets
        logical = _whole(lines.get("CPU(s)", "")) or 0
        if lines.get("Thread(s) per core") == "2" and cores < logical < 2 * cores:
            cores, counted = logical - cores, "performance cores, those with two threads"
    else:
        text, source = system.read("/proc/cpuinfo"), "/proc/cpuinfo"
        if not text:
            return None
        lines = dict(reversed(list(_pairs(text))))
        lines["Model name"] = lines.get("model name", lines.get("Processor", ""))
        lines["Flags"] = lines.get("flags", lines.get("Features", ""))
        sockets = len(set(re.findall(r"^physical id\s*:\s*(\d+)", text, re.MULTILINE))) or 1
        cores = (_whole(lines.get("cpu cores", "")) or 0) * sockets
    cores = cores or _whole(lines.get("CPU(s)", "")) or text.count("processor\t") or 1
    cache = _size(lines.get("L3 cache", lines.get("L3", "")))
    return CpuFacts(
        name=lines.get("Model name") or lines.get("Vendor ID") or "unknown CPU",
        sockets=sockets,
        cores=cores,
        counted=counted,
        kernel=_kernel(lines.get("Flags", "").lower().split()),
        cache_bytes=cache,
        virtual="Hypervisor vendor" in lines,
        source=source,
    )


def _kernel(flags: Sequence[str]) -> str:
    ways = {"amx_tile": "AMX", "avx512f": "AVX-512", "avx2": "AVX2", "sve": "SVE", "asimd": "NEON"}
    return next((name for flag, name in ways.items() if flag in flags), "main")


@dataclass(frozen=True)
class MemoryFacts:
    """DIMMs that are plugged in: how many, on how many channels, how fast."""

    dimms: int
    channels: int
    speed_mt_s: float
    channels_source: str


def memory_facts(system: Probe) -> MemoryFacts | None:
    """Return what dmidecode says, which only root may ask; None if it tells no speed."""
    text = system.run(["dmidecode", "-t", "memory"])
    if not text:
        return None
    places, speeds = [], []
    for block in text.split("Memory Device\n")[1:]:
        lines = dict(_pairs(block.split("\n\n")[0]))
        if not re.match(r"\d+ [MGT]i?B", lines.get("Size", "")):
            continue  # an empty slot
        speed = lines.get("Configured Memory Speed", lines.get("Configured Clock Speed", ""))
        speeds.append(_whole(speed) or _whole(lines.get("Speed", "")) or 0)
        places.append(f"{lines.get('Bank Locator', '')} {lines.get('Locator', '')}")
    if not places or not min(speeds):
        return None
    found = [_channel(place) for place in places]
    if all(found):
        source = "dmidecode: different channels in the locators"
        return MemoryFacts(len(places), len(set(found)), float(min(speeds)), source)
    source = "assumed: one DIMM per channel; dmidecode's locators name no channels"
    return MemoryFacts(len(places), len(places), float(min(speeds)), source)


def _channel(place: str) -> str:
    """Return the socket and channel in a DIMM's locators, or nothing."""
    place = place.upper()
    channel = re.search(r"CH(?:ANNEL)?[ _]?([A-P]|\d{1,2})\b|DIMM[ _]?([A-P])\d", place)
    channel = channel or re.search(r"CH(?:ANNEL)?[ _]?([A-P]|\d{1,2})(?=[-_ ]|DIMM)", place)
    if channel is None:
        return ""
    socket = re.search(r"(?:\bP|CPU|NODE|PROC|SOCKET)[ _]?(\d)", place)
    return f"{socket[1] if socket else 0}/{next(name for name in channel.groups() if name)}"


def memory_bytes(system: Probe) -> tuple[int, str] | None:
    """Return how much memory there is for us, and where that stands."""
    total = re.search(r"^MemTotal:\s*(\d+) kB", system.read("/proc/meminfo") or "", re.MULTILINE)
    if total is None:
        return None
    size, source = int(total[1]) * 1024, "/proc/meminfo: MemTotal"
    limit = (system.read("/sys/fs/cgroup/memory.max") or "").strip()
    if limit.isdigit() and int(limit) < size:
        return int(limit), "limit of this control group: /sys/fs/cgroup/memory.max"
    return size, source


def free_bytes(system: Probe) -> int:
    """Return how much memory is free for a measurement; 256 MiB if nobody says."""
    text = system.read("/proc/meminfo") or ""
    free = re.search(r"^MemAvailable:\s*(\d+) kB", text, re.MULTILINE)
    size = int(free[1]) * 1024 if free else 256 * 2**20
    limit = memory_bytes(system)
    used = (system.read("/sys/fs/cgroup/memory.current") or "").strip()
    if limit and "cgroup" in limit[1] and used.isdigit():
        size = min(size, max(limit[0] - int(used), 0))
    return size


@dataclass(frozen=True)
class GpuFacts:
    """A GPU, one of `count` there, alike or not; `pcie_gb_s` is its link at full speed."""

    name: str
    memory_gib: float
    count: int
    pcie_gb_s: float | None
    pcie_source: str
    source: str


NVIDIA = "name,memory.total,pcie.link.gen.max,pcie.link.width.max"

COLUMNS = (
    ("name", "gpu_name"),
    ("memory.total", "memory.total [mib]"),
    ("pcie.link.gen.max", "pcie.link.gen.gpumax"),
    ("pcie.link.width.max",),
)
"""The same as heads of ``nvidia-smi --format=csv``, with and without units."""


class Card(NamedTuple):
    """A GPU as nvidia-smi prints it: what it does not say is no number."""

    name: str
    mib: str = ""
    generation: str = ""
    width: str = ""

    @property
    def memory_gib(self) -> float:
        """Its memory, 0 where that is not said."""
        return round((_whole(self.mib) or 0) / 1024, 2)

    @property
    def link_gb_s(self) -> float | None:
        """One direction of its link at full speed."""
        lane, lanes = LANE_GB_S.get(_whole(self.generation) or 0), _whole(self.width) or 0
        return round(lane * lanes, 2) if lane and 1 <= lanes <= 32 else None

    @property
    def link_said(self) -> str:
        """Its link in words."""
        return f"PCIe {self.generation} x{self.width}, at most"


def nvidia_rows(text: str) -> Iterator[Card]:
    """Yield the GPUs of ``nvidia-smi --query-gpu``; without heads, name and memory come first."""
    heads: list[str] = []
    for line in text.splitlines():
        row = [cell.strip(' "') for cell in line.split(",")] if len(line) < 1000 else []
        low = [cell.lower() for cell in row]
        if any(name in low for name in COLUMNS[0]) and any("." in cell for cell in low):
            heads = low
        elif heads and len(row) == len(heads):
            places = (
                next((heads.index(n) for n in names if n in heads), None) for names in COLUMNS
            )
            card = Card(*("" if place is None else row[place] for place in places))
            if card.name:
                yield card
        elif len(row) > 1 and re.fullmatch(r"(NVIDIA|Tesla|Quadro|GeForce) .{1,80}", row[0]):
            yield Card(*row) if len(row) == 4 else Card(row[0], row[1])


def gpu_facts(system: Probe) -> GpuFacts | None:
    """Return what nvidia-smi says, or else rocm-smi; None without either."""
    return next(iter(nvidia_gpus(system)), None) or _amd(system)


def nvidia_gpus(system: Probe) -> list[GpuFacts]:
    """Return every GPU that nvidia-smi lists."""
    text = system.run(["nvidia-smi", f"--query-gpu={NVIDIA}", "--format=csv"])
    cards = [card for card in nvidia_rows(text or "") if card.memory_gib]
    return [
        GpuFacts(
            name=card.name,
            memory_gib=card.memory_gib,
            count=len(cards),
            pcie_gb_s=card.link_gb_s,
            pcie_source=f"nvidia-smi: {card.link_said}",
            source="nvidia-smi",
        )
        for card in cards
    ]


def peers(system: Probe, count: int) -> list[tuple[int, int]]:
    """Return the pairs of GPUs that read each other's memory, by nvidia-smi."""
    text = system.run(["nvidia-smi", "topo", "-p2p", "r"]) or ""
    found = []
    for line in text.splitlines():
        cells = line.split()
        if len(cells) > count and re.fullmatch(r"GPU\d{1,2}", cells[0]) and cells[1] != "GPU1":
            first = int(cells[0][3:])
            states = enumerate(cells[1 : count + 1])
            found += [(first, other) for other, state in states if state == "OK" and other > first]
    return found


def memory_nodes(system: Probe) -> list[tuple[str, int, float]]:
    """Return the NUMA nodes with memory and cores: name, logical CPUs, GiB."""
    found = []
    for number in range(64):
        folder = f"/sys/devices/system/node/node{number}"
        size = re.search(r"MemTotal:\s*(\d{1,15}) kB", system.read(f"{folder}/meminfo") or "")
        spans = re.findall(r"(\d{1,6})(?:-(\d{1,6}))?", system.read(f"{folder}/cpulist") or "")
        cpus = sum(int(last or first) - int(first) + 1 for first, last in spans)
        if size and int(size[1]) and cpus > 0:
            found.append((f"numa{number}", cpus, round(int(size[1]) / 2**20, 2)))
    return found


def _amd(system: Probe) -> GpuFacts | None:
    text = system.run(["rocm-smi", "--showproductname", "--showmeminfo", "vram", "--json"])
    try:
        cards = json.loads(text or "{}")
    except ValueError:
        return None
    cards = cards.values() if isinstance(cards, dict) else []
    cards = [card for card in cards if isinstance(card, dict)]
    for card in cards:
        low = {str(key).lower(): str(value) for key, value in card.items()}
        size = next((v for k, v in low.items() if "vram total memory" in k), "")
        names = (v for k, v in low.items() if k in ("card series", "card model", "device name"))
        if _whole(size):
            gib = round((_whole(size) or 0) / GIB, 2)
            name = next(names, "AMD GPU")
            return GpuFacts(name, gib, len(cards), None, "", "rocm-smi")
    return None


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if colon:
            yield key.strip(), "".join(c for c in value.strip()[:4000] if c.isprintable())


def _whole(text: str) -> int | None:
    found = re.match(r"\s*(\d{1,18})", text)
    return int(found[1]) if found else None


def _size(text: str) -> int:
    found = re.match(r"([\d.]{1,12}) ?([KMG])i?B?", text)
    powers = {"K": 10, "M": 20, "G": 30}
    return int(float(found[1]) * 2 ** powers[found[2]]) if found else 0


def _read(path: str) -> str | None:
    try:
        with Path(path).open("rb") as file:
            return file.read(MOST_BYTES).decode(errors="replace")
    except OSError:
        return None


def _run(command: Sequence[str]) -> str | None:
    program = shutil.which(command[0], path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if program is None:
        return None
    try:
        done = subprocess.run(  # noqa: S603  # fixed commands, no shell
            [program, *command[1:]],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=LONGEST_ANSWER_S,
            env={**os.environ, "LC_ALL": "C"},
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout[:MOST_BYTES].decode(errors="replace") if done.returncode == 0 else None
