"""The host's cores as one: what several NUMA nodes read and compute together."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from moeopt.sim.machines.machine import Device, Machine

NumaMode = Literal[
    "interleaved",
    "tensor-parallel",
    "first-touch",
    "nodes",
    "mirrored",
    "isolate",
    "one-computes",
]
"""How weights lie on several nodes, and who computes.

- interleaved: spread evenly, and every node reads evenly from all, one after the other: a program
  that knows nothing of nodes (KTransformers 2.3).
- tensor-parallel: each node holds its slice of every expert and reads locally (KTransformers 3.3).
- first-touch: pages lie with the thread that wrote them, which reads them again.
- nodes: each layer's experts lie on one node, whose cores compute them.
- mirrored: every node holds a copy of everything.
- isolate: one node alone, its cores and its memory.
- one-computes: spread evenly, but one node's cores compute, as on Windows, where a process has one
  group of 64 threads.
"""


@dataclass(frozen=True)
class Cores:
    """Cores that compute an expert together, all of them or one node's.

    Attributes
    ----------
    nodes
        Whose cores compute.
    local_gb_s
        What they read together of their own memories.
    read_gb_s
        What they read together of weights as the mode places them.
    capacity_gib
        What weights may take, None where it is not stated.
    threads
        How many compute, None where the machine does not state its cores.
    share
        `threads` over all cores of these nodes.
    """

    nodes: tuple[Device, ...]
    local_gb_s: float
    read_gb_s: float
    capacity_gib: float | None
    threads: int | None
    share: float

    def rate_tflops(self, tokens: ArrayLike) -> NDArray[np.float64]:
        """Return the rate of all of them at each token count."""
        rates = [node.only("cpu").rate_tflops(tokens) for node in self.nodes]
        total = rates[0] if len(rates) == 1 else np.sum(rates, axis=0)
        return np.asarray(total if self.share == 1.0 else total * self.share)


def cores_of(machine: Machine, numa: NumaMode, threads: int | None = None) -> Cores:
    """Return the host's cores as one.

    Parameters
    ----------
    numa
        How weights lie; without a second node it makes no difference. Of "nodes" this is all nodes
        together, as if every layer were spread by their rates.
    threads
        How many compute; by default all cores.

    Raises
    ------
    InputError
        If the machine has no CPU.
    """
    machine.require("cpu")
    every = machine.nodes
    used = every[:1] if numa in ("isolate", "one-computes") else every
    local = [node_gb_s(node) for node in used]
    sizes = [node.memory.capacity_gib for node in (every if numa != "isolate" else used)]
    known = [size for size in sizes if size is not None]
    capacity = None if len(known) < len(sizes) else float(sum(known))
    if numa == "mirrored" and capacity is not None:
        capacity = min(known)
    counts = [node.only("cpu").cores for node in used]
    cores = None if None in counts else sum(count or 0 for count in counts)
    share = 1.0 if threads is None or cores is None else threads / cores
    read = sum(local)
    if numa in ("interleaved", "one-computes") and len(every) > 1:
        read = sum(_spread_gb_s(machine, node) for node in used)
    return Cores(used, sum(local), read, capacity, cores if threads is None else threads, share)


def node_gb_s(node: Device) -> float:
    """Return what a node's cores read of its memory, in GB/s."""
    most = node.only("cpu").most_gb_s
    return node.memory.read_gb_s if most is None else min(most, node.memory.read_gb_s)


def _spread_gb_s(machine: Machine, reader: Device) -> float:
    """Return what a node's cores read of weights spread evenly over all, one after the other."""
    seconds = 0.0
    for node in machine.nodes:
        link = None if node is reader else machine.between(reader.id, node.id)
        rate = node_gb_s(node)  # of another node without a stated link: as if there were no way
        if link is not None:
            rate = min(rate, link.gb_s)
        seconds += 1.0 / (len(machine.nodes) * rate)
    return 1.0 / seconds
