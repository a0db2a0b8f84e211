"""What an expert costs on each path of a machine, by tokens (TriMoE Eq. 1-4)."""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from moeopt.core.envelope import MAX_NUMBER
from moeopt.core.errors import InputError
from moeopt.sim.machines.cores import NumaMode, cores_of
from moeopt.sim.machines.curve import TimeTable
from moeopt.sim.machines.machine import Device, Kind, LinkRate, Machine
from moeopt.sim.models.model_shape import ModelShape

NS_PER_S = 1e9
DEFAULT_QUANTUM_NS = 5000

Times = NDArray[np.int64]
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


def expert_costs(
    machine: Machine,
    model: ModelShape,
    tokens: ArrayLike,
    quantum_ns: int = DEFAULT_QUANTUM_NS,
    *,
    numa: NumaMode = "tensor-parallel",
) -> ExpertCosts:
    """Return the cost of one expert of `model` on every path of `machine`.

    Parameters
    ----------
    machine, model
        Rates and sizes.
    tokens
        Token counts, each at least 1.
    quantum_ns
        Every cost is rounded up to a multiple of this, once, here.
    numa
        How weights lie on several nodes.

    Raises
    ------
    InputError
        If the machine lacks a part that a path needs (`path_cost` asks for one path only), or a
        cost leaves the integers of instances.

    Notes
    -----
    Computation is looked up in the machine's time table for the model and device. Without one it is
    a roofline: operations over the rate reached at that many tokens, and on the GPU and the NDP
    units no faster than their memory delivers the weights. Then Eq. 1 (hit), Eq. 2
    (miss: the longest of computation, PCIe transfer and DRAM read), Eq. 3 (CPU: the longer of
    computation and DRAM read, plus `cpu.kernel_us`) and Eq. 4 (NDP).
    """
    by_path = {
        f"{path}_ns": path_cost(machine, model, path, tokens, quantum_ns, numa=numa)
        for path in get_args(Path)
    }
    reads = {
        f"dram_{layout}_ns": int(
            to_quanta(dram_read_s(machine, model, layout) * NS_PER_S, quantum_ns)
        )
        for layout in ("striped", "localized")
    }
    return ExpertCosts(**by_path, **reads)  # type: ignore[arg-type]  # mypy joins the two kinds


def path_cost(
    machine: Machine,
    model: ModelShape,
    path: Path,
    tokens: ArrayLike,
    quantum_ns: int = DEFAULT_QUANTUM_NS,
    *,
    numa: NumaMode = "tensor-parallel",
    threads: int | None = None,
) -> Times:
    """Return the cost in ns of one expert on one path, as `expert_costs` does for all.

    A machine without NDP or without a CPU still has the paths that need none. Of a CPU `threads`
    compute, by default all cores.
    """
    if path == "ndp":
        seconds = computation_s(machine, model, "ndp", tokens)
    else:
        layout = "localized" if path.endswith("localized") else "striped"
        if path.startswith("cpu"):
            seconds = computation_s(machine, model, "cpu", tokens, numa=numa, threads=threads)
            fixed_s = (machine.require("cpu").only("cpu").kernel_us or 0.0) / 1e6
            seconds = np.maximum(seconds, cpu_read_s(machine, model, layout, numa)) + fixed_s
        else:
            seconds = computation_s(machine, model, "gpu", tokens)
        if path.startswith("gpu_miss"):
            fetch = max(transfer_s(machine, model), dram_read_s(machine, model, layout))
            seconds = np.maximum(seconds, fetch)
    return to_quanta(seconds * NS_PER_S, quantum_ns)


def computation_s(
    machine: Machine,
    model: ModelShape,
    kind: Kind,
    tokens: ArrayLike,
    *,
    numa: NumaMode = "tensor-parallel",
    threads: int | None = None,
) -> Seconds:
    """Return the time in s of computing one expert, measured if possible, else by the roofline.

    Parameters
    ----------
    tokens
        Token counts, each at least 1.

    Notes
    -----
    Roofline: the GPU is as slow as the slower of its matrix units, at the rate reached, and its
    memory, plus `kernel_us`. The CPU is as slow as the kernel in use at that many tokens; its reads
    are `cpu_read_s`. An NDP unit is as slow as the slower of its rate and its DIMM.
    """
    count = np.asarray(tokens, dtype=np.int64)
    if count.size and int(count.min()) < 1:
        raise InputError(f"tokens: must be at least 1, not {int(count.min())}")
    device = machine.require(kind)
    measured = _measured_s(machine, model, (device.id, kind), count, threads)
    if measured is not None:
        return measured
    flops = count * float(model.flops_per_token)
    size = float(model.expert_bytes)
    if kind == "cpu":
        if threads is not None:
            machine.check_threads(threads)
        cores = cores_of(machine, numa)
        return np.asarray(flops / (cores.rate_tflops(count) * 1e12))
    compute = device.only(kind)
    if kind == "ndp":
        rate = compute.rate_tflops(count, model.bits) * 1e12
        return np.asarray(np.maximum(flops / rate, size / ((compute.internal_gb_s or 0.0) * 1e9)))
    return gpu_roofline_s(device, flops, size, count) + (compute.kernel_us or 0.0) / 1e6


def gpu_roofline_s(gpu: Device, flops: ArrayLike, size: float, tokens: ArrayLike) -> Seconds:
    """Return the time in s of operations on `size` bytes of weights in a GPU's memory."""
    rate = gpu.only("gpu").rate_tflops(tokens) * 1e12
    bandwidth = gpu.memory.read_gb_s * 1e9
    return np.asarray(np.maximum(np.asarray(flops) / rate, size / bandwidth))


def transfer_s(machine: Machine, model: ModelShape, over: LinkRate | None = None) -> float:
    """Return the time in s of moving one expert's weights, measured if possible.

    Parameters
    ----------
    over
        By default the way to the first GPU, of which there may be a measurement.
    """
    if over is not None:
        return over.transfer_s(float(model.expert_bytes))
    at = (machine.require("gpu").id, machine.offload[0].id)
    measured = _measured_s(machine, model, at, np.array(1))
    if measured is not None:
        return float(measured)
    return machine.pcie.transfer_s(float(model.expert_bytes))


def dram_read_s(machine: Machine, model: ModelShape, layout: str) -> float:
    """Return how long reading one expert keeps the DIMMs it lies on busy, in s.

    Parameters
    ----------
    layout
        "striped" over all DIMMs, or "localized" on one.
    """
    return float(model.expert_bytes) / (_dram_gb_s(machine, layout) * 1e9)


def cpu_read_s(
    machine: Machine, model: ModelShape, layout: str, numa: NumaMode = "tensor-parallel"
) -> float:
    """Return how long the CPU takes to read one expert, in s.

    Striped experts are read by all nodes as `numa` says, localized ones from their DIMM; the CPU's
    kernels reach `Compute.reached` of what the memory gives.
    """
    node = machine.require("cpu")
    striped = layout == "striped"
    gb_s = cores_of(machine, numa).read_gb_s if striped else _dram_gb_s(machine, layout)
    return float(model.expert_bytes) / (gb_s * (node.only("cpu").reached or 1.0) * 1e9)


def to_quanta(ns: ArrayLike, quantum_ns: int) -> Times:
    """Round durations up to multiples of the quantum: here, once, floats become integers.

    What comes here is elementary arithmetic on rates that are rounded (`moeopt.core.rounding`).
    """
    quanta = np.ceil(np.asarray(ns, dtype=float) / quantum_ns - 1e-9)
    if (longest := float(quanta.max(initial=0)) * quantum_ns) > MAX_NUMBER:
        raise InputError(f"machine, model: a cost of {longest:.3g} ns is above {MAX_NUMBER} ns")
    return quanta.astype(np.int64) * quantum_ns


def _dram_gb_s(machine: Machine, layout: str) -> float:
    if layout == "striped":
        return sum(d.memory.gb_s * (d.memory.reached or 1.0) for d in machine.offload)
    memory = machine.offload[0].memory
    gb_s = None if memory.dimms is None else memory.dimms.one_gb_s
    if gb_s is None:
        raise InputError(
            f"machine {machine.name}: dram.one_gb_s: is missing; a read of one DIMM is asked for"
        )
    return gb_s * (memory.reached or 1.0)


def _measured_s(
    machine: Machine,
    model: ModelShape,
    at: tuple[str, str],
    count: Times,
    threads: int | None = None,
) -> Seconds | None:
    """Return what the machine's time table says, if it has one for these weights."""
    own = 8.0 * model.bytes_per_weight
    widths = (None, own) if model.bits == own else (model.bits,)
    for bits in widths:
        if (table := machine.measured(model.name, at, bits, threads)) is not None:
            return table(count) / NS_PER_S
    return None


KINDS: tuple[Kind, ...] = ("gpu", "cpu", "ndp")

MAX_POINTS = 10_000
"""Longest time table."""


def with_table_noise(
    machine: Machine, model: ModelShape, tokens: int, noise: float, seed: int
) -> Machine:
    """Return the machine with a time table of `model` that is up to `noise` above its own times.

    Every device and token count gets its own factor between 1 and 1 + `noise`; more tokens never
    take less time. Reads and transfers stay as they are.

    Parameters
    ----------
    tokens
        The table reaches from 1 to this many tokens; a longer one begins as a shorter one does.
    noise
        Largest relative deviation.
    seed
        Draws the factors.

    Raises
    ------
    InputError
        If the table would be too long, or the machine lacks a device.
    """
    if tokens > MAX_POINTS:
        raise InputError(f"table_noise: works up to {MAX_POINTS} tokens, not {tokens}")
    counts = np.arange(1, max(tokens, 2) + 1)
    own = model.bits == 8.0 * model.bytes_per_weight
    tables = [table for table in machine.tables if table.model != model.name]
    for number, kind in enumerate(KINDS):
        factor = 1 + noise * np.random.default_rng([seed, number]).random(len(counts))
        ns = np.maximum.accumulate(computation_s(machine, model, kind, counts) * NS_PER_S * factor)
        tables.append(
            TimeTable(
                model=model.name,
                at=(machine.require(kind).id, kind),
                points=tuple(zip(counts.astype(float).tolist(), ns.tolist(), strict=True)),
                source=f"times of {machine.name}, each up to {noise:g} longer, seed {seed}",
                bits_per_weight=None if own else model.bits,
            )
        )
    moved = [table for table in machine.tables if table.model == model.name and table.is_link]
    return machine.model_copy(update={"tables": (*tables, *moved)})
