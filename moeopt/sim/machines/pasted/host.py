"""The host in pasted text: lscpu or /proc/cpuinfo, dmidecode, numactl, system_profiler."""

import re

from moeopt.core.units import GIB
from moeopt.sim.machines.system import Probe, cpu_facts, memory_bytes, memory_facts

from .facts import MOST_DEVICES, Fact, clean


def of_lscpu(text: str) -> list[Fact]:
    """Return the CPU of ``lscpu``, also ``lscpu -J``, or ``/proc/cpuinfo``."""
    if '"lscpu"' in text:
        pairs = re.findall(r'"field":\s{0,9}"([^"]{1,100})",\s{0,99}"data":\s{0,9}"([^"]*)"', text)
        text = "\n".join(f"{name.rstrip(':')}: {value}" for name, value in pairs)
    by_lscpu = re.search(r"^\s*Model name:", text, re.MULTILINE)
    by_proc = re.search(r"^model name\s*:", text, re.MULTILINE)
    if not by_lscpu and not by_proc:
        return []
    seen = text if by_lscpu else None
    found = cpu_facts(Probe(lambda _: text, lambda _: seen))
    if found is None:
        return []
    said = found.source
    return [
        Fact("cpu.name", clean(found.name), "", f"{said}: model name"),
        Fact("cpu.sockets", found.sockets, "", f"{said}: sockets"),
        Fact("cpu.cores", found.cores, "cores", f"{said}: {found.counted} of all sockets"),
        Fact("cpu.kernel", found.kernel, "", f"{said}: flags"),
    ]


def of_dmidecode(text: str) -> list[Fact]:
    """Return the DIMMs of ``dmidecode -t memory``."""
    if "Memory Device" not in text:
        return []
    found = memory_facts(Probe(lambda _: None, lambda _: text))
    sizes = re.findall(r"^\s*Size: (\d{1,9}) ([MGT])i?B", text, re.MULTILINE)
    gib = sum(int(size) * {"M": 1 / 1024, "G": 1, "T": 1024}[unit] for size, unit in sizes)
    facts = []
    if found is not None:
        facts = [
            Fact("dram.dimms", found.dimms, "", "dmidecode: devices with a size"),
            Fact("dram.channels", found.channels, "", found.channels_source),
            Fact("dram.speed_mt_s", found.speed_mt_s, "MT/s", "dmidecode: configured speed"),
        ]
    if gib:
        facts.append(Fact("dram.capacity_gib", gib, "GiB", "dmidecode: sizes together"))
    return facts


def of_numactl(text: str) -> list[Fact]:
    """Return the memory nodes of ``numactl -H``."""
    sizes = re.findall(r"^node (\d{1,3}) size: (\d{1,12}) MB", text, re.MULTILINE)[:MOST_DEVICES]
    cpus = dict(re.findall(r"^node (\d{1,3}) cpus:([ \d]*)$", text, re.MULTILINE)[:MOST_DEVICES])
    sizes = [(node, int(mib)) for node, mib in sizes if int(mib)]
    if not sizes:
        return []
    facts = [Fact("dram.nodes", len(sizes), "", "numactl: nodes with memory")]
    for node, mib in sizes:
        gib = round(mib / 1024, 2)
        facts.append(Fact(f"node{node}.capacity_gib", gib, "GiB", f"numactl: node {node} size"))
        if count := len(cpus.get(node, "").split()):
            facts.append(Fact(f"node{node}.cpus", count, "", f"numactl: node {node} cpus"))
    total = round(sum(mib for _, mib in sizes) / 1024, 2)
    return [*facts, Fact("dram.capacity_gib", total, "GiB", "numactl: sizes together")]


def of_meminfo(text: str) -> list[Fact]:
    """Return the memory of ``/proc/meminfo``."""
    found = memory_bytes(Probe({"/proc/meminfo": text}.get, lambda _: None))
    if found is None:
        return []
    return [Fact("dram.capacity_gib", round(found[0] / GIB, 2), "GiB", found[1])]


def of_system_profiler(text: str) -> list[Fact]:
    """Return the chip of ``system_profiler SPHardwareDataType``."""
    chip = re.search(r"^\s*Chip: (Apple .{1,40})$", text, re.MULTILINE)
    if chip is None:
        return []
    facts = [Fact("chip.name", clean(chip[1]), "", "system_profiler: Chip")]
    cores = re.search(r"Total Number of Cores: (\d{1,3})(?: \((\d{1,3}) [Pp]erformance)?", text)
    if cores is not None:
        said = "system_profiler: performance cores" if cores[2] else "system_profiler: cores"
        facts.append(Fact("cpu.cores", int(cores[2] or cores[1]), "cores", said))
    memory = re.search(r"^\s*Memory: (\d{1,5}) GB", text, re.MULTILINE)
    if memory is not None:
        facts.append(Fact("dram.capacity_gib", int(memory[1]), "GiB", "system_profiler: Memory"))
    return facts
