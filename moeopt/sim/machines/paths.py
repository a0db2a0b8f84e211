"""Paths to fields of a machine: `devices.numa0.memory.gb_s`, and short ones such as `dram.gb_s`.

A short name means the same field of every such device: `gpu.*` of every GPU and its memory, `cpu.*`
of every CPU, `ndp.*`, `dram.*` of the memory in which offloaded experts lie and its DIMMs, `pcie.*`
of the links between GPUs and that memory, `socket.*` of the links between nodes.
"""

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

from moeopt.core.json_files import JsonObject
from moeopt.sim.machines.machine import (
    OF_KINDS,
    Compute,
    Dimms,
    KernelRate,
    Kind,
    LinkRate,
    Machine,
    Memory,
)

SHORT = ("gpu", "cpu", "ndp", "dram", "pcie", "socket")

TRIAD, TRIAD_READS = "dram.triad_gb_s", 4 / 3
"""What STREAM's Triad says of the whole host, and how much more reads alone reach.

Triad counts two reads and a write, but what is written is read first: four transfers for three."""

RENAMED = {
    "gpu.hbm_gb": "gpu.capacity_gib",
    "gpu.hbm_gb_s": "gpu.gb_s",
    "gpu.utilization": "gpu.tflops",
    "gpu.bandwidth_efficiency": "gpu.reached",
    "gpu.attention_bandwidth_efficiency": "gpu.attention_reached",
    "gpu.layer_fixed_us": "gpu.layer_us",
    "gpu.step_fixed_us": "gpu.step_us",
    "cpu.threads": "cpu.cores",
    "cpu.bandwidth_gb_s": "dram.measured_gb_s",
    "cpu.bandwidth_efficiency": "cpu.reached",
    "cpu.kernel": "cpu.kernels",
    "cpu.numa.local_gb_s": "dram.measured_gb_s",
    "cpu.numa.cross_socket_gb_s": "socket.gb_s",
    "dram.capacity_gb": "dram.capacity_gib",
    "dram.dimms": "dram.count",
    "dram.striped_gb_s": "dram.gb_s",
    "dram.localized_gb_s": "dram.one_gb_s",
    "dram.efficiency": "dram.reached",
    "ndp.gflops": "ndp.tflops",
    "ndp.gflops_bits": "ndp.rate_bits",
    "pcie_gb_s": "pcie.gb_s",
    "pcie_latency_us": "pcie.latency_us",
    "links.dimm_link.gb_s": "dram.link.gb_s",
}
"""What fields were called in the first form of the file, for the message that says their names."""


def short_fields(kind: str) -> dict[str, tuple[type[BaseModel], str]]:
    """Return what may follow a short name: field -> class that has it, and its path in a device.

    `tflops` is the curve of the main kernel.
    """
    found: dict[str, tuple[type[BaseModel], str]] = {}
    if kind in ("gpu", "cpu", "ndp"):
        for name in Compute.model_fields:
            if name != "kind" and kind in OF_KINDS.get(name, (kind,)):
                found[name] = (Compute, f"{kind}.{name}")
        found["tflops"] = (KernelRate, f"{kind}.tflops")
    if kind in ("gpu", "dram"):
        for name in Memory.model_fields:
            if name != "dimms" and not (kind == "dram" and name == "attention_reached"):
                found[name] = (Memory, f"memory.{name}")
    if kind == "dram":
        for name in Dimms.model_fields:
            found[name] = (Dimms, f"memory.dimms.{name}")
        for name in LinkRate.model_fields:
            found[f"link.{name}"] = (LinkRate, f"memory.dimms.link.{name}")
    if kind in ("pcie", "socket"):
        for name in LinkRate.model_fields:
            found[name] = (LinkRate, name)
    return found


def full_paths(machine: Machine, path: str) -> list[str]:
    """Return the full paths of a path; none where the machine has no such field.

    `TRIAD` leads to the fields that follow it.
    """
    if path == TRIAD:
        path = "dram.measured_gb_s"
    short, _, rest = path.partition(".")
    if short not in SHORT:
        return [path] if _exists(machine, path) else []
    if rest not in short_fields(short):
        return []
    below = short_fields(short)[rest][1]
    if short in ("pcie", "socket"):
        return [f"links.{name}.{rest}" for name in _links(machine, short)]
    devices = machine.offload if short == "dram" else machine.having(_kind(short))
    return [f"devices.{device.id}.{below}" for device in devices]


def _kind(short: str) -> Kind:
    kinds: dict[str, Kind] = {"gpu": "gpu", "cpu": "cpu", "ndp": "ndp"}
    return kinds[short]


def _links(machine: Machine, short: str) -> Iterator[str]:
    gpus = {device.id for device in machine.gpus}
    for link in machine.links:
        between = sum(end in gpus for end in link.ends)
        if between == (1 if short == "pcie" else 0):
            yield "-".join(link.ends)


def _exists(machine: Machine, path: str) -> bool:
    """Return whether a full path leads to a field that the machine has or may have."""
    top, _, rest = path.partition(".")
    name, _, below = rest.partition(".")
    if top == "links":
        ends = {"-".join(link.ends) for link in machine.links}
        return name in ends and below in LinkRate.model_fields
    if top != "devices":
        return path in ("name", "sync_us")
    device = next((one for one in machine.devices if one.id == name), None)
    if device is None:
        return False
    kinds = {compute.kind for compute in device.computes}
    every = {to for kind in ("dram", "gpu", *kinds) for _, to in short_fields(kind).values()}
    part = below.partition(".")[0]
    return below in every and (part == "memory" or part in kinds)


def place(data: JsonObject, path: str) -> tuple[JsonObject, str]:
    """Return the object in a machine's JSON data that a full path leads to, and the last key."""
    parts = path.split(".")
    if parts[0] == "devices":
        device = next(d for d in data["devices"] if d["id"] == parts[1])
        if parts[2] == "memory":
            at = device["memory"]
            for part in parts[3:-1]:
                at = at.setdefault(part, {})
            return at, parts[-1]
        compute = next(c for c in device["computes"] if c["kind"] == parts[2])
        return (compute["kernels"][-1] if parts[3] == "tflops" else compute), parts[3]
    if parts[0] == "links":
        link = next(one for one in data["links"] if "-".join(one["ends"]) == parts[1])
        return link, parts[2]
    return data, path


def named(data: JsonObject, path: str) -> str:
    """Return a path with row numbers as one with names: ``devices[1].computes[0].cores``."""
    words = path.replace("[", ".[").split(".")
    found: list[str] = []
    at: Any = data
    for word in words:
        try:
            at = at[int(word[1:-1])] if word.startswith("[") else at[word]
        except (KeyError, IndexError, TypeError, ValueError):
            at = None
        if word.startswith("[") and isinstance(at, dict):
            if "id" in at:
                word = str(at["id"])
            elif "kind" in at and found[-1:] == ["computes"]:
                found.pop()
                word = str(at["kind"])
            elif "ends" in at:
                word = "-".join(map(str, at["ends"]))
        found.append(word)
    return ".".join(found).replace(".[", "[")
