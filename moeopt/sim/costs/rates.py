"""Rates at which GPU kernels of runtimes read weights."""

from moeopt.sim.machines.machine import Device, Machine

USUAL_SHARE = 1762 / 2039
"""Of the peak: an A100's measured read rate over its own (measured.csv)."""


def gpu_read_gb_s(gpu: Device) -> float:
    """Return the rate of one GPU: measured, else as its file says, else as GPUs usually do."""
    return gpu.memory.measured_gb_s or gpu.memory.gb_s * (gpu.memory.reached or USUAL_SHARE)


def gpus_read_gb_s(machine: Machine) -> float:
    """Return the rate of all GPUs, which read one after the other, each what it has room for."""
    machine.require("gpu")
    seconds = [gpu.gpu_gib / gpu_read_gb_s(gpu) for gpu in machine.gpus]
    return sum(gpu.gpu_gib for gpu in machine.gpus) / sum(seconds)
