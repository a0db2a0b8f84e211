"""Copies of which at most one is localized: for given striped reads the DIMMs are separate.

For a threshold C and a limit R on the striped reads every DIMM has C - R left for work of its own.
A label is one choice for all experts that may work on a DIMM: GPU time, CPU time, striped reads,
own work. One label of each group has to be chosen with the sums within C (TD-C3), C (TD-C4) and R,
by dynamic programming over the groups; Lagrangian relaxation of the three rows refutes most limits
at once, and cuts states. Lemma 8 of `formulations/tri_domain/spec.md`.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from moeopt.core.compiled import compiled, inner, rising
from moeopt.problems.device_loads import CPU, DRAM, GPU, PLACE, STRIPED_READS, Ints, empty_table

from .pareto import undominated

READS, OF = 2, 3
"""Rows of labels and states after `GPU` and `CPU`; then what a label or state was made of."""

OWN_WORK, NODE = 3, 4
"""Rows of the labels of a group, after `READS`."""

MOST_LABELS = 2048
"""Labels that a group may have."""

MOST_GROWN = 2**14
"""Labels before the dominated ones are dropped, which takes a step for each pair."""

MOST_STATES = 2**15
"""States that may be open at once."""

ROUNDS = 60
"""Updates of the multipliers."""

SAFE = 1 + 1e-9
"""A sum of floats refutes only beyond this; their rounding is far smaller."""

Floats = NDArray[np.float64]


class Groups(NamedTuple):
    """The labels of all groups, one group after the other.

    Labels ``start[k]`` to ``start[k + 1]`` belong to group k. `table` has rows `GPU`, `CPU`,
    `READS`, `OWN_WORK` and `NODE`; ``nodes[0, n]`` is the node before n, ``nodes[1, n]`` three
    times the column of a copy, plus its domain. `complete`: there were not too many.
    """

    table: Ints
    nodes: Ints
    start: Ints
    complete: bool


@compiled
def labels_of(experts: Ints, first: Ints, group: Ints, groups: int, most: int) -> Groups:
    """Return the labels of every group with no load above `most`.

    Table and first columns are as in `copies`; those that may work on one DIMM are of one `group`.
    """
    table, nodes = empty_table(5, MOST_LABELS * groups), empty_table(2, 64 * MOST_LABELS)
    start, used, used_nodes = np.zeros(groups + 1, np.int64), 0, 0
    for k in range(groups):
        labels, size = empty_table(5, 1), 1
        for row in range(5):
            labels[row, 0] = -1 if row == NODE else 0
        for i in range(len(group)):
            if group[i] != k:
                continue
            grown = empty_table(5, 3 * (first[i + 1] - first[i]) * size)
            kept = 0
            for column in range(first[i], first[i + 1]):
                striped = experts[PLACE, column] == STRIPED_READS
                for to in range(2 if striped else 3):
                    read = experts[DRAM + to, column]
                    for n in range(size):
                        gpu = labels[GPU, n] + (experts[GPU, column] if to == GPU else 0)
                        cpu = labels[CPU, n] + (experts[CPU, column] if to == CPU else 0)
                        reads = labels[READS, n] + (read if striped else 0)
                        own = labels[OWN_WORK, n] + (0 if striped else read)
                        if max(gpu, cpu, reads + own) > most:
                            continue
                        grown[GPU, kept], grown[CPU, kept] = gpu, cpu
                        grown[READS, kept], grown[OWN_WORK, kept] = reads, own
                        if used_nodes + kept >= nodes.shape[1]:
                            return Groups(table, nodes, start, False)
                        nodes[0, used_nodes + kept] = labels[NODE, n]
                        nodes[1, used_nodes + kept] = 3 * column + to
                        grown[NODE, kept] = used_nodes + kept
                        kept += 1
            used_nodes += kept
            if kept > MOST_GROWN:
                return Groups(table, nodes, start, False)
            labels, size = _undominated(grown, kept)
            if size > MOST_LABELS:
                return Groups(table, nodes, start, False)
        for n in range(size):
            for row in range(5):
                table[row, used + n] = labels[row, n]
        used += size
        start[k + 1] = used
    return Groups(table, nodes, start, True)


@inner
def _undominated(labels: Ints, size: int) -> tuple[Ints, int]:
    """Return the labels that no other one dominates in all four, by rising GPU time."""
    order = rising(labels[GPU, :size])
    kept, count = empty_table(5, size), 0
    for n in range(size):
        k = order[n]
        beaten = False
        for m in range(count):
            if (
                kept[CPU, m] <= labels[CPU, k]
                and kept[READS, m] <= labels[READS, k]
                and kept[OWN_WORK, m] <= labels[OWN_WORK, k]
            ):
                beaten = True
                break
        if not beaten:  # among equal GPU times one that is dominated later does no harm
            for row in range(5):
                kept[row, count] = labels[row, k]
            count += 1
    return kept, count


@compiled
def modes_within(groups: Groups, own: int, limit: Ints) -> tuple[Ints, Ints, bool]:
    """Return each group's undominated labels within a DIMM's room and the limits, and starts.

    Rows `GPU`, `CPU`, `READS` and `OF`, the label. False if a group has none.
    """
    count = len(groups.start) - 1
    modes, start, used = empty_table(4, groups.start[count]), np.zeros(count + 1, np.int64), 0
    for k in range(count):
        fit, size = empty_table(4, groups.start[k + 1] - groups.start[k]), 0
        for n in range(groups.start[k], groups.start[k + 1]):
            inside = groups.table[OWN_WORK, n] <= own
            for row in range(3):
                inside = inside and groups.table[row, n] <= limit[row]
            if inside:
                for row in range(3):
                    fit[row, size] = groups.table[row, n]
                fit[OF, size] = n
                size += 1
        if size == 0:
            return modes, start, False
        runs = np.full(4, size, np.int64)
        runs[0] = 0
        found, kept = undominated(fit, runs)
        for n in range(kept):
            for row in range(4):
                modes[row, used + n] = found[row, n]
        used += kept
        start[k + 1] = used
    return modes, start, True


@compiled
def multipliers(modes: Ints, start: Ints, limit: Ints) -> tuple[Floats, float]:
    """Return multipliers of the three rows, and the Lagrangian value: above 1 it refutes.

    Loads are counted in units of their limits, and the multipliers sum to 1: the weighted sum of
    the chosen modes is then at most 1 in whatever is within the limits. Multiplicative updates.
    """
    weight, best, load, best_value = np.zeros(3), np.zeros(3), np.zeros(3), -1.0
    for row in range(3):
        weight[row] = best[row] = 1.0 / 3.0
    for step in range(ROUNDS):
        value = 0.0
        for row in range(3):
            load[row] = 0.0
        for k in range(len(start) - 1):
            least, at = np.inf, start[k]
            for n in range(start[k], start[k + 1]):
                cost = 0.0
                for row in range(3):
                    if limit[row] > 0:
                        cost += weight[row] * modes[row, n] / limit[row]
                if cost < least:
                    least, at = cost, n
            value += least
            for row in range(3):
                if limit[row] > 0:
                    load[row] += modes[row, at] / limit[row]
        if value > best_value:
            best_value = value
            for row in range(3):
                best[row] = weight[row]
        if value > SAFE:
            break
        total = 0.0
        for row in range(3):
            growth = (load[row] - 1.0) * 1.5 / (1.0 + step) ** 0.5
            weight[row] *= np.exp(min(max(growth, -2.0), 2.0))
            total += weight[row]
        for row in range(3):
            weight[row] /= total
    return best, best_value


@compiled
def chosen_within(modes: Ints, start: Ints, limit: Ints, weight: Floats) -> tuple[Ints, int]:
    """Return one mode per group with all sums within the limits, and 1; 0: none; -1: not decided.

    The state with the least largest share of a limit is taken.
    """
    count = len(start) - 1
    rest = np.zeros(count + 1)
    cost = np.zeros(start[count])
    for k in range(count - 1, -1, -1):
        least = np.inf
        for n in range(start[k], start[k + 1]):
            for row in range(3):
                if limit[row] > 0:
                    cost[n] += weight[row] * modes[row, n] / limit[row]
            least = min(least, cost[n])
        rest[k] = rest[k + 1] + least
    chosen = np.zeros(count, np.int64)
    states, size = empty_table(4, 1), 1
    for row in range(4):
        states[row, 0] = 0
    nodes, used = empty_table(2, 4 * MOST_STATES), 1
    nodes[0, 0], nodes[1, 0] = -1, -1
    runs = np.zeros(4, np.int64)
    for k in range(count):
        grown, kept = empty_table(4, 0), 0
        for n in range(start[k], start[k + 1]):
            both = empty_table(4, kept + size)
            for m in range(kept):
                for row in range(4):
                    both[row, m] = grown[row, m]
            at = kept
            for m in range(size):
                inside, share = True, rest[k + 1]
                for row in range(3):
                    load = states[row, m] + modes[row, n]
                    inside = inside and load <= limit[row]
                    if limit[row] > 0:
                        share += weight[row] * load / limit[row]
                    both[row, at] = load
                if inside and share <= SAFE:
                    both[OF, at] = states[OF, m] * len(cost) + n
                    at += 1
            runs[0], runs[1], runs[2], runs[3] = 0, kept, at, at
            grown, kept = undominated(both, runs)
        if kept == 0:
            return chosen, 0
        if kept > MOST_STATES:
            return chosen, -1
        if used + kept > nodes.shape[1]:
            longer = empty_table(2, 2 * (used + kept))
            for m in range(used):
                longer[0, m], longer[1, m] = nodes[0, m], nodes[1, m]
            nodes = longer
        for m in range(kept):
            nodes[0, used + m] = grown[OF, m] // len(cost)
            nodes[1, used + m] = grown[OF, m] % len(cost)
            grown[OF, m] = used + m
        used += kept
        states, size = grown, kept
    best, node = np.inf, 0
    for m in range(size):
        share = 0.0
        for row in range(3):
            share = max(share, states[row, m] / max(limit[row], 1))
        if share < best:
            best, node = share, states[OF, m]
    for k in range(count - 1, -1, -1):
        chosen[k] = nodes[1, node]
        node = nodes[0, node]
    return chosen, 1
