"""The machine that this runs on; nothing is asked, and every number has its source."""

import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import NoneType

from moeopt.core.cores import available_cores
from moeopt.core.errors import InputError, expect
from moeopt.core.json_files import JsonObject
from moeopt.core.units import GIB
from moeopt.sim.machines import profile as measuring
from moeopt.sim.machines.edit import channel_rates, with_changes
from moeopt.sim.machines.machine import Machine
from moeopt.sim.machines.system import (
    CpuFacts,
    System,
    cpu_facts,
    free_bytes,
    gpu_facts,
    memory_bytes,
    memory_facts,
    memory_nodes,
    nvidia_gpus,
    peers,
    this_system,
)
from moeopt.sim.presets import parts

FLAT = 0.6
"""Utilization of a GPU's matrix units where nobody knows, as in the presets."""


@dataclass
class _Draft:
    """A machine in the making: JSON data and the source of each number."""

    data: JsonObject = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)

    def put(self, path: str, value: object, source: str) -> None:
        *parents, last = path.split(".")
        at = self.data
        for parent in parents:
            at = at.setdefault(parent, {})
        at[last] = value
        self.sources[path] = source


def detect_machine(
    *,
    name: str = "",
    measure: bool = True,
    changes: Mapping[str, object] | None = None,
    system: System | None = None,
) -> Machine:
    """Return the machine that this runs on.

    From lscpu, /proc, dmidecode (where allowed), nvidia-smi or rocm-smi, vendor data of the parts
    that are known (``moeopt list gpus``, ``moeopt list hosts``), and measurements: reading memory
    with all threads, and matrix products, copies and reads with torch where it is installed.

    Parameters
    ----------
    name
        Name of the machine; by default the host's.
    measure
        Whether to measure, which takes about 2 s, 5 s with a GPU, and at most 1 GiB of memory.
    changes
        Fields to set besides, as in `set_machine`: what cannot be found out here.
    system
        What to ask; by default this one. Measurements are always of this one.

    Returns
    -------
    Machine
        With the source of every number; without `gpu` and `pcie_gb_s` where there is no GPU, which
        `sources` says.

    Raises
    ------
    InputError
        If a field cannot be found out: all of them are listed, with where to find them.

    Examples
    --------
    >>> import moeopt
    >>> given = {"dram.striped_gb_s": 83.2, "cpu.tflops": 1.2}
    >>> machine = moeopt.detect_machine(measure=False, changes=given)
    >>> machine.dram.striped_gb_s, machine.sources["dram.striped_gb_s"]
    (83.2, 'given by the user (moeopt machine detect --set)')
    """
    expect("system", system, System, NoneType, what="a System")
    expect("name", name, str, what="a name")
    expect("changes", changes, Mapping, NoneType, what="a mapping from field paths to values")
    expect("measure", measure, bool, what="True or False")
    asked = this_system() if system is None else system
    draft = _Draft()
    called = name or socket.gethostname() or "this machine"
    draft.put("name", called, "given" if name else "name of this host")
    cpu = cpu_facts(asked)
    if cpu is not None:
        _describe_cpu(draft, cpu, measure)
    _describe_memory(draft, cpu, asked, measure)
    _describe_gpu(draft, asked, measure)
    _describe_several(draft, cpu, asked)
    data = draft.data | {"sources": draft.sources}
    by = "given by the user (moeopt machine detect --set)"
    try:
        return with_changes(data, changes or {}, source=by, where="machine detect")
    except InputError as error:
        reason = f"{error.reason}; what cannot be found out is given with --set"
        parts_of = {"field": error.field, "suggestion": error.suggestion}
        raise InputError(reason, where=error.where, **parts_of) from None


def _describe_cpu(draft: _Draft, cpu: CpuFacts, measure: bool) -> None:
    where = f"{cpu.source}{' of a virtual machine' if cpu.virtual else ''}"
    name = cpu.name if cpu.sockets == 1 else f"{cpu.sockets} x {cpu.name}"
    draft.put("cpu.name", name, where)
    draft.put("cpu.kernel", cpu.kernel, f"{where}: flags")
    draft.put("cpu.threads", cpu.cores, f"{where}: physical cores")
    part = parts.host_called(cpu.name)
    if measure:
        rate = measuring.cpu_tflops()
        draft.put("cpu.tflops", _flat(rate.value), f"{rate.source}; flat: reads are counted apart")
    elif part is not None:
        like = parts.host_part(part)
        share = cpu.cores / (like.cpu.threads or cpu.cores)
        curve = like.cpu.tflops.model_dump(mode="json")
        curve["points"] = [[tokens, rate * share] for tokens, rate in curve["points"]]
        draft.put("cpu.tflops", curve, f"not measured: part {part}, scaled by cores")


def _describe_memory(draft: _Draft, cpu: CpuFacts | None, system: System, measure: bool) -> None:
    memory = memory_facts(system)
    part = parts.host_called(cpu.name) if cpu is not None else None
    if memory is not None:
        draft.put("dram.dimms", memory.dimms, "dmidecode: devices with a size")
        draft.put("dram.channels", memory.channels, memory.channels_source)
        draft.put("dram.speed_mt_s", memory.speed_mt_s, "dmidecode: configured memory speed")
    elif part is not None and cpu is not None and not cpu.virtual:
        like = parts.host_part(part)
        sockets = cpu.sockets
        why = f"dmidecode is not there or not allowed; part {part}"
        for key in ("dimms", "channels"):
            count = getattr(like.dram, key) * sockets
            draft.put(f"dram.{key}", count, f"assumed ({why}): all channels filled")
        draft.put("dram.speed_mt_s", like.dram.speed_mt_s, f"assumed ({why}): the vendor's fastest")
    else:
        why = "dmidecode is not there, not allowed or tells no speed"
        draft.put("dram.dimms", 1, f"assumed: taken as one memory; {why}")
    dram = draft.data["dram"]
    for name, gb_s, said in channel_rates(dram):
        draft.put(f"dram.{name}", gb_s, said)
    if (size := memory_bytes(system)) is not None:
        draft.put("dram.capacity_gb", round(size[0] / GIB, 2), size[1])
    if not measure or cpu is None:
        return
    threads = available_cores()
    cache = 0 if cpu.virtual else cpu.cache_bytes
    rate = measuring.read_bandwidth(threads, free_bytes(system), cache)
    draft.put("cpu.bandwidth_gb_s", rate.value, rate.source)
    if dram.get("striped_gb_s", 0.0) < rate.value:  # no peak is known, or it cannot be right
        why = "a peak below it was found" if "striped_gb_s" in dram else "the peak is not known"
        draft.put("dram.striped_gb_s", rate.value, f"{rate.source}; {why}")


def _describe_gpu(draft: _Draft, system: System, measure: bool) -> None:
    gpu = gpu_facts(system)
    rates = measuring.gpu_rates() if measure else None
    if gpu is None and rates is None:
        draft.sources["gpu"] = (
            "none found (nvidia-smi, rocm-smi, torch): the CPU computes alone, without a link to"
            " a GPU"
        )
        return
    said = gpu.source if gpu is not None else "torch"
    name = gpu.name if gpu is not None else rates.name if rates is not None else ""
    memory = gpu.memory_gib if gpu is not None else rates.memory_gib if rates is not None else 0
    among = f": the first of {gpu.count}" if gpu is not None and gpu.count > 1 else ""
    draft.put("gpu.name", name, said + among)
    draft.put("gpu.hbm_gb", memory, said)
    part = parts.gpu_called(name, memory)
    if part is not None:
        like = parts.gpu_part(part)
        for key in ("peak_tflops", "hbm_gb_s"):
            draft.put(f"gpu.{key}", getattr(like.gpu, key), like.sources[f"gpu.{key}"])
    draft.put("gpu.utilization", _flat(FLAT), "assumed: flat, as in the presets")
    if gpu is not None and gpu.pcie_gb_s:
        draft.put("pcie_gb_s", gpu.pcie_gb_s, gpu.pcie_source)
    elif part is not None:
        like = parts.gpu_part(part)
        draft.put("pcie_gb_s", like.pcie_gb_s, like.sources["pcie_gb_s"])
    if rates is not None:
        _add_gpu_rates(draft, rates, known=part is not None)


def _describe_several(draft: _Draft, cpu: CpuFacts | None, system: System) -> None:
    """Add all GPUs and their links where there are several, and the memory nodes."""
    found = nvidia_gpus(system)
    first = draft.data.get("gpu")
    if first is None or not {"peak_tflops", "hbm_gb_s"} <= set(first):
        found = []  # what is not known of the first is asked for as `gpu`
    if len(found) > 1 and first is not None:
        gpus = []
        for one in found:
            gpu = {**first, "name": one.name, "hbm_gb": one.memory_gib}
            part = parts.gpu_called(one.name, one.memory_gib)
            if one.name != first["name"] and part is not None:
                like = parts.gpu_part(part).gpu
                gpu |= {"peak_tflops": like.peak_tflops, "hbm_gb_s": like.hbm_gb_s}
            gpus.append(gpu)
        del draft.data["gpu"]
        draft.put("gpus", gpus, "nvidia-smi; rates of those like the first are the first one's")
    nodes = memory_nodes(system)
    rate = draft.data.get("cpu", {}).get("bandwidth_gb_s")
    if rate is None:
        rate = draft.data.get("dram", {}).get("striped_gb_s")
    if len(nodes) > 1 and cpu is not None and rate is not None:
        logical = sum(cpus for _, cpus, _ in nodes)
        entries = [
            {
                "name": name,
                "cores": max(1, cpu.cores * cpus // logical),
                "bandwidth_gb_s": round(float(rate) / len(nodes), 2),
                "capacity_gb": held,
            }
            for name, cpus, held in nodes
        ]
        said = "/sys/devices/system/node; its share of the rate of all threads together"
        draft.put("nodes", entries, said)
    if len(found) > 1 and first is not None:
        ends = [name for name, _, _ in nodes] if len(nodes) > 1 else ["host"]
        links: list[dict[str, object]] = [
            {"from": f"gpu{number}", "to": end, "gb_s": one.pcie_gb_s}
            for number, one in enumerate(found)
            for end in ends
            if one.pcie_gb_s is not None
        ]
        for i, j in peers(system, len(found)):
            gb_s = min(found[i].pcie_gb_s or 0.0, found[j].pcie_gb_s or 0.0)
            if gb_s:
                links.append({"from": f"gpu{i}", "to": f"gpu{j}", "gb_s": gb_s})
        if links:
            draft.put("links", links, "nvidia-smi: link widths; topo -p2p: peer access")


def _add_gpu_rates(draft: _Draft, rates: measuring.GpuRates, *, known: bool) -> None:
    """Add measured rates: as fractions of the vendor's peaks, or as they are for an unknown GPU."""
    gpu = draft.data["gpu"]
    fractions = (
        ("peak_tflops", "utilization", rates.tflops, "TFLOPS"),
        ("hbm_gb_s", "bandwidth_efficiency", rates.read_gb_s, "GB/s"),
    )
    for peak, fraction, rate, unit in fractions:
        if not known or rate.value > gpu[peak]:
            draft.put(f"gpu.{peak}", rate.value, f"{rate.source}; the vendor's peak is not known")
        share = round(rate.value / gpu[peak], 4)
        source = f"{rate.source}: {rate.value:g} {unit} of {gpu[peak]:g}"
        draft.put(f"gpu.{fraction}", _flat(share) if fraction == "utilization" else share, source)
    draft.put("pcie_gb_s", rates.from_host_gb_s.value, rates.from_host_gb_s.source)


def _flat(value: object) -> dict[str, object]:
    return {"scale": "linear", "points": [[1, value]]}
