"""The search over thresholds: from the proven bound upwards, until it meets the best schedule."""

from typing import Any

import numpy as np

from moeopt.numeric.compiled import compiled
from moeopt.problems.device_loads import Ints, loads_of, makespan_of, table_of

from .check import FEASIBLE, FREE, INFEASIBLE, check_threshold
from .floor import grid_and_scale, simple_bound
from .incumbent import first_schedule
from .options import options_at
from .pareto import Labels, pareto_labels
from .weights import best_weight

FIRST_WIDTH = 256
FIRST_STEPS = 64
WIDEN = 8


def certify(
    gpu_ns: Ints,
    cpu_ns: Ints,
    ndp_ns: Ints,
    gpu_dram_ns: Ints,
    cpu_dram_ns: Ints,
    dimm: Ints,
    dimms: int,
    upper: int,
    node_limit: int,
) -> tuple[int, int, Ints]:
    """Return a proven lower bound and the best schedule found, which mostly is the optimum.

    Parameters
    ----------
    gpu_ns, cpu_ns, ndp_ns, gpu_dram_ns, cpu_dram_ns, dimm, dimms
        See `quick_schedule`.
    upper
        Makespans from here on are of no interest, in ns: the search ends once none below is left.
        ``np.iinfo(np.int64).max`` if every one is.
    node_limit
        About how many labels are looked at before it gives up: a million takes some 10 ms.

    Returns
    -------
    lower_ns, upper_ns, domain
        `domain` has the makespan `upper_ns`. Every schedule's makespan is at least `lower_ns`;
        the schedule is optimal if they are equal, and none is below `upper` if `lower_ns` is not.
    """
    experts = table_of(gpu_ns, cpu_ns, ndp_ns, gpu_dram_ns, cpu_dram_ns, dimm)
    _, domain = first_schedule(experts, dimms)
    return narrow(experts, dimms, domain, 0, upper, node_limit)


def narrow(
    experts: Ints, dimms: int, domain: Ints, lower: int, cutoff: int, limit: int
) -> tuple[int, int, Ints]:
    """Go on from a schedule and a proven lower bound; see `certify` for the rest.

    This loop is plain Python: as compiled code it would have all that it calls compiled once more.
    """
    grid, scale = grid_and_scale(experts)
    bound, least, most = simple_bound(experts, dimms)
    best = makespan_of(loads_of(experts, domain, dimms))
    lower = on_grid(max(lower, bound), grid)
    upper = min(best, cutoff)
    if lower >= upper:
        return min(lower, best), best, domain
    labels = pareto_labels(experts, dimms, least, most, lower, upper, limit)
    if not labels.complete:
        return lower, best, domain
    lower, weight = least_open(experts, labels, lower, upper, grid, scale)
    width, step, work = FIRST_WIDTH, (upper - lower) // FIRST_STEPS, 0
    while lower < upper and work < limit:
        threshold = min(lower + step // grid * grid, on_grid(upper, grid) - grid)
        answer = check_threshold(
            experts, dimms, labels, threshold, scale, weight, width, limit - work
        )
        work += answer.work
        if answer.makespan_ns < best:
            best, domain = answer.makespan_ns, answer.domain
            upper = min(upper, best)
        if answer.status == FEASIBLE:
            lower = max(lower, on_grid(min(answer.host_ns, best), grid))
        elif answer.status == INFEASIBLE:
            lower = threshold + grid
            step = 4 * step + grid
        elif step >= grid:
            step = step // 8
        else:
            width *= WIDEN
    return min(lower, best), best, domain


@compiled
def least_open(
    experts: Ints, labels: Labels, lower: int, upper: int, grid: int, scale: int
) -> tuple[int, int]:
    """Return the least threshold that the bound leaves open (else `upper`), and a weight.

    Thresholds from `lower` to below `upper`, by bisection: a higher threshold offers more options.
    """
    free = np.full(experts.shape[1], FREE, np.int64)
    first: Any = 0
    last: Any = -(-(upper - lower) // grid)
    weight = scale // 2
    probe = last - 1
    while first < last:
        threshold = lower + probe * grid
        options, start, is_open = options_at(experts, labels, threshold, 0, free)
        if is_open:
            weight, _, refuted = best_weight(options, start, threshold, scale, weight)
            is_open = not refuted
        if is_open:
            last = probe
        else:
            first = probe + 1
        probe = (first + last) // 2
    return min(lower + first * grid, upper), weight


def on_grid(value: int, grid: int) -> int:
    """Return the least multiple of `grid` that is not below a value."""
    return -(-value // grid) * grid
