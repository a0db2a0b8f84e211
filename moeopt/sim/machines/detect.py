"""The machine that this runs on; nothing is asked, and every number has its source."""

import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import NoneType

from pydantic import ValidationError

from moeopt.core.cores import available_cores
from moeopt.core.errors import InputError, expect
from moeopt.core.json_files import JsonObject
from moeopt.core.units import GIB
from moeopt.core.wording import input_error
from moeopt.sim.machines import profile as measuring
from moeopt.sim.machines.edit import changed_machine, channel_rates
from moeopt.sim.machines.fields import fields_of
from moeopt.sim.machines.machine import Machine
from moeopt.sim.machines.system import (
    CpuFacts,
    GpuFacts,
    Probe,
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


UNKNOWN = 1.0
"""Stands where a number is not known until it is given, which is asked for then."""


@dataclass
class _Draft:
    """A machine in the making: its devices as JSON data, and the source of each number."""

    devices: dict[str, JsonObject] = field(default_factory=dict)
    links: list[JsonObject] = field(default_factory=list)
    sources: dict[str, str] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)

    def device(self, name: str, kind: str) -> JsonObject:
        """Return a device, made anew where there is none, with something of a kind."""
        new = {"id": name, "memory": {}, "computes": [{"kind": kind}]}
        return self.devices.setdefault(name, new)

    def put(self, name: str, path: str, value: object, source: str) -> None:
        """Put a value at a path below a device: ``memory.gb_s``, ``cpu.cores``."""
        part, _, rest = path.partition(".")
        device = self.devices[name]
        at = device["memory"] if part == "memory" else device["computes"][0]
        *parents, last = rest.split(".")
        for parent in parents:
            at = at.setdefault(parent, {})
        at[last] = value
        self.sources[f"devices.{name}.{path}"] = source

    def rate(self, name: str, path: str, tflops: object, source: str) -> None:
        """Put the rate of the main kernel, one number for a flat one."""
        if not isinstance(tflops, dict):
            tflops = {"scale": "linear", "points": [[1, tflops]]}
        called = self.devices[name]["computes"][0].pop("kernel", "main")
        kernels = [{"name": called, "tflops": tflops}]
        self.put(name, f"{path}.kernels", kernels, source)

    def ask(self, name: str, path: str) -> None:
        """Leave a required number open."""
        self.missing.append(f"devices.{name}.{path}")
        if path.endswith(".tflops"):
            self.rate(name, path.removesuffix(".tflops"), UNKNOWN, "")
        else:
            self.put(name, path, UNKNOWN, "")

    def link(self, ends: tuple[str, str], kind: str, gb_s: float | None, source: str) -> None:
        """Add a link; one whose rate is None is asked for."""
        path = f"links.{'-'.join(ends)}.gb_s"
        if gb_s is None:
            self.missing.append(path)
        self.links.append({"ends": list(ends), "kind": kind, "gb_s": gb_s or UNKNOWN})
        self.sources[path] = source

    def machine(self, changes: Mapping[str, object], by: str) -> Machine:
        """Return the machine once changes are made; what is still open is listed."""
        data = {"schema_version": 2, "name": self.sources.pop("called")}
        devices = sorted(self.devices.values(), key=lambda one: not one["id"].startswith("gpu"))
        data |= {"devices": devices, "links": self.links}
        try:
            made = Machine.model_validate(data | {"sources": self.sources})
        except ValidationError as error:
            raise input_error(error, model=Machine) from None
        changed = changed_machine(made, changes, source=by)
        if left := [path for path in self.missing if path not in changed.values]:
            said = [f"{path}: is missing{_what(path)}" for path in left]
            path, _, reason = "; ".join(said).partition(": ")
            raise InputError(reason, where="machine detect", field=path)
        return changed.machine


def detect_machine(
    *,
    name: str = "",
    measure: bool = True,
    changes: Mapping[str, object] | None = None,
    system: Probe | None = None,
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
        Source of the facts; by default the system at hand, which is the one that is measured in any
        case.

    Returns
    -------
    Machine
        With the source of every number. Where there is no GPU, `sources` says how that was found.

    Raises
    ------
    InputError
        If a field cannot be found out: all of them are listed, with where to find them.

    Examples
    --------
    >>> import moeopt
    >>> given = {"dram.gb_s": 83.2, "cpu.tflops": 1.2}
    >>> machine = moeopt.detect_machine(measure=False, changes=given)
    >>> node = machine.nodes[0]
    >>> node.memory.gb_s, machine.sources[f"devices.{node.id}.memory.gb_s"]
    (83.2, 'given by the user (moeopt machine detect --set)')
    """
    expect("system", system, Probe, NoneType, what="a Probe")
    expect("name", name, str, what="a name")
    expect("changes", changes, Mapping, NoneType, what="a mapping from field paths to values")
    expect("measure", measure, bool, what="True or False")
    asked = this_system() if system is None else system
    draft = _Draft()
    draft.sources["called"] = name or socket.gethostname() or "this machine"
    draft.sources["name"] = "given" if name else "name of this host"
    cpu = cpu_facts(asked)
    nodes = memory_nodes(asked)
    if len(nodes) < 2 or cpu is None:
        nodes = [("numa0", 1, 0.0)]
    total = sum(cpus for _, cpus, _ in nodes)
    for node, cpus, gib in nodes:
        draft.device(node, "cpu")
        _describe_cpu(draft, node, cpu, cpus / total, measure)
        _describe_memory(draft, node, cpu, asked, gib, len(nodes))
    if measure and cpu is not None:
        _measure_memory(draft, [node for node, _, _ in nodes], cpu, asked)
    for node, _, _ in nodes:
        if "gb_s" not in draft.devices[node]["memory"]:
            draft.ask(node, "memory.gb_s")
    _describe_gpus(draft, asked, measure, [node for node, _, _ in nodes])
    by = "given by the user (moeopt machine detect --set)"
    try:
        return draft.machine(changes or {}, by)
    except InputError as error:
        reason = f"{error.reason}; what cannot be found out is given with --set"
        parts_of = {"field": error.field, "suggestion": error.suggestion}
        raise InputError(reason, where="machine detect", **parts_of) from None


def _what(path: str) -> str:
    """Return what a field is and where to find it, in brackets."""
    last = path.rpartition(".")[2]
    inner = {"tflops": "devices[].computes[].kernels[].tflops"}
    below = ("links[].", "devices[].memory.", "devices[].computes[].")
    top = below[0] if path.startswith("links") else below[1 if ".memory." in path else 2]
    facts = fields_of(Machine)[inner.get(last, f"{top}{last}")]
    find = f"; {facts.find}" if facts.find else ""
    return f" ({facts.hint}{find})"


def _describe_cpu(
    draft: _Draft, node: str, cpu: CpuFacts | None, share: float, measure: bool
) -> None:
    if cpu is None:
        draft.put(node, "cpu.name", "unknown", "neither lscpu nor /proc/cpuinfo names it")
        draft.ask(node, "cpu.tflops")
        return
    where = f"{cpu.source}{' of a virtual machine' if cpu.virtual else ''}"
    name = cpu.name if cpu.sockets == 1 or share < 1 else f"{cpu.sockets} x {cpu.name}"
    draft.put(node, "cpu.name", name, where)
    draft.devices[node]["computes"][0]["kernel"] = cpu.kernel
    cores = max(1, int(cpu.cores * share))
    draft.put(node, "cpu.cores", cores, f"{where}: {cpu.counted}")
    part = parts.host_called(cpu.name)
    if measure:
        rate = measuring.cpu_tflops()
        said = f"{rate.source}; flat: reads are counted apart"
        draft.rate(node, "cpu", rate.value * share, said)
    elif part is not None:
        like = parts.host_part(part).cpu
        curve = like.kernels[-1].tflops.scaled(cores / (like.cores or cores))
        said = f"not measured: part {part}, scaled by cores"
        draft.rate(node, "cpu", curve.model_dump(mode="json"), said)
    else:
        draft.ask(node, "cpu.tflops")


def _describe_memory(
    draft: _Draft, node: str, cpu: CpuFacts | None, system: Probe, gib: float, nodes: int
) -> None:
    """Describe a node's memory: an equal share of the DIMMs, and what it holds."""
    memory = memory_facts(system)
    part = parts.host_called(cpu.name) if cpu is not None else None
    dimms = "memory.dimms"
    if memory is not None:
        source = "dmidecode: devices with a size"
        draft.put(node, f"{dimms}.count", max(1, memory.dimms // nodes), source)
        channels = max(1, memory.channels // nodes)
        draft.put(node, f"{dimms}.channels", channels, memory.channels_source)
        source = "dmidecode: configured memory speed"
        draft.put(node, f"{dimms}.speed_mt_s", memory.speed_mt_s, source)
    elif part is not None and cpu is not None and not cpu.virtual:
        like = parts.host_part(part).memory.dimms
        assert like is not None  # noqa: S101
        why = f"dmidecode is not there or not allowed; part {part}"
        for key in ("count", "channels"):
            count = max(1, getattr(like, key) * cpu.sockets // nodes)
            draft.put(node, f"{dimms}.{key}", count, f"assumed ({why}): all channels filled")
        source = f"assumed ({why}): the vendor's fastest"
        draft.put(node, f"{dimms}.speed_mt_s", like.speed_mt_s, source)
    else:
        why = "dmidecode is not there, not allowed or tells no speed"
        draft.put(node, f"{dimms}.count", 1, f"assumed: taken as one memory; {why}")
    for name, gb_s, said in channel_rates(draft.devices[node]["memory"]["dimms"]):
        draft.put(node, f"memory.{name}", gb_s, said)
    if gib:
        draft.put(node, "memory.capacity_gib", gib, "/sys/devices/system/node: MemTotal")
    elif (size := memory_bytes(system)) is not None:
        draft.put(node, "memory.capacity_gib", round(size[0] / GIB, 2), size[1])


def _measure_memory(draft: _Draft, nodes: list[str], cpu: CpuFacts, system: Probe) -> None:
    """Measure what all cores read together: each node has its share."""
    threads = available_cores()
    cache = 0 if cpu.virtual else cpu.cache_bytes
    rate = measuring.read_bandwidth(threads, free_bytes(system), cache)
    each = rate.value if len(nodes) == 1 else round(rate.value / len(nodes), 2)
    share = "" if len(nodes) == 1 else f"; 1 of {len(nodes)} equal shares"
    for node in nodes:
        draft.put(node, "memory.measured_gb_s", each, f"{rate.source}{share}")
        peak = draft.devices[node]["memory"].get("gb_s")
        if peak is None or peak < each:  # no peak is known, or it cannot be right
            why = "the peak is not known" if peak is None else "a peak below it was found"
            draft.put(node, "memory.gb_s", each, f"{rate.source}{share}; {why}")


def _describe_gpus(draft: _Draft, system: Probe, measure: bool, nodes: list[str]) -> None:
    """Describe all GPUs and their links to every node; rates are measured of the first."""
    first = gpu_facts(system)
    rates = measuring.gpu_rates() if measure else None
    if first is None and rates is None:
        draft.sources["devices"] = (
            "no GPU was found (nvidia-smi, rocm-smi, torch): the CPU computes alone, without a link"
            " to a GPU"
        )
        return
    found: list[GpuFacts | None] = [*nvidia_gpus(system)]
    found = found or [first] * (1 if first is None else first.count)
    for number, facts in enumerate(found):
        like_first = facts is None or found[0] is None or facts.name == found[0].name
        own = rates if number == 0 or like_first else None
        _describe_gpu(draft, f"gpu{number}", facts, own, nodes)
    slowest = min((one.pcie_gb_s or 0.0 for one in found if one is not None), default=0.0)
    for i, j in peers(system, len(found)) if slowest else ():
        ends = (f"gpu{i}", f"gpu{j}")
        pair = [one.pcie_gb_s or 0.0 for one in (found[i], found[j]) if one is not None]
        said = "nvidia-smi: topo -p2p says that they read each other's memory; the slower width"
        draft.link(ends, "pcie", min(pair), said)


def _describe_gpu(
    draft: _Draft,
    name: str,
    facts: GpuFacts | None,
    rates: measuring.GpuRates | None,
    nodes: list[str],
) -> None:
    said = facts.source if facts is not None else "torch"
    called = facts.name if facts is not None else rates.name if rates is not None else ""
    memory = facts.memory_gib if facts is not None else rates.memory_gib if rates is not None else 0
    draft.device(name, "gpu")
    draft.put(name, "gpu.name", called, said)
    draft.put(name, "memory.capacity_gib", memory, said)
    part = parts.gpu_called(called, memory)
    like = None if part is None else parts.gpu_part(part)
    known: dict[str, float | None] = {"gpu.peak_tflops": None, "memory.gb_s": None}
    if like is not None:
        known = {"gpu.peak_tflops": like.gpu.peak_tflops, "memory.gb_s": like.memory.gb_s}
        for path in ("gpu.vector_tflops", "gpu.clock_ghz"):
            value = getattr(like.gpu, path.partition(".")[2])
            draft.put(name, path, value, like.sources[path])
    measured = {}
    if rates is not None:
        measured = {"gpu.peak_tflops": rates.tflops, "memory.gb_s": rates.read_gb_s}
    for path, value in known.items():
        rate = measured.get(path)
        if rate is not None and (value is None or rate.value > value):
            draft.put(name, path, rate.value, f"{rate.source}; the vendor's peak is not known")
        elif value is None:
            draft.ask(name, path)
        else:
            assert like is not None  # noqa: S101
            draft.put(name, path, value, like.sources[path])
    peaks = draft.devices[name]
    peak, gb_s = peaks["computes"][0]["peak_tflops"], peaks["memory"]["gb_s"]
    if rates is None:
        draft.rate(name, "gpu", FLAT * peak, f"assumed: flat at {FLAT:g} of the peak")
    else:
        rate = rates.tflops
        draft.rate(name, "gpu", rate.value, f"{rate.source}: {rate.value:g} TFLOPS of {peak:g}")
        share, rate = round(rates.read_gb_s.value / gb_s, 4), rates.read_gb_s
        draft.put(name, "memory.reached", share, f"{rate.source}: {rate.value:g} GB/s of {gb_s:g}")
    link, source = None, ""
    if rates is not None:
        link, source = rates.from_host_gb_s.value, rates.from_host_gb_s.source
    elif facts is not None and facts.pcie_gb_s:
        link, source = facts.pcie_gb_s, facts.pcie_source
    elif like is not None:
        link, source = like.pcie_gb_s, like.sources["pcie_gb_s"]
    for node in nodes:
        draft.link((name, node), "pcie", link, source)
