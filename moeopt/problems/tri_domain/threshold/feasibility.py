"""The feasibility subproblem of one threshold: by Lagrangian relaxation first, then exactly.

Striped experts whose read takes longer from one host than from the other (residents, which the GPU
does not read) make the striped reads depend on the schedule. They are taken at their shorter read
until a schedule says otherwise; then one of them is bound to either host in turn.
"""

from typing import NamedTuple

import numpy as np

from moeopt.core.compiled import compiled
from moeopt.core.device_loads import (
    CPU,
    DRAM,
    GPU,
    NDP,
    PLACE,
    STRIPED_READS,
    Ints,
    loads_of,
    makespan_of,
)
from moeopt.core.search import Feasibility

from .pareto import BEFORE, MOVE, NODE, OF, Labels, modes_at
from .two_hosts import NEVER, best_multiplier, schedule_hosts

FREE = -1
"""What a striped expert is bound to that may run on either host."""


class Outcome(NamedTuple):
    """What is known about one threshold.

    `host_ns` is a lower bound on the makespan of whatever is within the threshold, 0 if there is
    none; `makespan_ns` and `domain` are the best schedule met, be it within the threshold or not.
    `work` counts the labels and states looked at.
    """

    feasibility: Feasibility
    host_ns: int
    makespan_ns: int
    domain: Ints
    work: int


def decide(
    experts: Ints,
    dimms: int,
    labels: Labels,
    threshold: int,
    scale: int,
    multiplier: int,
    width: int,
    limit: int,
) -> Outcome:
    """Decide whether some schedule is within the threshold.

    Depth first over the striped experts that are bound to a host; without such experts whose reads
    differ, there is one node. Plain Python for the reason that `search.narrow` is.

    Parameters
    ----------
    experts, dimms
        The table of `moeopt.core.device_loads`, and the number of DIMMs.
    labels
        The DIMMs' Pareto labels.
    threshold
        In ns.
    scale, multiplier
        The GPU's Lagrangian multiplier to start from, in units of ``1 / scale``; the CPU's is
        ``scale - multiplier``.
    width, limit
        The longest list of states, and about how many labels and states to look at, see
        `schedule_hosts`.
    """
    size = experts.shape[1]
    best, best_domain = NEVER, np.full(size, NDP, np.int64)
    work, root_host_ns, sure = 0, 0, True
    fixed = np.full(size, FREE, np.int64)
    path: list[int] = []
    while True:
        extra = _extra_reads(experts, fixed) if path else 0
        modes, start, possible = modes_at(experts, labels, threshold, extra, fixed)
        work += int(start[-1]) if possible else modes.shape[1]
        refuted, value = not possible, 0
        if possible:
            multiplier, value, refuted = best_multiplier(modes, start, threshold, scale, multiplier)
        if not refuted:
            found = schedule_hosts(
                modes, start, multiplier, scale, value, threshold, width, limit - work
            )
            work += found.work
            if not path and found.exact:
                root_host_ns = found.host_ns
            domain = schedule_of(experts, labels, modes, found.chosen)
            makespan = makespan_of(loads_of(experts, domain, dimms), dimms)
            if makespan < best:
                best, best_domain = makespan, domain
            if best <= threshold:
                return Outcome(Feasibility.FEASIBLE, root_host_ns, best, best_domain, work)
            if found.host_ns <= threshold:
                if work > limit:
                    return Outcome(Feasibility.UNKNOWN, 0, best, best_domain, work)
                path.append(_longest_read(experts, fixed, domain))
                fixed[path[-1]] = CPU
                continue
            sure = sure and found.exact
        while path and fixed[path[-1]] == GPU:
            fixed[path.pop()] = FREE
        if not path:
            feasibility = Feasibility.INFEASIBLE if sure else Feasibility.UNKNOWN
            return Outcome(feasibility, 0, best, best_domain, work)
        fixed[path[-1]] = GPU


def _extra_reads(experts: Ints, fixed: Ints) -> int:
    """Return by how much the striped experts bound to a host exceed their shorter reads."""
    read = experts[DRAM : DRAM + NDP]
    bound = np.flatnonzero(fixed != FREE)
    return int((read[fixed[bound], bound] - read[:, bound].min(axis=0)).sum())


def _longest_read(experts: Ints, fixed: Ints, domain: Ints) -> int:
    """Return the free striped expert whose read in this schedule most exceeds its shorter one."""
    read = experts[DRAM : DRAM + NDP]
    free = np.flatnonzero((experts[PLACE] == STRIPED_READS) & (fixed == FREE))
    excess = read[domain[free], free] - read[:, free].min(axis=0)
    return int(free[excess.argmax()])


@compiled
def schedule_of(experts: Ints, labels: Labels, modes: Ints, chosen: Ints) -> Ints:
    """Return the schedule that the chosen modes stand for."""
    nodes, heavy = labels.nodes, len(labels.start) - 1
    domain = np.empty(experts.shape[1], np.int64)
    domain[:] = NDP
    for k in range(heavy):
        node = labels.table[NODE, modes[OF, chosen[k]]]
        while node >= 0:
            domain[nodes[MOVE, node] // 2] = nodes[MOVE, node] % 2
            node = nodes[BEFORE, node]
    k = heavy
    for i in range(experts.shape[1]):
        if experts[PLACE, i] == STRIPED_READS:
            domain[i] = modes[OF, chosen[k]]
            k += 1
    return domain
