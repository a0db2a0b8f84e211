"""Is there a schedule within one threshold? By bound first, then exactly.

Striped experts whose read takes longer from one host than from the other (residents, which the GPU
does not read) make the striped reads depend on the schedule. They are taken at their shorter read
until a schedule says otherwise; then one of them is bound to either host in turn.
"""

from typing import Any, NamedTuple

import numpy as np

from moeopt.numeric.compiled import compiled

from .loads import CPU, GPU, NDP, STRIPED_READS, Domains, Ints, loads_of, makespan_of
from .options import Options, options_at
from .pareto import Labels
from .split import split_hosts
from .weights import best_weight

INFEASIBLE, FEASIBLE, UNKNOWN = 0, 1, 2


class Answer(NamedTuple):
    """What is known about one threshold.

    `host_ns` is a lower bound on the makespan of whatever is within the threshold, 0 if there is
    none; `makespan_ns` and `domain` are the best schedule met, be it within the threshold or not.
    """

    status: int
    host_ns: int
    makespan_ns: int
    domain: Domains
    work: int


@compiled
def passes_bound(
    host: Ints, place: Ints, labels: Labels, threshold: int, scale: int, weight: int
) -> Any:
    """Return (whether the bound leaves the threshold open, the weight that it was asked with)."""
    free = np.full(len(place), -1, np.int64)
    options, each = options_at(host, place, labels, threshold, 0, free)
    if not each:
        return False, weight
    weight, _, refuted = best_weight(options, threshold, scale, weight)
    return not refuted, weight


@compiled
def check_threshold(
    host: Ints,
    dram: Ints,
    place: Ints,
    dimms: int,
    labels: Labels,
    threshold: int,
    scale: int,
    weight: int,
    width: int,
    limit: int,
) -> Answer:
    """Decide whether some schedule is within the threshold, looking at some `limit` labels.

    Depth first over the striped experts that are bound to a host; without such experts whose reads
    differ, there is one node.
    """
    best, best_domain = np.iinfo(np.int64).max, np.full(len(place), NDP, np.int8)
    work, root_host_ns, sure, root = 0, 0, True, True
    stack = [np.full(len(place), -1, np.int64)]
    while len(stack) > 0:
        fixed = stack.pop()
        extra = extra_reads(dram, place, fixed)
        options, each = options_at(host, place, labels, threshold, extra, fixed)
        work += len(options.gpu)
        if not each:
            continue
        weight, value, refuted = best_weight(options, threshold, scale, weight)
        if refuted:
            continue
        split = split_hosts(options, weight, scale, value, threshold, width, limit - work)
        work += split.work
        if root and split.exact:
            root_host_ns = split.host_ns
        root = False
        domain = schedule_of(place, labels, options, split.chosen)
        makespan = makespan_of(loads_of(host, dram, place, domain, dimms))
        if makespan < best:
            best, best_domain = makespan, domain
        if best <= threshold:
            return Answer(FEASIBLE, root_host_ns, best, best_domain, work)
        if split.host_ns > threshold:
            sure = sure and split.exact
            continue
        if work > limit:
            return Answer(UNKNOWN, 0, best, best_domain, work)
        i = longest_read(dram, place, fixed, domain)
        for to in range(2):
            child = fixed.copy()
            child[i] = to
            stack.append(child)
    return Answer(INFEASIBLE if sure else UNKNOWN, 0, best, best_domain, work)


@compiled
def extra_reads(dram: Ints, place: Ints, fixed: Ints) -> Any:
    """Return by how much the striped experts bound to a host exceed their shorter reads."""
    extra = 0
    for i in range(len(place)):
        if place[i] == STRIPED_READS and fixed[i] >= 0:
            extra += dram[fixed[i], i] - min(dram[GPU, i], dram[CPU, i])
    return extra


@compiled
def longest_read(dram: Ints, place: Ints, fixed: Ints, domain: Domains) -> Any:
    """Return the free striped expert whose read in this schedule most exceeds its shorter one."""
    longest, at = 0, -1
    for i in range(len(place)):
        if place[i] == STRIPED_READS and fixed[i] < 0:
            excess = dram[domain[i], i] - min(dram[GPU, i], dram[CPU, i])
            if excess > longest:
                longest, at = excess, i
    return at


@compiled
def schedule_of(place: Ints, labels: Labels, options: Options, chosen: Ints) -> Domains:
    """Return the schedule that the chosen options stand for."""
    domain = np.full(len(place), NDP, np.int8)
    heavy = len(labels.start) - 1
    for k in range(heavy):
        node = labels.node[options.of[chosen[k]]]
        while node >= 0:
            domain[labels.move[node] // 2] = labels.move[node] % 2
            node = labels.before[node]
    k = heavy
    for i in range(len(place)):
        if place[i] == STRIPED_READS:
            domain[i] = options.of[chosen[k]]
            k += 1
    return domain
