"""FlashLB, vllm-ascend's policy: numbers of copies and their devices decided together.

Re-implemented from the description of pull request 6477 of github.com/vllm-project/vllm-ascend and
its published behaviour. An expert's *risk* over the windows is its mean load plus `QUANTILE`
standard deviations; a device's is that of the sum of its copies, with their covariances. Experts
stand by falling risk in `DEPTH` groups. Group by group it is decided how many further copies go to
the group: numbers up to `WIDTH` off from what equal risk per copy would give are tried, each by
placing all copies, and the one whose mean over windows of peak over mean load is least is kept.
"""

import numpy as np
from numpy.typing import NDArray

QUANTILE = 0.674
"""Three quarters of a normal distribution's draws are below its mean plus this much."""

DEPTH, WIDTH = 4, 8

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def flashlb_counts_and_places(
    loads: Floats, devices: int, slots: int, most_copies: int
) -> list[list[int]]:
    """Return the experts on each device.

    Parameters
    ----------
    loads
        Shape (windows, experts).
    devices, slots, most_copies
        Devices, their slots, and the most copies of one expert.
    """
    mean = loads.mean(axis=0)
    spread = np.zeros((len(mean), len(mean)))
    if len(loads) > 1:
        spread = np.atleast_2d(np.cov(loads, rowvar=False))
    risk = mean + QUANTILE * np.sqrt(np.diag(spread))
    order = np.argsort(-risk, kind="stable")
    group = -(-len(order) // DEPTH)
    left = devices * slots - len(order)
    counts = _history(risk, left, most_copies)[-1]
    for number in range(DEPTH - 1):
        current = order[number * group : (number + 1) * group]
        rest = order[(number + 1) * group :]
        if not left or not len(rest):
            break
        both = np.concatenate([current, rest])
        equal = int((_history(risk[both], left, most_copies)[-1][: len(current)] - 1).sum())
        of_current = _history(risk[current], left, most_copies)
        of_rest = _history(risk[rest], left, most_copies)
        tried = [equal, *(equal + s * d for d in range(1, WIDTH + 1) for s in (-1, 1))]
        best, least = 0, np.inf
        for extra in (extra for extra in tried if 0 <= extra <= left):
            counts[current], counts[rest] = of_current[extra], of_rest[left - extra]
            peak = _peak(loads, _places(mean, spread, counts, devices, slots), counts)
            if peak < least:
                best, least = extra, peak
        counts[current], counts[rest] = of_current[best], of_rest[left - best]
        left -= int((counts[current] - 1).sum())
    return _places(mean, spread, counts, devices, slots)


def _history(risk: Floats, extra: int, most: int) -> list[Ints]:
    """Return the numbers of copies with 0, 1, ... further ones, each where the risk is most."""
    counts = np.ones(len(risk), dtype=np.int64)
    found = [counts.copy()]
    for _ in range(extra):
        each = np.where(counts < most, risk / counts, -1.0)
        if each.max() >= 0:
            counts[int(np.argmax(each))] += 1
        found.append(counts.copy())
    return found


def _places(
    mean: Floats, spread: Floats, counts: Ints, devices: int, slots: int
) -> list[list[int]]:
    """Return the experts on each device: by falling load per copy, each where the risk is least.

    A copy goes to a device that holds it already only where no other has a slot.
    """
    held: list[list[int]] = [[] for _ in range(devices)]
    load, variance = np.zeros(devices), np.zeros(devices)
    # covariance[g, e]: of expert e with what device g holds.
    covariance = np.zeros((devices, len(mean)))
    full = np.zeros(devices, dtype=np.bool_)
    for e in np.argsort(-mean / counts, kind="stable").tolist():
        share, there = 1 / counts[e], np.zeros(devices)
        for _ in range(int(counts[e])):
            more = spread[e, e] * share**2 + 2 * share * covariance[:, e]
            risk = load + mean[e] * share + QUANTILE * np.sqrt(np.maximum(variance + more, 0))
            risk[full] = np.inf
            device = int(np.argmin(np.where(there > 0, 1e300, risk)))
            if full[device] or there[device]:
                device = int(np.argmin(risk))
            held[device].append(e)
            there[device] = 1
            load[device] += mean[e] * share
            variance[device] += more[device]
            covariance[device] += spread[e] * share
            full[device] = len(held[device]) == slots
    return held


def _peak(loads: Floats, held: list[list[int]], counts: Ints) -> float:
    """Return the mean over windows of the fullest device's load over the devices' mean."""
    shares = loads / counts
    of_device = np.array([shares[:, experts].sum(axis=1) for experts in held])
    return float((of_device.max(axis=0) / (of_device.mean(axis=0) + 1e-9)).mean())
