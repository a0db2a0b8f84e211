"""What a step takes on a machine, part by part: experts, attention, matrices, transfers, reads."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from moeopt.core.errors import InputError
from moeopt.sim.costs.overheads import Overheads, overheads_of
from moeopt.sim.costs.quanta import DEFAULT_QUANTUM_NS, NS_PER_S, Times, to_quanta
from moeopt.sim.machines.cores import NumaMode, cores_of
from moeopt.sim.machines.machine import Kind, LinkRate, Machine
from moeopt.sim.models.model_shape import ModelShape, TensorKind

Seconds = NDArray[np.float64]

Path = Literal[
    "gpu_hit", "gpu_miss_striped", "gpu_miss_localized", "cpu_striped", "cpu_localized", "ndp"
]
"""Where an expert is computed, and where its weights come from."""


@dataclass(frozen=True)
class ExpertCosts:
    """Path costs in ns, one entry per token count asked for; all multiples of the quantum.

    "miss" means that the GPU fetches the weights from the host; "striped" and "localized" say how
    the host copy lies. The two ``dram_*_ns`` are how long a host read keeps a DIMM busy.
    """

    gpu_hit_ns: Times
    gpu_miss_striped_ns: Times
    gpu_miss_localized_ns: Times
    cpu_striped_ns: Times
    cpu_localized_ns: Times
    ndp_ns: Times
    dram_striped_ns: int
    dram_localized_ns: int


@dataclass(frozen=True)
class LayerCosts:
    """Times on the GPU in ns, multiples of the quantum.

    Attributes
    ----------
    attention_ns
        Attention of one layer, with its fixed time.
    shared_ns
        The shared experts of one layer together; 0 without any.
    dense_ns
        The feed-forward part of a layer without experts; 0 if the model has no such layer.
    head_ns
        The matrix to the vocabulary, once per step.
    sync_ns
        Handing a layer's activations from GPU to CPU or back, one way.
    """

    attention_ns: int
    shared_ns: int
    dense_ns: int
    head_ns: int
    sync_ns: int


def step_costs(
    machine: Machine,
    model: ModelShape,
    overheads: Overheads | None = None,
    *,
    numa: NumaMode = "tensor-parallel",
    threads: int | None = None,
) -> "StepCosts":
    """Return the costs of a model on a machine.

    Parameters
    ----------
    overheads
        What computing takes beyond bytes and operations; by default as the machine's file says.
    numa
        How weights lie on several nodes.
    threads
        How many of the CPU's threads compute; by default all cores.
    """
    return StepCosts(machine, model, overheads, numa, threads)


@dataclass(frozen=True)
class StepCosts:
    """Costs of a model's parts on a machine, see `step_costs`.

    Notes
    -----
    Computation is looked up in the machine's time table for the model and device. Without one it is
    a roofline: operations over the rate reached at that many tokens, and on the GPU and the NDP
    units no faster than their memory delivers the weights. Paths are TriMoE's Eq. 1 (hit), Eq. 2
    (miss: the longest of computation, PCIe transfer and DRAM read), Eq. 3 (CPU: the longer of
    computation and DRAM read, plus a fixed time) and Eq. 4 (NDP).
    """

    machine: Machine
    model: ModelShape
    given: Overheads | None = None
    numa: NumaMode = "tensor-parallel"
    threads: int | None = None

    @cached_property
    def overheads(self) -> Overheads:
        """What computing takes beyond bytes and operations."""
        return overheads_of(self.machine, self.numa) if self.given is None else self.given

    def of(self, model: ModelShape) -> "StepCosts":
        """Return the costs of another model, or of the same one with other widths."""
        return replace(self, model=model)

    def experts(self, tokens: ArrayLike, quantum_ns: int = DEFAULT_QUANTUM_NS) -> ExpertCosts:
        """Return the cost of one expert on every path.

        Parameters
        ----------
        tokens
            Token counts, each at least 1.
        quantum_ns
            Every cost is rounded up to a multiple of this, once, here.

        Raises
        ------
        InputError
            If the machine lacks a part that a path needs (`path_ns` asks for one path only), or a
            cost leaves the integers of instances.
        """
        by_path = {f"{path}_ns": self.path_ns(path, tokens, quantum_ns) for path in get_args(Path)}
        reads = {
            f"dram_{layout}_ns": int(to_quanta(self.dram_read_s(layout) * NS_PER_S, quantum_ns))
            for layout in ("striped", "localized")
        }
        return ExpertCosts(**by_path, **reads)  # type: ignore[arg-type]  # mypy joins the kinds

    def path_ns(self, path: Path, tokens: ArrayLike, quantum_ns: int = DEFAULT_QUANTUM_NS) -> Times:
        """Return the cost in ns of one expert on one path, as `experts` does for all.

        A machine without NDP or without a CPU still has the paths that need none.
        """
        if path == "ndp":
            seconds = self.computation_s("ndp", tokens)
        else:
            layout = "localized" if path.endswith("localized") else "striped"
            if path.startswith("cpu"):
                seconds = self.computation_s("cpu", tokens)
                fixed_s = self.overheads.host_expert_us / 1e6
                seconds = np.maximum(seconds, self.cpu_read_s(layout)) + fixed_s
            else:
                seconds = self.computation_s("gpu", tokens)
            if path.startswith("gpu_miss"):
                fetch = max(self.transfer_s(), self.dram_read_s(layout))
                seconds = np.maximum(seconds, fetch)
        return to_quanta(seconds * NS_PER_S, quantum_ns)

    def computation_s(self, kind: Kind, tokens: ArrayLike) -> Seconds:
        """Return the time in s of computing one expert, measured if possible, else by the roofline.

        Parameters
        ----------
        tokens
            Token counts, each at least 1.

        Notes
        -----
        The GPU is as slow as the slower of its matrix units and its memory, plus a fixed time. The
        CPU is as slow as the kernel in use at that many tokens; its reads are `cpu_read_s`. An NDP
        unit is as slow as the slower of its rate and its DIMM.
        """
        count = np.asarray(tokens, dtype=np.int64)
        if count.size and int(count.min()) < 1:
            raise InputError(f"tokens: must be at least 1, not {int(count.min())}")
        machine, model = self.machine, self.model
        device = machine.require(kind)
        measured = self._measured_s((device.id, kind), count)
        if measured is not None:
            return measured
        flops = count * float(model.flops_per_token)
        size = float(model.expert_bytes)
        if kind == "cpu":
            machine.check_threads(self.threads)
            return np.asarray(flops / (cores_of(machine, self.numa).rate_tflops(count) * 1e12))
        if kind == "ndp":
            compute = device.only("ndp")
            rate = compute.rate_tflops(count, model.bits) * 1e12
            reads = size / ((compute.internal_gb_s or 0.0) * 1e9)
            return np.asarray(np.maximum(flops / rate, reads))
        return self._gpu_roofline_s(flops, size, count) + self.overheads.gpu_expert_us / 1e6

    def transfer_s(self, over: LinkRate | None = None) -> float:
        """Return the time in s of moving one expert's weights, measured if possible.

        Parameters
        ----------
        over
            By default the way to the first GPU, of which there may be a measurement.
        """
        if over is not None:
            return over.transfer_s(float(self.model.expert_bytes))
        machine = self.machine
        at = (machine.require("gpu").id, machine.offload[0].id)
        measured = self._measured_s(at, np.array(1))
        if measured is not None:
            return float(measured)
        return machine.pcie.transfer_s(float(self.model.expert_bytes))

    def transfer_ns(self, quantum_ns: int) -> int:
        """Return `transfer_s` in ns, rounded up to the quantum."""
        return int(to_quanta(self.transfer_s() * NS_PER_S, quantum_ns))

    def dram_read_s(self, layout: str) -> float:
        """Return how long reading one expert keeps the DIMMs it lies on busy, in s.

        Parameters
        ----------
        layout
            "striped" over all DIMMs, or "localized" on one.
        """
        return self.dram_s(float(self.model.expert_bytes), layout)

    def dram_s(self, size: float, layout: str = "striped") -> float:
        """Return how long reading so many bytes keeps the DIMMs they lie on busy, in s."""
        return size / (self._dram_gb_s(layout) * 1e9)

    def thread_s(self, weights: int, rows: Times, threads: int, gb_s: float) -> Seconds:
        """Return how long one thread of the first node takes for so many weights, in s.

        The longer of its operations, at a core's share of the node's rate, and of its bytes, at its
        share of `gb_s`, which all threads read together.
        """
        cpu = self.machine.nodes[0].only("cpu")
        rate = cpu.rate_tflops(rows) * 1e12 / (cpu.cores or threads)
        reads = weights * self.model.bits / 8 * threads / (gb_s * 1e9)
        return np.asarray(np.maximum(2.0 * weights * rows / rate, reads))

    def cpu_read_s(self, layout: str) -> float:
        """Return how long the CPU takes to read one expert, in s.

        Striped experts are read by all nodes as `numa` says, localized ones from their DIMM.
        """
        self.machine.require("cpu")
        gb_s = self.overheads.host_gb_s
        if layout != "striped":
            gb_s = self._dram_gb_s(layout) * self.overheads.host_reached
        return float(self.model.expert_bytes) / (gb_s * 1e9)

    def layer(
        self, tokens: int = 1, context: int = 0, quantum_ns: int = DEFAULT_QUANTUM_NS
    ) -> LayerCosts:
        """Return what a layer costs on the GPU besides its routed experts.

        Parameters
        ----------
        tokens
            Tokens in the step, at least 1.
        context
            Tokens in the KV cache of each of them.
        quantum_ns
            Every time is rounded up to a multiple of this.

        Raises
        ------
        InputError
            If the model lacks `attention`, `vocab_size` or, with dense layers,
            `dense_intermediate_size`.

        Notes
        -----
        The model of KTransformers' decode step: the time of a layer's attention is what its weights
        need at a stated fraction of the GPU's bandwidth, plus a fixed time. Assumed, all of it:

        - weights are read once per step, the KV cache once per token; both lie on the GPU;
        - operations of the projections count (at the rate that experts reach with as many tokens),
          those of scores and values do not;
        - router, norms and rotary positions are in the fixed time `layer_us`;
        - shared experts, dense layers and the head are matrices like an expert: they reach the same
          share of the bandwidth and have the same fixed time each.

        With 0.44, 0.8 and 100 us on the A100 this gives the 0.64 ms per layer that the utilizations
        in KTransformers 4.2 imply for DeepSeek-V3.
        """
        for name, value, least in (("tokens", tokens, 1), ("context", context, 0)):
            if value < least:
                raise InputError(f"{name}: must be at least {least}, not {value}")
        seconds = (
            self.attention_s(tokens, context),
            self.shared_s(tokens),
            self.dense_s(tokens),
            self.head_s(tokens),
            self.overheads.sync_us / 1e6,
        )
        return LayerCosts(*to_quanta(np.array(seconds) * NS_PER_S, quantum_ns).tolist())

    def step_ns(self, quantum_ns: int = DEFAULT_QUANTUM_NS) -> int:
        """Return the fixed time of a step, rounded up to the quantum."""
        self.machine.require("gpu")
        return int(to_quanta(self.overheads.step_us * 1e3, quantum_ns))

    def attention_s(self, tokens: int = 1, context: int = 0) -> float:
        """Return the time in s of one layer's attention; assumptions as in `layer`."""
        model = self.model
        gpu = self.machine.require("gpu").only("gpu")
        weights = model.attention_weights
        size, rate = model.bytes_of("attention", weights), float(gpu.rate_tflops(tokens)) * 1e12
        scores = 0.0
        if self.overheads.cache_gb_s:
            cached = tokens * model.cache_bytes(context) / model.layers
            scores = cached / (self.overheads.cache_gb_s * 1e9)
        else:
            size += tokens * model.kv_bytes(context)
        bandwidth = self.overheads.attention_gb_s * 1e9
        busy = max(size / bandwidth, 2.0 * weights * tokens / rate)
        return self.overheads.layer_us / 1e6 + busy + scores

    def scores_s(self, tokens: int, context: int) -> float:
        """Return the time in s of a layer's scores and values, where they hide behind no read."""
        attention = self.model.attention
        if attention is None:
            return 0.0
        rate = float(self.machine.require("gpu").only("gpu").rate_tflops(tokens)) * 1e12
        return 2.0 * tokens * attention.products(context) / rate

    def shared_s(self, tokens: int = 1) -> float:
        """Return the time in s of one layer's shared experts; assumptions as in `layer`."""
        return self._matrices_s("shared", self.model.shared_weights, tokens)

    def dense_s(self, tokens: int = 1) -> float:
        """Return the time in s of the feed-forward part of a layer without experts."""
        dense = self.model.dense_weights
        return self._matrices_s("dense", dense if self.model.dense_layers else 0, tokens)

    def head_s(self, tokens: int = 1) -> float:
        """Return the time in s of the matrix to the vocabulary."""
        model = self.model
        if model.vocab_size is None:
            raise InputError(f"model {model.name}: vocab_size: is missing")
        return self._matrices_s("head", model.vocab_size * model.hidden_size, tokens)

    def _matrices_s(self, kind: TensorKind, weights: int, tokens: int) -> float:
        if not weights:
            return 0.0
        size = float(self.model.bytes_of(kind, weights))
        busy = float(self._gpu_roofline_s(2.0 * weights * tokens, size, tokens))
        return self.overheads.gpu_expert_us / 1e6 + busy

    def _gpu_roofline_s(self, flops: ArrayLike, size: float, tokens: ArrayLike) -> Seconds:
        """Return the time in s of operations on `size` bytes of weights in the GPU's memory."""
        rate = self.machine.require("gpu").only("gpu").rate_tflops(tokens) * 1e12
        bandwidth = self.overheads.gpu_gb_s * 1e9
        return np.asarray(np.maximum(np.asarray(flops) / rate, size / bandwidth))

    def _dram_gb_s(self, layout: str) -> float:
        offload = self.machine.offload
        if layout == "striped":
            return sum(d.memory.gb_s * (d.memory.reached or 1.0) for d in offload)
        memory = offload[0].memory
        gb_s = None if memory.dimms is None else memory.dimms.one_gb_s
        if gb_s is None:
            raise InputError(
                f"machine {self.machine.name}: dram.one_gb_s: is missing; a read of one DIMM is"
                " asked for"
            )
        return gb_s * (memory.reached or 1.0)

    def _measured_s(self, at: tuple[str, str], count: Times) -> Seconds | None:
        """Return what the machine's time table says, if it has one for these weights."""
        model = self.model
        own = 8.0 * model.bytes_per_weight
        widths: Sequence[float | None] = (None, own) if model.bits == own else (model.bits,)
        threads = self.threads if at[1] == "cpu" else None
        for bits in widths:
            table = self.machine.measured(model.name, at, bits, threads)
            if table is not None:
                return table(count) / NS_PER_S
        return None
