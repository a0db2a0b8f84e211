"""A lower bound on what two hosts need, by one weight between them."""

from typing import Any

import numpy as np

from moeopt.numeric.compiled import compiled
from moeopt.problems.device_loads import CPU, GPU, Ints

ROUNDS = 40


@compiled
def cheapest(options: Ints, start: Ints, weight: int, scale: int) -> tuple[int, int, int]:
    """Return the least of ``weight * GPU time + (scale - weight) * CPU time``, and the two times.

    The sum over the groups of each group's cheapest option. Proof that it bounds: whatever options
    are chosen, the weighted sum of the hosts' times is at least this, and the later of them is at
    least their weighted average.
    """
    value, gpu, cpu = 0, 0, 0
    other = scale - weight
    for k in range(len(start) - 1):
        at = start[k]
        best = weight * options[GPU, at] + other * options[CPU, at]
        for n in range(at + 1, start[k + 1]):
            cost = weight * options[GPU, n] + other * options[CPU, n]
            if cost < best:
                best, at = cost, n
        value += best
        gpu += options[GPU, at]
        cpu += options[CPU, at]
    return value, gpu, cpu


@compiled
def best_weight(options: Ints, start: Ints, threshold: int, scale: int, weight: int) -> Any:
    """Return (weight, value, whether the value proves that the hosts need more than `threshold`).

    The value is concave in the weight: two lines, from a weight that is too small and one that is
    too large, meet where it is to be asked next. Starts at `weight`, and ends as soon as a value
    proves it, or the cheapest options themselves are within the threshold.
    """
    low: Any = 0
    high: Any = scale
    low_gpu, low_cpu, high_gpu, high_cpu = -1, -1, -1, -1
    best, best_value = weight, -1
    for _ in range(ROUNDS):
        value, gpu, cpu = cheapest(options, start, weight, scale)
        if value > best_value:
            best, best_value = weight, value
        if value > threshold * scale:
            return best, best_value, True
        if (gpu <= threshold and cpu <= threshold) or gpu == cpu:
            break
        if gpu > cpu:
            low, low_gpu, low_cpu = weight, gpu, cpu
        else:
            high, high_gpu, high_cpu = weight, gpu, cpu
        if low_gpu < 0:
            weight = 0 if high > 0 else -1
        elif high_gpu < 0:
            weight = scale if low < scale else -1
        else:
            rise = np.float64(low_gpu - low_cpu) - np.float64(high_gpu - high_cpu)
            weight = int(scale * (np.float64(high_cpu - low_cpu) / rise))
            if weight <= low:
                weight = low + 1
            if weight >= high:
                weight = high - 1
        if weight < 0 or (high - low <= 1 and low_gpu >= 0 and high_gpu >= 0):
            break
    return best, best_value, False
