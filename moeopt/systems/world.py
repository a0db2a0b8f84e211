"""What a system runs on: machine, model, requests, memory for experts, and costs as tables."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from moeopt.core.errors import InputError
from moeopt.core.units import GIB
from moeopt.problems.tri_domain.layout_rule import STRIPED
from moeopt.sim.costs.quanta import NS_PER_S, to_quanta
from moeopt.sim.costs.sockets import (
    READ_AS,
    Sockets,
    by_socket_ns,
    check_sockets,
    combined_s,
)
from moeopt.sim.costs.step import StepCosts, step_costs
from moeopt.sim.machines.machine import Machine
from moeopt.sim.models.model_shape import ModelShape

from .cost_table import CostTable, cost_table

Ints = NDArray[np.int64]
KvPlace = Literal["gpu", "host"]
"""Where the KV cache lies."""

LARGEST_CHUNK = 32_768
"""Most tokens of prompts that go through the layers together."""

DEFAULT_SHARE = 8
"""Without `gpu_expert_gib`, the GPU holds one in so many experts, if its memory has room."""


@dataclass(frozen=True)
class World:
    """Machine, model and requests that every system of a comparison gets alike.

    Attributes
    ----------
    costs
        What the model's parts take on the machine.
    batch, prompt, output
        Requests decoded together, and the tokens of each request's prompt and reply.
    layers
        Layers with experts that are executed, the first ones.
    slots
        Experts that the GPU's memory holds, over all layers.
    kv
        Where the KV cache lies.
    ubatch
        Tokens of prompts that a system processes together unless its paper says otherwise.
    widths
        Bits of the experts' weights, a row of the cost tables each; the model's own alone if empty.
    sockets
        How experts lie over the CPU's sockets, and who computes them.
    quantum_ns
        All times are multiples of this.
    """

    costs: StepCosts
    batch: int
    prompt: int
    output: int
    layers: int
    slots: int
    kv: KvPlace = "gpu"
    ubatch: int = 512
    widths: tuple[float, ...] = ()
    sockets: Sockets = "tensor-parallel"
    quantum_ns: int = 5000
    cache: dict[object, object] = field(default_factory=dict, repr=False, compare=False)

    @property
    def machine(self) -> Machine:
        """The machine."""
        return self.costs.machine

    @property
    def model(self) -> ModelShape:
        """The model."""
        return self.costs.model

    @property
    def experts(self) -> int:
        """Routed experts of a layer."""
        return self.model.routed_experts

    @property
    def dimms(self) -> int:
        """DIMMs that experts lie on, or units that compute on them."""
        return self.machine.dimm_count

    @property
    def slots_per_layer(self) -> int:
        """Experts of each layer in the GPU's memory where all layers have as many."""
        return min(self.experts, self.slots // self.layers)

    def at_widths(self, widths: tuple[float, ...]) -> "World":
        """Return the same with other widths of the experts."""
        return replace(self, widths=widths, cache={})

    def on_host(self, sockets: Sockets, kernels: float) -> "World":
        """Return the same with the CPU as a system uses it.

        Parameters
        ----------
        kernels
            Share of the rate of the machine's CPU kernels that the system's own reach.

        Raises
        ------
        InputError
            If the machine's nodes do not allow the mode.
        """
        check_sockets(self.machine, sockets)
        if (sockets, kernels) == (self.sockets, 1.0):
            return self
        machine = self.machine
        if kernels != 1.0:
            nodes = [node.only("cpu").scaled(kernels) for node in machine.nodes]
            machine = machine.with_devices(
                *(
                    node.with_part("cpu", kernels=cpu.kernels)
                    for node, cpu in zip(machine.nodes, nodes, strict=True)
                )
            )
        costs = step_costs(machine, self.model, numa=READ_AS[sockets])
        return replace(self, costs=costs, sockets=sockets, cache={})

    def cpu_ns(self, expert: Ints, lengths_ns: Ints, tokens: int) -> int:
        """Return what the CPU takes for experts of a layer, one after the other.

        Parameters
        ----------
        expert, lengths_ns
            Numbers, and what all sockets together take for each; shape (n,).
        tokens
            Tokens whose outputs are put together in the end.
        """
        total = int(lengths_ns.sum())
        if self.sockets == "expert-parallel":
            nodes = len(self.machine.nodes)
            total = int(by_socket_ns(lengths_ns, expert, self.experts, nodes).max())
        return total + self.combined_ns(tokens)

    def combined_ns(self, tokens: int) -> int:
        """Return what putting together the sockets' outputs takes."""
        return self.to_ns(combined_s(self.machine, self.model, tokens, self.sockets))

    def cpu_reads_ns(self, expert: Ints, dimm: Ints, read_ns: Ints) -> Ints:
        """Return how long each DIMM is busy with the CPU's reads of experts."""
        if self.sockets != "expert-parallel":
            return at_dimms(dimm, read_ns, self.dimms)
        nodes = len(self.machine.nodes)
        busy = by_socket_ns(read_ns, expert, self.experts, nodes)
        return np.repeat(busy, self.dimms // nodes)

    @cached_property
    def table(self) -> CostTable:
        """Costs of an expert up to the tokens of a decode step."""
        return cost_table(self.costs, max(self.batch, 1), self.widths, self.quantum_ns)

    @cached_property
    def prompt_table(self) -> CostTable:
        """Costs of an expert up to the tokens of a chunk of prompts."""
        most = max(1, min(self.batch * self.prompt, LARGEST_CHUNK))
        return cost_table(self.costs, most, self.widths, self.quantum_ns)

    def to_ns(self, seconds: float) -> int:
        """Return a time rounded up to the quantum."""
        return int(to_quanta(seconds * NS_PER_S, self.quantum_ns))

    def attention_ns(self, tokens: int, context: int, *, prompt: bool = False) -> int:
        """Return what a layer's attention takes on the GPU, the KV cache in its memory.

        In a prompt the operations of scores and values count as well; in decoding they hide behind
        the reads.
        """
        if not prompt:
            return self.to_ns(self.costs.attention_s(tokens, context))
        return self.to_ns(self.costs.attention_s(tokens, 0) + self.costs.scores_s(tokens, context))

    def kv_ns(self, requests: int, context: int) -> int:
        """Return how long PCIe is busy with a layer's KV cache where it lies on the host."""
        if self.kv == "gpu":
            return 0
        size = float(requests * self.model.kv_bytes(context))
        return self.to_ns(self.machine.pcie.transfer_s(size))

    def kv_read_ns(self, requests: int, context: int) -> int:
        """Return how long every DIMM is busy with a layer's KV cache where it lies on the host."""
        if self.kv == "gpu":
            return 0
        size = float(requests * self.model.kv_bytes(context))
        return self.to_ns(self.costs.dram_s(size))

    def shared_ns(self, tokens: int) -> int:
        """Return what a layer's shared experts take on the GPU."""
        return self.to_ns(self.costs.shared_s(tokens))

    @cached_property
    def sync_ns(self) -> int:
        """Handing a layer's activations from GPU to CPU or back, one way."""
        return self.to_ns(self.costs.overheads.sync_us / 1e6)

    def outside_ns(self, tokens: int, context: int) -> int:
        """Return what a step takes besides the executed layers, on the GPU.

        Layers without experts, the head, and the step's fixed time.
        """
        model = self.model
        if model.vocab_size is None:
            raise InputError(f"model {model.name}: vocab_size: is missing")
        layer = self.costs.layer(tokens, context, self.quantum_ns)
        dense = model.layers - len(model.moe_layers)
        fixed = self.costs.step_ns(self.quantum_ns)
        return dense * (layer.attention_ns + layer.dense_ns) + layer.head_ns + fixed


def slots_of(machine: Machine, model: ModelShape, layers: int, gib: float | None) -> int:
    """Return how many experts lie in the GPU's memory.

    Parameters
    ----------
    gib
        Memory for experts; by default that of one in `DEFAULT_SHARE`, at most what the GPU has
        beside the other weights.

    Raises
    ------
    InputError
        If the GPU's memory is smaller than what is asked for.
    """
    room = machine.require("gpu").memory.capacity_gib
    every = layers * model.routed_experts
    free = None if room is None else room * GIB - model.resident_bytes
    if gib is None:
        fits = every if free is None else max(0, int(free // model.expert_bytes))
        return min(every // DEFAULT_SHARE, fits)
    if free is not None and gib * GIB > free:
        raise InputError(
            f"must be at most {max(free, 0) / GIB:.2f}, what {machine.name} has beside the other"
            f" weights of {model.name}, not {gib:g}",
            field="gpu_expert_gib",
        )
    return min(every, int(gib * GIB // model.expert_bytes))


def at_dimms(dimm: Ints, length_ns: Ints, dimms: int) -> Ints:
    """Return the summed lengths at each DIMM; a striped expert loads every one."""
    total = np.zeros(dimms, dtype=np.int64)
    striped = dimm == STRIPED
    total += int(length_ns[striped].sum())
    np.add.at(total, dimm[~striped], length_ns[~striped])
    return total
