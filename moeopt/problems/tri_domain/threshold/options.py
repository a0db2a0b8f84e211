"""What hosts may be asked to do at one threshold: groups of options, one of each to be chosen.

Options ``start[k]`` to ``start[k + 1]`` form group k: a DIMM, or a striped expert. The groups of
the DIMMs come first, in the order of `Labels`, then those of the striped experts, by row. Rows of
the table of options: `GPU` and `CPU` time, the `GROUP`, and what it is an option `OF`: the label of
a DIMM's option, the host of a striped expert's.
"""

import numpy as np

from moeopt.numeric.compiled import compiled
from moeopt.problems.device_loads import CPU, GPU, PLACE, STRIPED_READS, Ints, room_for

from .pareto import LOAD, Labels

GROUP, OF = 2, 3
"""Rows of a table of options, after `GPU` and `CPU`."""


@compiled
def options_at(
    experts: Ints, labels: Labels, threshold: int, extra_reads: int, fixed: Ints
) -> tuple[Ints, Ints, bool]:
    """Return the options at a threshold, where groups start, and whether each group has one.

    Parameters
    ----------
    experts, labels
        The experts, and the Pareto labels of the DIMMs.
    threshold
        The makespan in question, in ns.
    extra_reads
        By how much striped reads exceed the least possible, in ns.
    fixed
        By expert: the host a striped one is bound to, -1 if it is free.
    """
    table, heavy = labels.table, len(labels.start) - 1
    size = experts.shape[1]
    options = room_for(4, labels.start[heavy] + 2 * size)
    start = np.zeros(heavy + size + 1, np.int64)
    groups, used = 0, 0
    for d in range(heavy):
        for k in range(labels.start[d], labels.start[d + 1]):
            gpu, cpu = table[GPU, k], table[CPU, k]
            if max(gpu, cpu, table[LOAD, k] + extra_reads) > threshold:
                continue
            if used > start[groups]:
                if options[CPU, used - 1] <= cpu:
                    continue
                if options[GPU, used - 1] == gpu:
                    used -= 1
            options[GPU, used], options[CPU, used] = gpu, cpu
            options[GROUP, used], options[OF, used] = groups, k
            used += 1
        if used == start[groups]:
            return options, start[:1], False
        groups += 1
        start[groups] = used
    for i in range(size):
        if experts[PLACE, i] != STRIPED_READS:
            continue
        for to in range(2):
            if fixed[i] != 1 - to and experts[to, i] <= threshold:
                options[GPU, used] = experts[GPU, i] if to == GPU else 0
                options[CPU, used] = experts[CPU, i] if to == CPU else 0
                options[GROUP, used], options[OF, used] = groups, to
                used += 1
        if used == start[groups]:
            return options, start[:1], False
        groups += 1
        start[groups] = used
    return options, start[: groups + 1], True
