"""What each DIMM can do with its experts: the host time that every way of relieving it costs.

An expert on its DIMM's NDP unit keeps the DIMM busy for longer than a host's read would, or it
stays on NDP: that costs no host time (see "Proof" in the package's docstring). The others are
mobile. A label of a DIMM is one choice for all its mobile experts, reduced to three numbers: GPU
time, CPU time and the DIMM's load. Labels that another one dominates in all three are dropped.
"""

from typing import Any, NamedTuple

import numpy as np

from moeopt.numeric.compiled import compiled

from .loads import CPU, GPU, NDP, OWN, STRIPED_READS, Ints, trimmed

MOST_LABELS = 8192
"""Labels that one DIMM may have: with more, dropping the dominated ones takes too long."""

MOST_NODES = 2**18
"""Labels and nodes of all DIMMs together."""

NOTHING = -1
"""The node without a predecessor: every mobile expert so far stays on NDP."""


class Labels(NamedTuple):
    """The labels of all DIMMs that some threshold in question overloads, DIMM after DIMM.

    Labels ``start[k]`` to ``start[k + 1]`` belong to the k-th such DIMM, by rising GPU time.
    `load` is the DIMM's load with the least striped reads there can be. `node` begins a chain of
    moves: node n sends expert ``move[n] // 2`` to host ``move[n] % 2`` and goes on at
    ``before[n]``. `complete` is False if there were more labels than allowed.
    """

    gpu: Ints
    cpu: Ints
    load: Ints
    node: Ints
    start: Ints
    before: Ints
    move: Ints
    complete: bool


@compiled
def usable(dram: Ints, i: int, to: int) -> Any:
    """Return whether a host's read keeps expert `i`'s DIMM busy for less time than NDP does."""
    return dram[to, i] < dram[NDP, i]


@compiled
def by_falling_ndp(dram: Ints) -> Ints:
    """Return the rows, those that NDP is busy with longest first."""
    key = np.empty(dram.shape[1], np.int64)
    for i in range(len(key)):
        key[i] = -dram[NDP, i]
    return np.argsort(key)


@compiled
def pareto_labels(
    host: Ints,
    dram: Ints,
    place: Ints,
    dimms: int,
    reads: Ints,
    lower: int,
    upper: int,
    limit: int,
) -> Labels:
    """Return the labels that matter for thresholds from `lower` to below `upper`.

    Parameters
    ----------
    host, dram, place
        See `tables`.
    reads
        The least and the most that striped reads can take, in ns.
    lower, upper
        The thresholds in question.
    limit
        How many labels and how many nodes there may be.
    """
    order = by_falling_ndp(dram)
    limit = min(limit, MOST_NODES)
    fixed = np.zeros(dimms, np.int64)
    total = np.zeros(dimms, np.int64)
    count = np.zeros(dimms + 1, np.int64)
    for i in order:
        if place[i] != STRIPED_READS:
            d = place[i] - OWN
            if usable(dram, i, GPU) or usable(dram, i, CPU):
                total[d] += dram[NDP, i]
                count[d] += 1
            else:
                fixed[d] += dram[NDP, i]
    gpu, cpu = np.empty(limit, np.int64), np.empty(limit, np.int64)
    load, node = np.empty(limit, np.int64), np.empty(limit, np.int64)
    before, moves = np.empty(limit, np.int64), np.empty(limit, np.int64)
    start = np.zeros(dimms + 1, np.int64)
    heavy, used, nodes = 0, 0, 0
    for d in range(dimms):
        if reads[1] + fixed[d] + total[d] <= lower:
            continue
        mobile = np.empty(count[d], np.int64)
        m = 0
        for i in order:
            if place[i] == OWN + d and (usable(dram, i, GPU) or usable(dram, i, CPU)):
                mobile[m] = i
                m += 1
        offset = reads[0] + fixed[d]
        slack = reads[1] - reads[0]
        found, nodes = merge_all(
            host, dram, mobile, offset, lower - slack, upper, nodes, before, moves
        )
        size = found.shape[1]
        if nodes < 0 or used + size > limit:
            return Labels(gpu, cpu, load, node, start[: heavy + 1], before, moves, False)
        for k in range(size):
            gpu[used + k], cpu[used + k] = found[0, k], found[1, k]
            load[used + k], node[used + k] = found[2, k], found[3, k]
        used += size
        heavy += 1
        start[heavy] = used
    return Labels(gpu, cpu, load, node, start[: heavy + 1], before, moves, True)


@compiled
def merge_all(
    host: Ints,
    dram: Ints,
    mobile: Ints,
    offset: int,
    relieved: int,
    upper: int,
    nodes: int,
    before: Ints,
    moves: Ints,
) -> Any:
    """Return one DIMM's labels (GPU time, CPU time, load, node) and the number of nodes used.

    A label is dropped if its load reaches `upper` however the other experts are placed. A label
    that is within `relieved` even if all others stay on NDP is only completed with NDP: that costs
    no host time, and the load is within every threshold in question.
    """
    rest = 0
    least = 0
    for i in mobile:
        rest += dram[NDP, i]
        least += min(dram[GPU, i], dram[CPU, i], dram[NDP, i])
    labels = np.zeros((4, 1), np.int64)
    labels[2, 0], labels[3, 0] = offset, NOTHING
    for i in mobile:
        least -= min(dram[GPU, i], dram[CPU, i], dram[NDP, i])
        size = labels.shape[1]
        if nodes + 2 * size > len(before) or size > MOST_LABELS:
            return labels, -1
        open_up_to = relieved - rest
        rest -= dram[NDP, i]
        grown, runs = np.empty((4, 3 * size), np.int64), np.zeros(4, np.int64)
        at = 0
        for to in range(3):
            for k in range(size):
                if to != NDP and (labels[2, k] <= open_up_to or not usable(dram, i, to)):
                    continue
                gpu = labels[0, k] + (host[GPU, i] if to == GPU else 0)
                cpu = labels[1, k] + (host[CPU, i] if to == CPU else 0)
                load = labels[2, k] + dram[to, i]
                if load + least >= upper or gpu >= upper or cpu >= upper:
                    continue
                grown[0, at], grown[1, at], grown[2, at] = gpu, cpu, load
                grown[3, at] = labels[3, k]
                if to != NDP:
                    before[nodes], moves[nodes] = labels[3, k], 2 * i + to
                    grown[3, at] = nodes
                    nodes += 1
                at += 1
            runs[to + 1] = at
        labels = undominated(grown, runs)
    return labels, nodes


@compiled
def undominated(labels: Ints, runs: Ints) -> Ints:
    """Return the labels that no other one dominates in all of GPU time, CPU time and load.

    They come in three runs, each by rising GPU time, and are merged. Those seen so far are no
    dearer on the GPU, so a new one must beat a staircase in the other two: CPU times that rise
    while loads fall.
    """
    count = runs[3]
    kept = np.empty((4, count), np.int64)
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
        cpu, load = labels[1, k], labels[2, k]
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
    return trimmed(kept, 4, size)
