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
def side_of(number: int, place: int, sides: int) -> int:
    """Return a digit of a row's choice: on which side, at which width, its expert at a place is.

    A row's choice of sides is a number with one digit for each expert, counted from the last one
    listed. A digit below the number of widths is that width on the GPU; the others are on the CPU.
    """
    return int(number // sides**place % sides)


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
    choice: Ints,
) -> int:
    """List what a row may do: time on the GPU, immediate and deferred time, and what is paid.

    Every expert is on one side at one width, in the better of the states that allow it.

    Parameters
    ----------
    count_price
        Paid for each number of deferred experts, shape (counts,).
    work, value
        Output: the three times, shape (options, 3), and the cost besides time.
    choice
        Output, shape (options, 3): the sides of all experts (`side_of`), the number of experts to
        defer, and 1 if any is on the CPU.

    Returns
    -------
    int
        How many options there are.
    """
    widths, experts = steps.gpu_ns.shape[1], last - first
    sides, found = 2 * widths, 0
    for count in range(counts):
        for number in range(sides**experts):
            gpu_ns, now_ns, late_ns, on_cpu = 0, 0, 0, 0
            cost = -count_price[count]
            for place in range(experts):
                entry = last - 1 - place
                side = side_of(number, place, sides)
                width = side % widths
                if side < widths:
                    gpu_ns += steps.gpu_ns[entry, width]
                    cost -= price[entry, widths + width]
                    continue
                paid = price[entry, width]
                if host_copy:
                    paid = max(paid, price[entry, widths + width])
                cost -= paid
                if on_cpu < count:
                    late_ns += steps.cpu_ns[entry, width]
                    cost += loss_price * steps.late_loss[entry]
                else:
                    now_ns += steps.cpu_ns[entry, width]
                on_cpu += 1
            work[found, 0], work[found, 1], work[found, 2] = gpu_ns, now_ns, late_ns
            value[found] = cost
            choice[found, 0], choice[found, 1], choice[found, 2] = number, count, min(on_cpu, 1)
            found += 1
    return found


@compiled
def undominated(work: Ints, value: Ints, choice: Ints, found: int) -> int:
    """Keep, of options with the same times, the cheapest; return how many are left."""
    kept = 0
    for option in range(found):
        same = -1
        for other in range(kept):
            if (
                work[other, 0] == work[option, 0]
                and work[other, 1] == work[option, 1]
                and work[other, 2] == work[option, 2]
                and choice[other, 2] == choice[option, 2]
            ):
                same = other
                break
        if same < 0:
            same = kept
            work[same] = work[option]
            kept += 1
        elif value[option] >= value[same]:
            continue
        value[same], choice[same] = value[option], choice[option]
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
    most = count_price.shape[1]
    # By layer and bucket of the difference: the least cost so far, the bucket before, the choice.
    least_cost = np.full((layers + 1, buckets), TOP)
    origin = np.zeros((layers, buckets), dtype=np.int64)
    chosen = np.zeros((layers, buckets, 3), dtype=np.int64)
    work = np.zeros((MOST_OPTIONS, 3), dtype=np.int64)
    value = np.zeros(MOST_OPTIONS, dtype=np.int64)
    choice = np.zeros((MOST_OPTIONS, 3), dtype=np.int64)
    hand_over_ns = frame.hand_over_ns
    total = 0
    for base in range(0, rows, layers):
        least_cost[:] = TOP
        least_cost[0, 0] = 0
        for layer in range(layers):
            row = base + layer
            attention_ns, shared_ns = frame.attention_ns[layer], frame.shared_ns[layer]
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
                choice,
            )
            found = undominated(work, value, choice, found)
            before = TOP
            for bucket in range(buckets):
                if least_cost[layer, bucket] >= before:
                    continue  # a smaller difference costs no more
                before = least_cost[layer, bucket]
                apart_ns = bucket * bucket_ns - hand_over_ns
                for option in range(found):
                    gpu_ns, now_ns, late_ns = work[option, 0], work[option, 1], work[option, 2]
                    added_ns = max(
                        attention_ns + shared_ns + gpu_ns, apart_ns + now_ns + hand_over_ns
                    )
                    cpu_free_ns = apart_ns + now_ns + late_ns
                    if choice[option, 2]:
                        added_ns = max(added_ns, attention_ns + 2 * hand_over_ns + now_ns)
                        start_ns = attention_ns + hand_over_ns
                        cpu_free_ns = max(cpu_free_ns, start_ns + now_ns + late_ns)
                    after = max(0, cpu_free_ns - added_ns + hand_over_ns) // bucket_ns
                    cost = before + unit * added_ns + value[option]
                    if cost < least_cost[layer + 1, after]:
                        least_cost[layer + 1, after] = cost
                        origin[layer, after] = bucket
                        chosen[layer, after] = choice[option]
        best = 0
        for bucket in range(1, buckets):
            if least_cost[layers, bucket] < least_cost[layers, best]:
                best = bucket
        total += least_cost[layers, best]
        for layer in range(layers - 1, -1, -1):
            row = base + layer
            number, count = chosen[layer, best, 0], chosen[layer, best, 1]
            counts[row] = count
            losses[row] = _set_states(steps, price, frame.host_copy, row, number, count, state)
            best = origin[layer, best]
    return total


@compiled
def _set_states(
    steps: Steps, price: Ints, host_copy: bool, row: int, number: int, count: int, state: Ints
) -> int:
    """Set where a row's entries are by its choice of sides; return what deferred ones lose."""
    first, last = steps.start[row], steps.start[row + 1]
    widths = steps.gpu_ns.shape[1]
    on_cpu, lost = 0, 0
    for place in range(last - first):
        entry = last - 1 - place
        side = side_of(number, place, 2 * widths)
        width = side % widths
        if side < widths:
            state[entry] = 3 * (widths + width)
            continue
        held = host_copy and price[entry, widths + width] > price[entry, width]
        late = on_cpu < count
        state[entry] = 3 * (width + (widths if held else 0)) + (2 if late else 1)
        on_cpu += 1
        if late:
            lost += steps.late_loss[entry]
    return lost
