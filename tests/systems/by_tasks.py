"""Layers executed task by task: what the clock computes with sums, by starting one after the other.

Each resource serves its tasks in the order in which they are handed to it; a task starts when its
resource is free and what it waits for has ended.
"""

from dataclasses import dataclass, field

from tests.rooms.systems import PCIE, Begin


@dataclass
class Item:
    """An expert on the GPU: computing, and the upload before it (0: the weights are there)."""

    compute: int
    upload: int = 0
    ready: int = 0


@dataclass
class Layer:
    """What a layer asks for; lists over DIMMs have a length for each, 0 for nothing."""

    begin: Begin
    items: list[Item]
    upload_reads: list[int]
    cpu_reads: list[int]
    later_reads: list[int]
    units: list[int]
    shared: int = 0
    on_cpu: bool = False
    cpu: int = 0
    cpu_later: int = 0
    to_host: int = 0
    to_gpu: int = 0
    units_delay: int = 0
    moves: list[tuple[str, int]] = field(default_factory=list)
    copies: list[int] = field(default_factory=list)
    early: bool = False


class Tasks:
    """Resources by name, and when each is free; how long it has been busy."""

    def __init__(self) -> None:
        self.free: dict[str, int] = {}
        self.busy: dict[str, int] = {}

    def run(self, resource: str, after: int, length: int) -> int:
        """Return when a task ends."""
        end = max(self.free.get(resource, 0), after) + length
        self.free[resource] = end
        self.busy[resource] = self.busy.get(resource, 0) + length
        return end


def execute(layers: list[Layer], dimms: int) -> tuple[list[int], list[list[int]], dict[str, int]]:
    """Return when each layer ends, when its copies end, and how long each resource is busy."""
    tasks, now, late = Tasks(), 0, 0
    ends, copied = [], []
    for layer in layers:
        routed = now + layer.begin.attention_ns
        tasks.busy["gpu"] = tasks.busy.get("gpu", 0) + layer.begin.attention_ns
        if layer.begin.kv_ns:
            routed = max(routed, tasks.run(PCIE, now, layer.begin.kv_ns))
            for dimm in range(dimms):
                tasks.run(f"dimm {dimm}", now, layer.begin.kv_read_ns)
        go = routed
        for link, length in layer.moves:
            go = max(go, tasks.run(link, now, length))
        due = [go]
        # The GPU: shared experts as soon as it knows them, then item by item.
        tasks.free["gpu"] = routed
        tasks.run("gpu", routed, layer.shared)
        for item in layer.items:
            there = item.ready
            if item.upload:
                there = tasks.run(PCIE, 0 if layer.early else go, item.upload)
            due.append(tasks.run("gpu", max(there, go), item.compute))
        due.append(tasks.free["gpu"])
        # The DIMMs serve uploads, then the CPU, then their own units.
        outside = go + layer.to_host
        for dimm in range(dimms):
            name = f"dimm {dimm}"
            if layer.upload_reads[dimm]:
                due.append(tasks.run(name, go, layer.upload_reads[dimm]))
            if layer.cpu_reads[dimm]:
                due.append(tasks.run(name, outside, layer.cpu_reads[dimm]))
            if layer.units[dimm]:
                end = tasks.run(name, outside, layer.units[dimm])
                due.append(end + layer.to_gpu + layer.units_delay)
        gate = 0
        if layer.on_cpu:
            due.append(tasks.run("cpu", outside, layer.cpu) + layer.to_gpu)
            if layer.cpu_later or any(layer.later_reads):
                gate = tasks.run("cpu", outside, layer.cpu_later) + layer.to_gpu
                for dimm in range(dimms):
                    if layer.later_reads[dimm]:
                        end = tasks.run(f"dimm {dimm}", outside, layer.later_reads[dimm])
                        gate = max(gate, end)
        now, late = max(*due, late), gate
        ends.append(now)
        copied.append([tasks.run(PCIE, go, length) for length in layer.copies])
    return ends, copied, tasks.busy
