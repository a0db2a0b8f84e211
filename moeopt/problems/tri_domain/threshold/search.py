"""The search over thresholds: from the proven bound upwards, until it meets the best schedule."""

from typing import Any

from moeopt.numeric.compiled import compiled

from .check import FEASIBLE, INFEASIBLE, check_threshold, passes_bound
from .floor import grid_of, simple_bound, striped_reads, weight_scale
from .incumbent import first_schedule
from .loads import Domains, Ints, loads_of, makespan_of, tables
from .pareto import pareto_labels

FIRST_WIDTH = 256
FIRST_STEPS = 64
WIDEN = 8


@compiled
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
) -> tuple[int, int, Domains]:
    """Return a proven lower bound and the best schedule found, which mostly is the optimum.

    Compiled; other compiled code may call it.

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
    host, dram, place = tables(gpu_ns, cpu_ns, ndp_ns, gpu_dram_ns, cpu_dram_ns, dimm)
    _, domain = first_schedule(host, dram, place, dimms)
    return narrow(host, dram, place, dimms, domain, 0, upper, node_limit)


@compiled
def narrow(
    host: Ints,
    dram: Ints,
    place: Ints,
    dimms: int,
    domain: Domains,
    lower: int,
    cutoff: int,
    limit: int,
) -> tuple[int, int, Domains]:
    """Go on from a schedule and a proven lower bound; see `certify` for the rest."""
    grid = grid_of(host, dram, place)
    best = makespan_of(loads_of(host, dram, place, domain, dimms))
    lower = on_grid(max(lower, simple_bound(host, dram, place, dimms)), grid)
    upper = min(best, cutoff)
    if lower >= upper:
        return min(lower, best), best, domain
    reads = striped_reads(dram, place)
    labels = pareto_labels(host, dram, place, dimms, reads, lower, upper, limit)
    if not labels.complete:
        return lower, best, domain
    scale = weight_scale(host, dram, place)
    lower, weight = least_open(host, place, labels, lower, upper, grid, scale)
    width, step, work = FIRST_WIDTH, (upper - lower) // FIRST_STEPS, 0
    while lower < upper and work < limit:
        threshold = min(lower + step // grid * grid, on_grid(upper, grid) - grid)
        answer = check_threshold(
            host, dram, place, dimms, labels, threshold, scale, weight, width, limit - work
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
    host: Ints, place: Ints, labels: Any, lower: int, upper: int, grid: int, scale: int
) -> tuple[int, int]:
    """Return the least threshold that the bound leaves open (else `upper`), and a weight.

    Thresholds from `lower` to below `upper`, by bisection: a higher threshold offers more options.
    """
    first, last = 0, -(-(upper - lower) // grid)
    weight = scale // 2
    probe = last - 1
    while first < last:
        is_open, weight = passes_bound(host, place, labels, lower + probe * grid, scale, weight)
        if is_open:
            last = probe
        else:
            first = probe + 1
        probe = (first + last) // 2
    return min(lower + first * grid, upper), weight


@compiled
def on_grid(value: int, grid: int) -> Any:
    """Return the least multiple of `grid` that is not below a value."""
    return -(-value // grid) * grid
