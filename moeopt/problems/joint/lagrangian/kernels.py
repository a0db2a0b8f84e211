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

from moeopt.core.compiled import compiled

from .data import Ints, Steps

ARCS = 5

TOP = 2**61
"""Above any value."""

PACKED = 2**13
"""Above any count of experts on the CPU that is kept apart."""


@compiled
def solve_rows(
    steps: Steps,
    price: Ints,
    flow: Ints,
    loss_price: int,
    ways: int,
    host_copy: bool,
    best: Ints,
    table: Ints,
    origin: Ints,
    alone: Ints,
    some: Ints,
    state: Ints,
) -> None:
    """Find the least cost of each row's experts, all on the GPU and some on the CPU.

    Each expert pays its time on its side with the flows of the arcs that it lengthens, and is paid
    its state's price. From the last to the first, `count` of those on the CPU are deferred: a
    dynamic program over how many were there so far. The arcs' constants are left out.

    Parameters
    ----------
    price, flow, loss_price
        The multipliers: shape (entries, 2 x widths), (rows, arcs), and of deferral's loss.
    ways
        0 or 1: whether layers have caches.
    best, table, origin
        For own use: shape (longest row, 6), (longest row + 1, counts + 1) twice.
    alone, some
        Output: the least costs, shape (rows,) and (rows, counts); `TOP` if there are none.
    state
        Output: where every entry is then, shape (entries, 1 + counts), as 3 x state + side; the
        states are not resident at each width, then resident; the sides GPU, CPU, deferred.
    """
    gpu_ns, cpu_ns = steps.gpu_ns, steps.cpu_ns
    widths = gpu_ns.shape[1]
    for row in range(len(flow)):
        to_gpu, to_both = flow[row, 0], flow[row, 0] + flow[row, 1]
        late = flow[row, 3] + flow[row, 4]
        now = flow[row, 1] + flow[row, 2] + late
        last = steps.start[row + 1]
        n = last - steps.start[row]
        alone[row] = 0
        for q in range(n):
            p = last - 1 - q
            best_alone = TOP
            for k in range(3):
                best[q, k] = TOP
            for place in range(2 * widths):
                j = place % widths
                paid = price[p, place]
                if place >= widths or (ways > 0 and steps.seen[p]):
                    value = to_both * gpu_ns[p, j] - paid
                    if value < best_alone:
                        best_alone, state[p, 0] = value, 3 * place
                    value = to_gpu * gpu_ns[p, j] - paid
                    if value < best[q, 0]:
                        best[q, 0], best[q, 3] = value, 3 * place
                if place < widths or host_copy:
                    value = now * cpu_ns[p, j] - paid
                    if value < best[q, 1]:
                        best[q, 1], best[q, 4] = value, 3 * place + 1
                    value = late * cpu_ns[p, j] + loss_price * steps.late_loss[p] - paid
                    if value < best[q, 2]:
                        best[q, 2], best[q, 5] = value, 3 * place + 2
            alone[row] += best_alone
        for count in range(some.shape[1]):
            most = max(count, 1)
            for q in range(n + 1):
                for c in range(most + 1):
                    table[q, c] = TOP
            table[0, 0] = 0
            for q in range(n):
                for c in range(most + 1):
                    if table[q, c] >= TOP:
                        continue
                    value = table[q, c] + best[q, 0]
                    if value < table[q + 1, c]:
                        table[q + 1, c] = value
                        origin[q, c] = best[q, 3] * PACKED + c
                    side, then = 2 if c < count else 1, min(c + 1, most)
                    value = table[q, c] + best[q, side]
                    if value < table[q + 1, then]:
                        table[q + 1, then] = value
                        origin[q, then] = best[q, 3 + side] * PACKED + c
            at = 1
            for c in range(2, most + 1):
                if table[n, c] < table[n, at]:
                    at = c
            some[row, count] = table[n, at]
            if table[n, at] < TOP:
                for q in range(n - 1, -1, -1):
                    state[last - 1 - q, 1 + count] = origin[q, at] // PACKED
                    at = origin[q, at] % PACKED
