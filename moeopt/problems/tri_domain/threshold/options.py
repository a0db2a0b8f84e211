"""What hosts may be asked to do at one threshold: groups of options, one of each to be chosen."""

from typing import NamedTuple

import numpy as np

from moeopt.numeric.compiled import compiled

from .loads import CPU, GPU, STRIPED_READS, Ints
from .pareto import Labels


class Options(NamedTuple):
    """Options ``start[k]`` to ``start[k + 1]`` form group k: a DIMM, or a striped expert.

    `of` is the label of a DIMM's option, and the host of a striped expert's. The groups of the
    DIMMs come first, in the order of `Labels`, then those of the striped experts, by row.
    """

    gpu: Ints
    cpu: Ints
    of: Ints
    start: Ints


@compiled
def options_at(
    host: Ints, place: Ints, labels: Labels, threshold: int, extra_reads: int, fixed: Ints
) -> tuple[Options, bool]:
    """Return the options at a threshold, and whether each group has one.

    Parameters
    ----------
    host, place, labels
        The experts, and the Pareto labels of the DIMMs.
    threshold
        The makespan in question, in ns.
    extra_reads
        By how much striped reads exceed the least possible, in ns.
    fixed
        By expert: the host a striped one is bound to, -1 if it is free.
    """
    heavy = len(labels.start) - 1
    room = labels.start[heavy] + 2 * len(place)
    gpu, cpu, of = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64)
    start = np.zeros(heavy + len(place) + 1, np.int64)
    groups, used = 0, 0
    for d in range(heavy):
        for k in range(labels.start[d], labels.start[d + 1]):
            if labels.load[k] + extra_reads > threshold or labels.gpu[k] > threshold:
                continue
            if labels.cpu[k] > threshold:
                continue
            if used > start[groups]:
                if cpu[used - 1] <= labels.cpu[k]:
                    continue
                if gpu[used - 1] == labels.gpu[k]:
                    used -= 1
            gpu[used], cpu[used], of[used] = labels.gpu[k], labels.cpu[k], k
            used += 1
        if used == start[groups]:
            return Options(gpu, cpu, of, start[:1]), False
        groups += 1
        start[groups] = used
    for i in range(len(place)):
        if place[i] != STRIPED_READS:
            continue
        for to in range(2):
            if fixed[i] != 1 - to and host[to, i] <= threshold:
                gpu[used] = host[GPU, i] if to == GPU else 0
                cpu[used] = host[CPU, i] if to == CPU else 0
                of[used] = to
                used += 1
        if used == start[groups]:
            return Options(gpu, cpu, of, start[:1]), False
        groups += 1
        start[groups] = used
    return Options(gpu[:used], cpu[:used], of[:used], start[: groups + 1]), True
