"""What a system runs on: machine, model, requests, memory for experts, and costs as tables."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from moeopt.core.errors import InputError
from moeopt.core.units import GIB
from moeopt.sim.costs.quanta import NS_PER_S, to_quanta
from moeopt.sim.costs.step import StepCosts
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
        seconds = self.costs.attention_s(tokens, 0)
        attention = self.model.attention
        if attention is not None:
            gpu = self.machine.require("gpu").only("gpu")
            rate = float(gpu.rate_tflops(tokens)) * 1e12
            seconds += 2.0 * tokens * attention.products(context) / rate
        return self.to_ns(seconds)

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
        rate = sum(device.memory.gb_s for device in self.machine.offload)
        return self.to_ns(size / (rate * 1e9))

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
