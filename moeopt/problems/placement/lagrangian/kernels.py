"""The row subproblems of the Lagrangian relaxation, compiled; arrays as in `LayerSteps`."""

import numpy as np

from moeopt.core.compiled import inner, part, short
from moeopt.problems.placement.layer_steps import Floats, Ints, LayerSteps

FEW = 8
"""A row subproblem with so many experts or fewer is solved by trying all subsets."""

SMALL = 2**13
"""Up to so many numbers row subproblems take some 10 ms in plain Python."""

CUTS, CLOSE = 12, 20
"""Most weights that are tried for a row, and binary places of the bound that are enough."""

ROW_STEPS_PER_UNIT = 2e8
"""Steps of `row_steps` that a core does in a second."""


def row_steps(of: LayerSteps) -> int:
    """Return about how many steps the row subproblems of a layer take: subsets, or weights."""
    sizes = np.diff(of.start)
    return int(np.where(sizes <= FEW, sizes << np.minimum(sizes, FEW), CUTS * sizes).sum())


@short(SMALL)
def row_subproblems(
    start: Ints,
    gpu_ns: Ints,
    offload_ns: Ints,
    fixed_ns: int,
    multiplier: Ints,
    scale: int,
    bound: Ints,
    copy: Floats,
) -> None:
    """Bound the row subproblems from below, in integers.

    Parameters
    ----------
    multiplier
        By entry: what is taken off the row's cost if the expert is on the GPU; may be negative.
    bound
        Output, by row: `scale` times a lower bound on the optimum.
    copy
        Output, by entry: how far the row has the expert on the GPU, from 0 to 1.
    """
    for row in range(len(bound)):
        first, end = start[row], start[row + 1]
        if end - first > FEW:
            bound[row] = by_weighting(
                gpu_ns, offload_ns, fixed_ns, multiplier, first, end, scale, copy
            )
            continue
        best, best_subset, count = 2**62, 0, end - first
        for subset in range(1 << count):
            gpu, off, paid = 0, 0, 0
            for i in range(count):
                if subset >> i & 1:
                    gpu += gpu_ns[first + i]
                    paid += multiplier[first + i]
                else:
                    off += offload_ns[first + i]
            if subset != (1 << count) - 1:
                off += fixed_ns
            if max(gpu, off) - paid < best:
                best, best_subset = max(gpu, off) - paid, subset
        bound[row] = scale * best
        for i in range(count):
            copy[first + i] = best_subset >> i & 1


@part
def by_weighting(
    gpu_ns: Ints,
    offload_ns: Ints,
    fixed_ns: int,
    multiplier: Ints,
    first: int,
    end: int,
    scale: int,
    copy: Floats,
) -> int:
    """Return a lower bound on the optimum: all on the GPU, or the two sides weighted best.

    With weight th of the GPU and 1 - th of the other side, charge included, each expert goes where
    it costs less. The bound is concave in th, its slope the one side less the other: the next th is
    where the tangents at the two nearest ones meet. Weights are whole parts of `scale`.
    """
    gpu_all, off_all, paid = 0, fixed_ns, 0
    for i in range(first, end):
        gpu_all += gpu_ns[i]
        off_all += offload_ns[i]
        paid += multiplier[i]
    all_on = scale * (gpu_all - paid)
    low, high = 0, scale
    at_low, low_lead = weighted_row(gpu_ns, offload_ns, off_all, multiplier, first, end, scale, low)
    at_high, high_lead = weighted_row(
        gpu_ns, offload_ns, off_all, multiplier, first, end, scale, high
    )
    best = max(at_low, at_high)
    if low_lead <= 0:
        high, high_lead = low, low_lead
    elif high_lead >= 0:
        low, low_lead = high, high_lead
    for _ in range(CUTS):
        if best >= all_on or high - low <= 1:
            break
        th = (at_high - at_low + low * low_lead - high * high_lead) // (low_lead - high_lead)
        th = min(max(th, low + 1), high - 1)
        at_th, th_lead = weighted_row(
            gpu_ns, offload_ns, off_all, multiplier, first, end, scale, th
        )
        best = max(best, at_th)
        if at_low + (th - low) * low_lead - at_th <= abs(at_th) >> CLOSE:
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
        paid = scale * multiplier[i]
        low_gains = low * gpu_ns[i] - (scale - low) * offload_ns[i] < paid
        high_gains = high * gpu_ns[i] - (scale - high) * offload_ns[i] < paid
        copy[i] = of_low * low_gains + (1 - of_low) * high_gains
    return best


@inner
def weighted_row(
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
