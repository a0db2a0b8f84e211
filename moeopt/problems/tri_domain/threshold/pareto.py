"""The assignment modes of the hosts' subproblem: Pareto labels of each DIMM, and striped experts.

An expert on its DIMM's NDP unit keeps the DIMM busy for longer than a host's read would, or it
stays on NDP: that costs no host time (Lemma 1 of `formulations/tri_domain/spec.md`). The others are
mobile. A label of a DIMM is one choice for all its mobile experts, reduced to three numbers: GPU
time, CPU time and the DIMM's load. Only labels that no other one dominates in all three are kept
(Lemma 2).

At one threshold a DIMM's labels within it, and the two hosts of a striped expert, are the modes of
one group each; one mode of every group is chosen, as in the multiple-choice knapsack problem.
"""

from typing import NamedTuple

import numpy as np

from moeopt.core.compiled import inner, part, rising, short
from moeopt.problems.device_loads import (
    CPU,
    DRAM,
    GPU,
    NDP,
    OWN,
    PLACE,
    STRIPED_READS,
    Ints,
    empty_table,
)

FEW = 2**14
"""Up to so many numbers a call is made in plain Python at first: 50 ms at most, mostly 5."""

LOAD, NODE = 2, 3
"""Rows of a table of labels, after `GPU` and `CPU`."""

BEFORE, MOVE = 0, 1
"""Rows of a table of nodes."""

MOST_LABELS = 8192
"""Labels that one DIMM may have: with more, dropping the dominated ones takes too long."""

MOST_NODES = 2**18
"""Labels and nodes of all DIMMs together."""

GROUP, OF = 2, 3
"""Rows of a table of modes, after `GPU` and `CPU`."""

NOTHING = -1
"""The node without a predecessor: every mobile expert so far stays on NDP."""


class Labels(NamedTuple):
    """The labels of all DIMMs that some threshold of interest overloads, DIMM after DIMM.

    Labels ``start[k]`` to ``start[k + 1]`` belong to the k-th such DIMM, by rising GPU time.
    Rows of `table`: `GPU` and `CPU` time, the DIMM's `LOAD` with the least striped reads there can
    be, and the `NODE` at which a chain of moves begins. Rows of `nodes`: node n sends expert
    ``nodes[MOVE, n] // 2`` to host ``nodes[MOVE, n] % 2`` and goes on at ``nodes[BEFORE, n]``.
    `complete` is False if there were more labels than allowed.
    """

    table: Ints
    nodes: Ints
    start: Ints
    complete: bool


@short(FEW)
def pareto_labels(
    experts: Ints, dimms: int, least: int, most: int, lower: int, upper: int, limit: int
) -> Labels:
    """Return the labels that matter for thresholds from `lower` to below `upper`.

    Striped reads take from `least` to `most` ns; there may be `limit` labels and as many nodes.
    """
    limit = min(limit, MOST_NODES)
    size = experts.shape[1]
    falling, mobile_at = np.empty(size, np.int64), np.empty(size, np.int64)
    fixed, total = np.zeros(OWN + dimms, np.int64), np.zeros(OWN + dimms, np.int64)
    for i in range(size):
        falling[i] = -experts[DRAM + NDP, i]
        read = min(experts[DRAM + GPU, i], experts[DRAM + CPU, i])
        mobile_at[i] = STRIPED_READS  # where no expert is mobile
        if experts[PLACE, i] != STRIPED_READS and read < experts[DRAM + NDP, i]:
            mobile_at[i] = experts[PLACE, i]
            total[experts[PLACE, i]] += experts[DRAM + NDP, i]
        else:
            fixed[experts[PLACE, i]] += experts[DRAM + NDP, i]
    order = rising(falling)
    table, nodes = empty_table(4, limit), empty_table(2, limit)
    start = np.zeros(dimms + 1, np.int64)
    mobile = np.empty(size, np.int64)
    heavy, used, used_nodes = 0, 0, 0
    for place in range(OWN, OWN + dimms):
        if most + fixed[place] + total[place] <= lower:
            continue
        count = 0
        for n in range(size):
            if mobile_at[order[n]] == place:
                mobile[count] = order[n]
                count += 1
        found, found_size, used_nodes = merge_all(
            experts,
            mobile[:count],
            least + fixed[place],
            lower - (most - least),
            upper,
            nodes,
            used_nodes,
        )
        if used_nodes < 0 or used + found_size > limit:
            return Labels(table, nodes, start[: heavy + 1], False)
        for row in range(4):
            for k in range(found_size):
                table[row, used + k] = found[row, k]
        used += found_size
        heavy += 1
        start[heavy] = used
    return Labels(resized(table, used), resized(nodes, used_nodes), start[: heavy + 1], True)


@inner
def resized(table: Ints, size: int) -> Ints:
    """Return a copy with so many columns; a slice would be another type of array."""
    out = empty_table(table.shape[0], size)
    for row in range(table.shape[0]):
        for n in range(min(size, table.shape[1])):
            out[row, n] = table[row, n]
    return out


@part
def merge_all(
    experts: Ints, mobile: Ints, offset: int, relieved: int, upper: int, nodes: Ints, used: int
) -> tuple[Ints, int, int]:
    """Return one DIMM's labels, how many they are, and the number of nodes used, -1 if too many.

    A label is dropped if its load reaches `upper` however the other experts are placed. A label
    that is within `relieved` even if all others stay on NDP is only completed with NDP: that costs
    no host time, and the load is within every threshold of interest.
    """
    rest, least = 0, 0
    for n in range(len(mobile)):
        i = mobile[n]
        rest += experts[DRAM + NDP, i]
        least += min(experts[DRAM + GPU, i], experts[DRAM + CPU, i])
    labels, size = empty_table(4, 1), 1
    labels[GPU, 0], labels[CPU, 0], labels[LOAD, 0], labels[NODE, 0] = 0, 0, offset, NOTHING
    runs = np.zeros(4, np.int64)
    for n in range(len(mobile)):
        i = mobile[n]
        least -= min(experts[DRAM + GPU, i], experts[DRAM + CPU, i])
        if used + 2 * size > nodes.shape[1] or size > MOST_LABELS:
            return labels, size, -1
        open_up_to = relieved - rest
        rest -= experts[DRAM + NDP, i]
        grown = empty_table(4, 3 * size)
        at = 0
        for to in range(3):
            usable = experts[DRAM + to, i] < experts[DRAM + NDP, i]
            for k in range(size):
                if to != NDP and (not usable or labels[LOAD, k] <= open_up_to):
                    continue
                gpu = labels[GPU, k] + (experts[GPU, i] if to == GPU else 0)
                cpu = labels[CPU, k] + (experts[CPU, i] if to == CPU else 0)
                load = labels[LOAD, k] + experts[DRAM + to, i]
                if load + least >= upper or gpu >= upper or cpu >= upper:
                    continue
                node = labels[NODE, k]
                if to != NDP:
                    nodes[BEFORE, used], nodes[MOVE, used] = node, 2 * i + to
                    node = used
                    used += 1
                grown[GPU, at], grown[CPU, at] = gpu, cpu
                grown[LOAD, at], grown[NODE, at] = load, node
                at += 1
            runs[to + 1] = at
        labels, size = undominated(grown, runs)
    return labels, size, used


@part
def undominated(labels: Ints, runs: Ints) -> tuple[Ints, int]:
    """Return the labels that no other one dominates in all of GPU time, CPU time and load.

    They come in three runs, each by rising GPU time, and are merged. Those seen so far are no
    dearer on the GPU, so a new one must beat a staircase in the other two: CPU times that rise
    while loads fall.
    """
    count = runs[3]
    kept = empty_table(4, count)
    stair_cpu, stair_load = np.empty(count + 1, np.int64), np.empty(count + 1, np.int64)
    stairs, size = 0, 0
    head = runs.copy()
    for _ in range(count):
        run = -1
        for r in range(3):
            if head[r] < runs[r + 1] and (run < 0 or labels[0, head[r]] < labels[0, head[run]]):
                run = r
        k = head[run]
        head[run] += 1
        cpu, load = labels[CPU, k], labels[LOAD, k]
        at, beyond = 0, stairs
        while at < beyond:
            middle = (at + beyond) // 2
            if stair_cpu[middle] <= cpu:
                at = middle + 1
            else:
                beyond = middle
        if at > 0 and stair_load[at - 1] <= load:
            continue
        last = at
        while last < stairs and stair_load[last] >= load:
            last += 1
        if at > 0 and stair_cpu[at - 1] == cpu:
            at -= 1
        shift = at + 1 - last
        if shift > 0:
            for n in range(stairs - 1, last - 1, -1):
                stair_cpu[n + shift], stair_load[n + shift] = stair_cpu[n], stair_load[n]
        elif shift < 0:
            for n in range(last, stairs):
                stair_cpu[n + shift], stair_load[n + shift] = stair_cpu[n], stair_load[n]
        stairs += shift
        stair_cpu[at], stair_load[at] = cpu, load
        for row in range(4):
            kept[row, size] = labels[row, k]
        size += 1
    return kept, size


@short(FEW)
def modes_at(
    experts: Ints, labels: Labels, threshold: int, extra_reads: int, fixed: Ints
) -> tuple[Ints, Ints, bool]:
    """Return the modes at a threshold, where groups start, and whether each group has a mode.

    Modes ``start[k]`` to ``start[k + 1]`` form group k: a DIMM, or a striped expert. The groups of
    the DIMMs come first, in the order of `Labels`, then those of the striped experts, by row. Rows
    of the table: `GPU` and `CPU` time, the `GROUP`, and what it is a mode `OF`: the label of a
    DIMM's mode, the host of a striped expert's.

    Striped reads exceed the least possible by `extra_reads` ns; `fixed` is the host that a striped
    expert is bound to, -1 if it is free.
    """
    table, heavy = labels.table, len(labels.start) - 1
    size = experts.shape[1]
    modes = empty_table(4, labels.start[heavy] + 2 * size)
    start = np.zeros(heavy + size + 1, np.int64)
    groups, used = 0, 0
    for d in range(heavy):
        for k in range(labels.start[d], labels.start[d + 1]):
            gpu, cpu = table[GPU, k], table[CPU, k]
            if max(gpu, cpu, table[LOAD, k] + extra_reads) > threshold:
                continue
            if used > start[groups]:
                if modes[CPU, used - 1] <= cpu:
                    continue
                if modes[GPU, used - 1] == gpu:
                    used -= 1
            modes[GPU, used], modes[CPU, used] = gpu, cpu
            modes[GROUP, used], modes[OF, used] = groups, k
            used += 1
        if used == start[groups]:
            return modes, start[:1], False
        groups += 1
        start[groups] = used
    for i in range(size):
        if experts[PLACE, i] != STRIPED_READS:
            continue
        for to in range(2):
            if fixed[i] != 1 - to and experts[to, i] <= threshold:
                modes[GPU, used] = experts[GPU, i] if to == GPU else 0
                modes[CPU, used] = experts[CPU, i] if to == CPU else 0
                modes[GROUP, used], modes[OF, used] = groups, to
                used += 1
        if used == start[groups]:
            return modes, start[:1], False
        groups += 1
        start[groups] = used
    return modes, start[: groups + 1], True
