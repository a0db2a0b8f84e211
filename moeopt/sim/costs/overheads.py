"""What computing takes beyond bytes over peaks and operations over rates, by a machine's file."""

from dataclasses import dataclass, replace

from moeopt.sim.machines.cores import NumaMode, cores_of
from moeopt.sim.machines.machine import Machine


@dataclass(frozen=True)
class Overheads:
    """Bandwidths that reads reach, and fixed times, of the first GPU and of all cores together.

    Attributes
    ----------
    gpu_gb_s, attention_gb_s
        What kernels read of the GPU's memory: experts and other matrices, and attention.
    cache_gb_s
        What attention goes through of the KV cache; 0: as of its weights.
    gpu_expert_us, layer_us, step_us
        Fixed times on the GPU: of an expert or another matrix, of a layer's attention, of a step.
    host_gb_s
        What the cores read of weights that lie on all nodes.
    host_reached
        The share of a DIMM's bandwidth that they reach of weights that lie on it alone.
    host_expert_us
        Fixed time of an expert on the cores.
    sync_us
        One synchronisation of activations between GPU and CPU, one way.
    beside
        Whether shared experts on the GPU run while the cores compute routed ones.
    """

    gpu_gb_s: float = 0.0
    attention_gb_s: float = 0.0
    gpu_expert_us: float = 0.0
    layer_us: float = 0.0
    step_us: float = 0.0
    host_gb_s: float = 0.0
    host_reached: float = 1.0
    host_expert_us: float = 0.0
    sync_us: float = 0.0
    cache_gb_s: float = 0.0
    beside: bool = True


def overheads_of(machine: Machine, numa: NumaMode) -> Overheads:
    """Return what a machine's file says; 0 and 1 where it says nothing."""
    found = Overheads(sync_us=machine.sync_us or 0.0)
    if machine.gpus:
        memory, gpu = machine.gpus[0].memory, machine.gpus[0].only("gpu")
        found = replace(
            found,
            gpu_gb_s=memory.read_gb_s,
            attention_gb_s=memory.gb_s * (memory.attention_reached or 1.0),
            gpu_expert_us=gpu.kernel_us or 0.0,
            layer_us=gpu.layer_us or 0.0,
            step_us=gpu.step_us or 0.0,
        )
    if machine.nodes:
        cpu = machine.nodes[0].only("cpu")
        reached = cpu.reached or 1.0
        found = replace(
            found,
            host_gb_s=cores_of(machine, numa).read_gb_s * reached,
            host_reached=reached,
            host_expert_us=cpu.kernel_us or 0.0,
        )
    return found
