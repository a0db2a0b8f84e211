"""The row subproblems of the Lagrangian relaxation, compiled; arrays as in `LayerSteps`."""

import numpy as np
from numpy.typing import NDArray

from moeopt.core.compiled import compiled, inner
from moeopt.problems.placement.layer_steps import Ints, LayerSteps

Floats = NDArray[np.float64]

FEW = 8
"""A row subproblem with so many experts or fewer is solved by trying all subsets."""

CUTS, CLOSE = 12, 1e-6
"""Most weights that are tried for a row, and the relative error at which it is enough."""


ROW_STEPS_PER_UNIT = 2e8
"""Steps of `row_steps` that a core does in a second."""


def row_steps(of: LayerSteps) -> int:
    """Return about how many steps the row subproblems of a layer take: subsets, or weights."""
    sizes = np.diff(of.start)
    return int(np.where(sizes <= FEW, sizes << np.minimum(sizes, FEW), CUTS * sizes).sum())


@compiled
def row_subproblems(
    weight: Ints,
    start: Ints,
    gpu_ns: Ints,
    offload_ns: Ints,
    fixed_ns: int,
    multiplier: Floats,
    copy: Floats,
) -> float:
    """Return the weighted sum of the row subproblems' optima, in floats.

    Parameters
    ----------
    multiplier
        By entry: what is taken off the row's cost if the expert is on the GPU; may be negative.
    copy
        Output, by entry: how far the row has the expert on the GPU, from 0 to 1.
    """
    total = 0.0
    for row in range(len(weight)):
        first, end = start[row], start[row + 1]
        if end - first <= FEW:
            value, subset = by_enumeration(gpu_ns, offload_ns, fixed_ns, multiplier, first, end)
            for i in range(first, end):
                copy[i] = subset >> (i - first) & 1
        else:
            value = by_weighting(gpu_ns, offload_ns, fixed_ns, multiplier, first, end, copy)
        total += weight[row] * value
    return total


@inner
def by_enumeration(
    gpu_ns: Ints, offload_ns: Ints, fixed_ns: int, multiplier: Floats, first: int, end: int
) -> tuple[float, int]:
    """Return the optimum of a row subproblem, and its subset on the GPU, by trying all."""
    count = end - first
    best, best_subset = np.inf, 0
    for subset in range(1 << count):
        gpu, off, paid = 0, 0, 0.0
        for i in range(count):
            if subset >> i & 1:
                gpu += gpu_ns[first + i]
                paid += multiplier[first + i]
            else:
                off += offload_ns[first + i]
        if subset != (1 << count) - 1:
            off += fixed_ns
        value = max(gpu, off) - paid
        if value < best:
            best, best_subset = value, subset
    return best, best_subset


@inner
def by_weighting(
    gpu_ns: Ints,
    offload_ns: Ints,
    fixed_ns: int,
    multiplier: Floats,
    first: int,
    end: int,
    copy: Floats,
) -> float:
    """Return a lower bound on the optimum: all on the GPU, or the two sides weighted best.

    With weight th of the GPU and 1 - th of the other side, charge included, each expert goes where
    it costs less. The bound is concave in th, its slope the one side less the other: the next th is
    where the tangents at the two nearest ones meet.
    """
    gpu_all, off_all, paid = 0.0, float(fixed_ns), 0.0
    for i in range(first, end):
        gpu_all += gpu_ns[i]
        off_all += offload_ns[i]
        paid += multiplier[i]
    all_on = gpu_all - paid
    low, high = 0.0, 1.0
    at_low, low_lead = weighted_row(gpu_ns, offload_ns, off_all, multiplier, first, end, low)
    at_high, high_lead = weighted_row(gpu_ns, offload_ns, off_all, multiplier, first, end, high)
    best = max(at_low, at_high)
    if low_lead <= 0:
        high, high_lead = low, low_lead
    elif high_lead >= 0:
        low, low_lead = high, high_lead
    for _ in range(CUTS):
        if best >= all_on or high <= low:
            break
        th = (at_high - at_low + low * low_lead - high * high_lead) / (low_lead - high_lead)
        at_th, th_lead = weighted_row(gpu_ns, offload_ns, off_all, multiplier, first, end, th)
        best = max(best, at_th)
        if at_low + (th - low) * low_lead - at_th <= CLOSE * abs(at_th):
            break
        if th_lead > 0:
            low, low_lead, at_low = th, th_lead, at_th
        else:
            high, high_lead, at_high = th, th_lead, at_th
    if best >= all_on:
        copy[first:end] = 1.0
        return all_on
    spread = low_lead - high_lead
    of_low = -high_lead / spread if spread > 0 else 1.0  # so mixed the two sides are equal
    for i in range(first, end):
        low_gains = low * gpu_ns[i] - (1 - low) * offload_ns[i] - multiplier[i] < 0
        high_gains = high * gpu_ns[i] - (1 - high) * offload_ns[i] - multiplier[i] < 0
        copy[i] = of_low * low_gains + (1 - of_low) * high_gains
    return best


@inner
def weighted_row(
    gpu_ns: Ints,
    offload_ns: Ints,
    off_all: float,
    multiplier: Floats,
    first: int,
    end: int,
    th: float,
) -> tuple[float, float]:
    """Return the bound of one weight th, and how much longer the GPU works there: the slope."""
    value, gpu, off = (1 - th) * off_all, 0.0, off_all
    for i in range(first, end):
        cost = th * gpu_ns[i] - (1 - th) * offload_ns[i] - multiplier[i]
        if cost < 0:
            value += cost
            gpu += gpu_ns[i]
            off -= offload_ns[i]
    return value, gpu - off


@compiled
def certified_row_bounds(
    start: Ints,
    gpu_ns: Ints,
    offload_ns: Ints,
    fixed_ns: int,
    multiplier: Ints,
    scale: int,
    bound: Ints,
) -> None:
    """Compute lower bounds on the row subproblems for whole multipliers, in integers.

    Parameters
    ----------
    bound
        Output, by row: `scale` times a lower bound on the optimum.
    """
    for row in range(len(bound)):
        first, end = start[row], start[row + 1]
        gpu_all, off_all, paid = 0, fixed_ns, 0
        for i in range(first, end):
            gpu_all += gpu_ns[i]
            off_all += offload_ns[i]
            paid += multiplier[i]
        least = scale * (gpu_all - paid)
        if end - first <= FEW:
            for subset in range((1 << (end - first)) - 1):
                gpu, off, gained = 0, off_all, 0
                for i in range(first, end):
                    if subset >> (i - first) & 1:
                        gpu += gpu_ns[i]
                        off -= offload_ns[i]
                        gained += multiplier[i]
                least = min(least, scale * (max(gpu, off) - gained))
        else:
            low, high = 0, scale
            best = weighted_row_in_integers(
                gpu_ns, offload_ns, off_all, multiplier, first, end, scale, 0
            )[0]
            best = max(
                best,
                weighted_row_in_integers(
                    gpu_ns, offload_ns, off_all, multiplier, first, end, scale, scale
                )[0],
            )
            while high - low > 1 and best < least:
                middle = (low + high) // 2
                value, lead = weighted_row_in_integers(
                    gpu_ns, offload_ns, off_all, multiplier, first, end, scale, middle
                )
                best = max(best, value)
                if lead > 0:
                    low = middle
                else:
                    high = middle
            least = min(least, best)
        bound[row] = least


@inner
def weighted_row_in_integers(
    gpu_ns: Ints,
    offload_ns: Ints,
    off_all: int,
    multiplier: Ints,
    first: int,
    end: int,
    scale: int,
    part: int,
) -> tuple[int, int]:
    """Return the bound of one weight part / scale, times scale, and the GPU's lead there."""
    value, gpu, off = (scale - part) * off_all, 0, off_all
    for i in range(first, end):
        cost = part * gpu_ns[i] - (scale - part) * offload_ns[i] - scale * multiplier[i]
        if cost < 0:
            value += cost
            gpu += gpu_ns[i]
            off -= offload_ns[i]
    return value, gpu - off
