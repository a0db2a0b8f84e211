"""Compiled: the subproblem of a row, and of all rows.

The arcs of a row, from the two clocks a (attention starts) and c (the CPU is free) to those of the
next layer, with A attention, S shared experts, s a hand-over, G experts on the GPU, I immediate and
D deferred ones on the CPU:

- 0, a to a': A + S + G;
- 1, a to a': A + 2 s + I; without experts on the CPU A + S + G;
- 2, c to a': I + s;
- 3, a to c': A + s + I + D; without experts on the CPU A + idle;
- 4, c to c': I + D.

All is in integers: flows, prices and the price of loss are multiples of one small unit.
"""

import numpy as np

from moeopt.core.compiled import compiled

from .data import Frame, Ints, Steps

ARCS = 5

TOP = 2**61
"""Above any value."""

PACKED = 2**13
"""Above any count of experts on the CPU that is kept apart."""


@compiled
def all_rows(
    steps: Steps,
    frame: Frame,
    price: Ints,
    flow: Ints,
    loss_price: int,
    ways: int,
    value: Ints,
    counts: Ints,
    state: Ints,
    lengths: Ints,
    losses: Ints,
) -> None:
    """Solve the subproblems of all rows for every number of deferred experts, by layer.

    Parameters
    ----------
    price, flow, loss_price
        The multipliers: shape (entries, 2 x widths), (rows, arcs), and of deferral's loss.
    ways
        0 or 1: whether layers have caches.
    value
        Output: the sums over the rows by layer and deferred count, shape (layers, most + 1).
    counts, losses
        Output: the best count of each layer, and the loss of what its rows then defer.
    state
        Output: where every entry is then, 3 x state + side; the states are not resident at each
        width, then resident; the sides GPU, CPU, deferred.
    lengths
        Output: of the arcs then, shape (rows, arcs).
    """
    layers = len(frame.attention_ns)
    widths = steps.gpu_ns.shape[1]
    both = np.zeros((len(steps.expert), 2), dtype=np.int64)
    value[:] = 0
    for layer in range(layers):
        most = value.shape[1] - 1 if layer < layers - 1 else 0
        best = 0
        for count in range(most + 1):
            for row in range(layer, len(flow), layers):
                found, _ = _row(steps, frame, price, flow, loss_price, ways, row, count, both)
                value[layer, count] += found
            if value[layer, count] < value[layer, best]:
                best = count
        counts[layer] = best
        losses[layer] = 0
        for row in range(layer, len(flow), layers):
            _, missed = _row(steps, frame, price, flow, loss_price, ways, row, best, both)
            work = np.zeros(3, dtype=np.int64)
            for p in range(steps.start[row], steps.start[row + 1]):
                state[p] = both[p, missed]
                j, side = state[p] // 3 % widths, state[p] % 3
                work[side] += steps.gpu_ns[p, j] if side == 0 else steps.cpu_ns[p, j]
                if side == 2:
                    losses[layer] += steps.late_loss[p]
            a, s = frame.attention_ns[layer], frame.hand_over_ns
            on_gpu = a + frame.shared_ns[layer] + work[0]
            lengths[row, 0] = on_gpu
            lengths[row, 1] = a + 2 * s + work[1] if missed else on_gpu
            lengths[row, 2] = work[1] + s
            lengths[row, 3] = a + s + work[1] + work[2] if missed else a + frame.idle_ns[layer]
            lengths[row, 4] = work[1] + work[2]


@compiled
def row_values(
    steps: Steps, frame: Frame, price: Ints, flow: Ints, loss_price: int, value: Ints
) -> None:
    """Set what every row costs with each number of deferred experts, shape (rows, counts)."""
    layers = len(frame.attention_ns)
    state = np.zeros((len(steps.expert), 2), dtype=np.int64)
    for row in range(len(flow)):
        for count in range(value.shape[1]):
            most = count if row % layers < layers - 1 else 0
            value[row, count], _ = _row(steps, frame, price, flow, loss_price, 0, row, most, state)


@compiled
def _row(
    steps: Steps,
    frame: Frame,
    price: Ints,
    flow: Ints,
    loss_price: int,
    ways: int,
    row: int,
    count: int,
    state: Ints,
) -> tuple[int, int]:
    """Return a row's least cost, and whether (1) or not (0) anything is on the CPU then."""
    z, layer = flow[row], row % len(frame.attention_ns)
    alone, some = row_subproblem(
        steps,
        price,
        z,
        loss_price,
        ways,
        frame.host_copy,
        steps.start[row],
        steps.start[row + 1],
        count,
        state,
    )
    a, s, shared = frame.attention_ns[layer], frame.hand_over_ns, frame.shared_ns[layer]
    if alone < TOP:
        alone += (z[0] + z[1]) * (a + shared) + z[2] * s + z[3] * (a + frame.idle_ns[layer])
    if some < TOP:
        some += z[0] * (a + shared) + z[1] * (a + 2 * s) + z[2] * s + z[3] * (a + s)
    if some < alone:
        return some, 1
    return alone, 0


@compiled
def row_subproblem(
    steps: Steps,
    price: Ints,
    z: Ints,
    loss_price: int,
    ways: int,
    host_copy: bool,
    first: int,
    last: int,
    count: int,
    state: Ints,
) -> tuple[int, int]:
    """Return the least cost of a row's experts, all on the GPU and some on the CPU, less constants.

    The experts are the entries `first` to `last`. Each pays its time on its side with the flows of
    the arcs that it lengthens, and is paid its state's price. From the last to the first, `count`
    of those on the CPU are deferred: a dynamic program over how many were there so far.

    Parameters
    ----------
    z
        The row's flows, shape (arcs,).
    state
        Output: where each entry is in the first and in the second case, shape (entries, 2).
    """
    gpu_ns, cpu_ns = steps.gpu_ns, steps.cpu_ns
    widths, n = gpu_ns.shape[1], last - first
    on_gpu, now, late = z[0] + z[1], z[1] + z[2] + z[3] + z[4], z[3] + z[4]
    never = TOP
    alone = 0
    most = max(count, 1)
    table = np.full((n + 1, most + 1), never)
    origin = np.zeros((n, most + 1), dtype=np.int64)
    table[0, 0] = 0
    for q in range(n):
        p = last - 1 - q
        best_alone, best_gpu, best_now, best_late = never, never, never, never
        at_alone, at_gpu, at_now, at_late = 0, 0, 0, 0
        for place in range(2 * widths):
            j = place % widths
            paid = price[p, place]
            if place >= widths or (ways > 0 and steps.seen[p]):
                value = on_gpu * gpu_ns[p, j] - paid
                if value < best_alone:
                    best_alone, at_alone = value, 3 * place
                value = z[0] * gpu_ns[p, j] - paid
                if value < best_gpu:
                    best_gpu, at_gpu = value, 3 * place
            if place < widths or host_copy:
                value = now * cpu_ns[p, j] - paid
                if value < best_now:
                    best_now, at_now = value, 3 * place + 1
                value = late * cpu_ns[p, j] + loss_price * steps.late_loss[p] - paid
                if value < best_late:
                    best_late, at_late = value, 3 * place + 2
        alone += best_alone
        state[p, 0] = at_alone
        for c in range(most + 1):
            if table[q, c] >= TOP:
                continue
            value = table[q, c] + best_gpu
            if value < table[q + 1, c]:
                table[q + 1, c] = value
                origin[q, c] = at_gpu * PACKED + c
            then = min(c + 1, most)
            value = table[q, c] + (best_late if c < count else best_now)
            if value < table[q + 1, then]:
                table[q + 1, then] = value
                origin[q, then] = (at_late if c < count else at_now) * PACKED + c
    at = 1
    for c in range(2, most + 1):
        if table[n, c] < table[n, at]:
            at = c
    some = table[n, at]
    if some < TOP:
        for q in range(n - 1, -1, -1):
            state[last - 1 - q, 1] = origin[q, at] // PACKED
            at = origin[q, at] % PACKED
    return alone, some


@compiled
def experts_best(cost: Ints, weight: Ints, chosen: Ints) -> int:
    """Choose each expert's state at its least cost plus weight; return their sum.

    Parameters
    ----------
    cost, weight
        Shape (cells, states).
    chosen
        Output, shape (cells,).
    """
    total = 0
    for cell in range(len(cost)):
        best = 0
        for state in range(1, cost.shape[1]):
            if cost[cell, state] + weight[cell, state] < cost[cell, best] + weight[cell, best]:
                best = state
        chosen[cell] = best
        total += cost[cell, best] + weight[cell, best]
    return total
