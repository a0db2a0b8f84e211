"""Compiled: the subproblem of a whole step, a shortest path over the clocks' difference.

In one step every layer chooses where its experts are and how many it defers, paid prices for
both. Of the two clocks only the difference matters later, c - a: a layer adds g = max(arc 0, arc 1,
c - a + arc 2) to a, and the difference becomes max(arc 3, c - a + arc 4) - g. Below -s, with s a
hand-over, it no longer matters. So a dynamic program over the layers with the difference plus s as
its state is exact. It is rounded down to buckets, which makes no later time longer: what is found
is a lower bound, and exact where times are multiples of a bucket.
"""

import numpy as np

from moeopt.core.compiled import compiled

from .data import Frame, Ints, Steps
from .kernels import TOP

MOST_OPTIONS = 400
"""Of a row: more take the dynamic program too long."""


@compiled
def row_options(
    steps: Steps,
    price: Ints,
    count_price: Ints,
    loss_price: int,
    host_copy: bool,
    first: int,
    last: int,
    counts: int,
    work: Ints,
    value: Ints,
    code: Ints,
) -> int:
    """List what a row may do: time on the GPU, immediate and deferred time, and what is paid.

    Every expert is on one side at one width, in the better of the states that allow it.

    Parameters
    ----------
    count_price
        Paid for each number of deferred experts, shape (counts,).
    work, value, code
        Output: the three times, shape (options, 3), the cost besides time, and count, sides and
        widths as one number.

    Returns
    -------
    int
        How many options there are.
    """
    widths, n = steps.gpu_ns.shape[1], last - first
    total = (2 * widths) ** n
    found = 0
    for count in range(counts):
        for number in range(total):
            gpu, now, late, misses = 0, 0, 0, 0
            paid = -count_price[count]
            rest = number
            # from the last listed expert to the first
            for p in range(last - 1, first - 1, -1):
                option = rest % (2 * widths)
                rest //= 2 * widths
                j = option % widths
                if option < widths:
                    gpu += steps.gpu_ns[p, j]
                    paid -= price[p, widths + j]
                    continue
                best = price[p, j]
                if host_copy:
                    best = max(best, price[p, widths + j])
                paid -= best
                if misses < count:
                    late += steps.cpu_ns[p, j]
                    paid += loss_price * steps.late_loss[p]
                else:
                    now += steps.cpu_ns[p, j]
                misses += 1
            work[found, 0], work[found, 1], work[found, 2] = gpu, now, late
            value[found] = paid
            code[found] = (count * total + number) * 2 + (1 if misses else 0)
            found += 1
    return found


@compiled
def undominated(work: Ints, value: Ints, code: Ints, found: int) -> int:
    """Keep, of options with the same times, the cheapest; return how many are left."""
    kept = 0
    for x in range(found):
        same = -1
        for y in range(kept):
            if (
                work[y, 0] == work[x, 0]
                and work[y, 1] == work[x, 1]
                and work[y, 2] == work[x, 2]
                and code[y] % 2 == code[x] % 2
            ):
                same = y
                break
        if same < 0:
            work[kept] = work[x]
            value[kept], code[kept] = value[x], code[x]
            kept += 1
        elif value[x] < value[same]:
            value[same], code[same] = value[x], code[x]
    return kept


@compiled
def all_steps(
    steps: Steps,
    frame: Frame,
    price: Ints,
    count_price: Ints,
    loss_price: int,
    unit: int,
    bucket_ns: int,
    buckets: int,
    state: Ints,
    counts: Ints,
    losses: Ints,
) -> int:
    """Return the sum of the steps' least costs, each its time times `unit` less what it is paid.

    Parameters
    ----------
    price, count_price
        Shape (entries, 2 x widths) and (rows, counts).
    state
        Output: 3 x state + side of every entry, as in `kernels.all_rows`.
    counts, losses
        Output: how many experts every row defers, and what that loses, shape (rows,).
    """
    layers, rows = len(frame.attention_ns), len(count_price)
    widths, most = steps.gpu_ns.shape[1], count_price.shape[1]
    never = TOP
    label = np.full((layers + 1, buckets), never)
    origin = np.zeros((layers, buckets), dtype=np.int64)
    choice = np.zeros((layers, buckets), dtype=np.int64)
    work = np.zeros((MOST_OPTIONS, 3), dtype=np.int64)
    value = np.zeros(MOST_OPTIONS, dtype=np.int64)
    code = np.zeros(MOST_OPTIONS, dtype=np.int64)
    s = frame.hand_over_ns
    total = 0
    for base in range(0, rows, layers):
        label[:] = never
        label[0, 0] = 0
        for layer in range(layers):
            row = base + layer
            a, shared = frame.attention_ns[layer], frame.shared_ns[layer]
            allowed = most if layer < layers - 1 else 1
            found = row_options(
                steps,
                price,
                count_price[row],
                loss_price,
                frame.host_copy,
                steps.start[row],
                steps.start[row + 1],
                allowed,
                work,
                value,
                code,
            )
            found = undominated(work, value, code, found)
            least = never
            for b in range(buckets):
                if label[layer, b] >= least:
                    continue  # a smaller difference costs no more
                least = label[layer, b]
                apart = b * bucket_ns - s
                for x in range(found):
                    gpu, now, late = work[x, 0], work[x, 1], work[x, 2]
                    g = max(a + shared + gpu, apart + now + s)
                    then = apart + now + late
                    if code[x] % 2:
                        g = max(g, a + 2 * s + now)
                        then = max(then, a + s + now + late)
                    to = max(0, then - g + s) // bucket_ns
                    cost = least + unit * g + value[x]
                    if cost < label[layer + 1, to]:
                        label[layer + 1, to] = cost
                        origin[layer, to], choice[layer, to] = b, code[x]
        best = 0
        for b in range(1, buckets):
            if label[layers, b] < label[layers, best]:
                best = b
        total += label[layers, best]
        for layer in range(layers - 1, -1, -1):
            row = base + layer
            code_found = choice[layer, best]
            losses[row] = _decode(
                steps, price, frame.host_copy, row, code_found, widths, state, counts
            )
            best = origin[layer, best]
    return total


@compiled
def _decode(
    steps: Steps,
    price: Ints,
    host_copy: bool,
    row: int,
    code: int,
    widths: int,
    state: Ints,
    counts: Ints,
) -> int:
    """Set a row's states and count from an option's number; return what its deferred ones lose."""
    first, last = steps.start[row], steps.start[row + 1]
    total = (2 * widths) ** (last - first)
    counts[row] = code // 2 // total
    rest, misses, lost = code // 2 % total, 0, 0
    for p in range(last - 1, first - 1, -1):
        option = rest % (2 * widths)
        rest //= 2 * widths
        j = option % widths
        if option < widths:
            state[p] = 3 * (widths + j)
            continue
        held = host_copy and price[p, widths + j] > price[p, j]
        late = misses < counts[row]
        state[p] = 3 * (j + (widths if held else 0)) + (2 if late else 1)
        misses += 1
        if late:
            lost += steps.late_loss[p]
    return lost
