"""Loops of a step that NumPy would need a pass per expert for, compiled."""

from typing import Any

import numpy as np

from moeopt.numeric.compiled import compiled
from moeopt.problems.device_loads import Ints


def best_split(gpu_ns: Ints, cpu_ns: Ints, grid: int) -> Any:
    """Return which experts `moeopt.problems.tri_domain.heuristics.fiddler` runs on the GPU.

    Parameters
    ----------
    gpu_ns, cpu_ns
        What each expert takes on either host, int64 of shape (experts,).
    grid
        Most steps of the table over the GPU's time.

    Returns
    -------
    ndarray
        bool, shape (experts,).
    """
    limit = int(min(gpu_ns.sum(), cpu_ns.sum()))
    step = max(int(np.gcd.reduce(gpu_ns)), -(-limit // grid), 1)
    width = -(-gpu_ns // step)
    size = limit // step + 1
    # No split is later than one that is known: the table need not go beyond.
    size = min(size, _quick_split(width * step, cpu_ns, (size - 1) * step) // step + 1)
    return _split(width, cpu_ns, size, step)


def _quick_split(gpu_ns: Ints, cpu_ns: Ints, most_gpu_ns: int) -> int:
    """Return the later end of some split with at most so much on the GPU."""
    order = (gpu_ns / np.maximum(cpu_ns, 1)).argsort()
    gpu = np.concatenate([[0], gpu_ns[order].cumsum()])
    cpu = cpu_ns.sum() - np.concatenate([[0], cpu_ns[order].cumsum()])
    later = np.maximum(gpu, cpu)[gpu <= most_gpu_ns]
    return int(later.min())


@compiled
def _split(width: Ints, cpu_ns: Ints, size: int, step: int) -> Any:
    """Return the split of least later end: of several, the one with least time on the GPU."""
    experts = len(width)
    taken = np.zeros((experts, size), np.bool_)
    least = np.full(size, np.inf)
    least[0] = 0.0
    other = np.empty(size)
    for row in range(experts):
        shift, length = width[row], float(cpu_ns[row])
        for at in range(min(shift, size)):
            other[at] = least[at] + length
        for at in range(shift, size):
            on_cpu, on_gpu = least[at] + length, least[at - shift]
            taken[row, at] = on_gpu < on_cpu
            other[at] = min(on_gpu, on_cpu)
        least, other = other, least
    at = 0
    for there in range(1, size):
        if max(least[there], float(there * step)) < max(least[at], float(at * step)):
            at = there
    split = np.zeros(experts, np.bool_)
    for row in range(experts - 1, -1, -1):
        if taken[row, at]:
            split[row] = True
            at -= width[row]
    return split
