"""What an expert costs on each path of a machine, by tokens (TriMoE Eq. 1-4)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from moeopt.errors import InputError
from moeopt.problems.envelope import MAX_NUMBER
from moeopt.sim.machine import Machine
from moeopt.sim.model_shape import ModelShape

NS_PER_S = 1e9
DEFAULT_QUANTUM_NS = 5000

Times = NDArray[np.int64]


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
    machine: Machine, model: ModelShape, tokens: ArrayLike, quantum_ns: int = DEFAULT_QUANTUM_NS
) -> ExpertCosts:
    """Return the cost of one expert of `model` on each path of `machine`.

    Parameters
    ----------
    machine, model
        Rates and sizes.
    tokens
        Token counts, each at least 1.
    quantum_ns
        Every cost is rounded up to a multiple of this, once, here.

    Notes
    -----
    Computation is looked up in the machine's time table for the model and device. Without one it is
    a roofline: operations over the rate reached at that many tokens, and on the GPU and the NDP
    units no faster than their memory delivers the weights. Then Eq. 1 (hit), Eq. 2
    (miss: the longest of computation, PCIe transfer and DRAM read), Eq. 3 (CPU: the longer of
    computation and DRAM read) and Eq. 4 (NDP).
    """
    count = np.asarray(tokens, dtype=np.int64)
    size = float(model.expert_bytes)
    gpu, cpu, ndp = (
        _computation_s(machine, model, device, count) for device in ("gpu", "cpu", "ndp")
    )
    pcie = size / (machine.pcie_gb_s * 1e9)
    striped = size / (machine.dram.striped_gb_s * 1e9)
    localized = size / (machine.dram.localized_gb_s * 1e9)

    def rounded(seconds: NDArray[np.float64]) -> Times:
        return to_quanta(seconds * NS_PER_S, quantum_ns)

    return ExpertCosts(
        gpu_hit_ns=rounded(gpu),
        gpu_miss_striped_ns=rounded(np.maximum(gpu, max(pcie, striped))),
        gpu_miss_localized_ns=rounded(np.maximum(gpu, max(pcie, localized))),
        cpu_striped_ns=rounded(np.maximum(cpu, striped)),
        cpu_localized_ns=rounded(np.maximum(cpu, localized)),
        ndp_ns=rounded(ndp),
        dram_striped_ns=int(rounded(np.array(striped))),
        dram_localized_ns=int(rounded(np.array(localized))),
    )


def _computation_s(
    machine: Machine, model: ModelShape, device: str, count: Times
) -> NDArray[np.float64]:
    """Return the computation time, measured if possible, else by the roofline."""
    table = machine.time_table(model.name, device)
    if table is not None:
        return table(count) / NS_PER_S
    flops = count * float(model.flops_per_token)
    size = float(model.expert_bytes)
    if device == "gpu":
        rate = machine.gpu.peak_tflops * 1e12 * machine.gpu.utilization(count)
        return np.maximum(flops / rate, size / (machine.gpu.hbm_gb_s * 1e9))
    if device == "cpu":
        return np.asarray(flops / (machine.cpu.tflops(count) * 1e12))
    rate = np.asarray(machine.ndp.gflops * 1e9)
    return np.maximum(flops / rate, size / (machine.ndp.internal_gb_s * 1e9))


def to_quanta(ns: ArrayLike, quantum_ns: int) -> Times:
    """Round durations up to multiples of the quantum: here, once, floats become integers."""
    quanta = np.ceil(np.asarray(ns, dtype=float) / quantum_ns - 1e-9)
    if (longest := float(quanta.max(initial=0)) * quantum_ns) > MAX_NUMBER:
        raise InputError(f"machine, model: a cost of {longest:.3g} ns is above {MAX_NUMBER} ns")
    return quanta.astype(np.int64) * quantum_ns
