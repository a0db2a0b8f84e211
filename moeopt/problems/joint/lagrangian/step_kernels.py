"""Compiled: the subproblem of a whole step, a shortest path over the clocks' difference.

In one step every layer chooses where its experts are and how many it defers, paid prices for
both. Of the two clocks only the difference matters later, c - a: a layer adds g = max(arc 0, arc 1,
c - a + arc 2) to a, and the difference becomes max(arc 3, c - a + arc 4) - g. Below -s, with s a
hand-over, it no longer matters. So a dynamic program over the layers with the difference plus s as
its state is exact. It is rounded down to buckets, which makes no later time longer: what is found
is a lower bound, and exact where times are multiples of a bucket.
"""

from moeopt.core.compiled import compiled

from .data import Frame, Ints, Steps
from .kernels import TOP

MOST_OPTIONS = 400
"""Of a row: more take the dynamic program too long."""


GPU, NOW, LATE, MISSED, COST, SIDES, COUNT = range(7)
"""What is known of an option: time on the GPU, immediate and deferred time, whether any expert is
on the CPU, what it costs besides time, the sides of all experts, and how many are deferred.

The sides are a number with one digit for each expert, counted from the last one listed. A digit
below the number of widths is that width on the GPU; the others are on the CPU.
"""


@compiled
def row_options(
    steps: Steps,
    price: Ints,
    count_price: Ints,
    loss_price: int,
    host_copy: bool,
    row: int,
    counts: int,
    options: Ints,
) -> int:
    """List what a row may do, of options with the same times the cheapest; return how many.

    Every expert is on one side at one width, in the better of the states that allow it.

    Parameters
    ----------
    count_price
        Paid for each number of deferred experts, shape (rows, counts).
    options
        Output, shape (options, 7).
    """
    widths, first, last = steps.gpu_ns.shape[1], steps.start[row], steps.start[row + 1]
    found, numbers = 0, 1
    for _ in range(first, last):
        numbers *= 2 * widths
    for count in range(counts):
        for number in range(numbers):
            gpu_ns, now_ns, late_ns, on_cpu = 0, 0, 0, 0
            cost, rest = -count_price[row, count], number
            for entry in range(last - 1, first - 1, -1):
                side = rest % (2 * widths)
                rest //= 2 * widths
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
            missed, at = min(on_cpu, 1), 0
            while at < found and (
                options[at, GPU] != gpu_ns
                or options[at, NOW] != now_ns
                or options[at, LATE] != late_ns
                or options[at, MISSED] != missed
            ):
                at += 1
            if at < found and options[at, COST] <= cost:
                continue
            found = max(found, at + 1)
            options[at, GPU], options[at, NOW], options[at, LATE] = gpu_ns, now_ns, late_ns
            options[at, MISSED], options[at, COST] = missed, cost
            options[at, SIDES], options[at, COUNT] = number, count
    return found


@compiled
def all_steps(
    steps: Steps,
    frame: Frame,
    price: Ints,
    count_price: Ints,
    loss_price: int,
    unit: int,
    bucket_ns: int,
    options: Ints,
    least_cost: Ints,
    origin: Ints,
    sides: Ints,
    counts: Ints,
) -> int:
    """Return the sum of the steps' least costs, each its time times `unit` less what it is paid.

    Parameters
    ----------
    price, count_price
        Shape (entries, 2 x widths) and (rows, counts).
    options, least_cost, origin
        For own use; the last two by layer and bucket of the difference: the least cost so far,
        shape (layers + 1, buckets), and bucket before, sides and count, shape (layers, buckets, 3).
    sides, counts
        Output: the sides of every row's experts, and how many it defers, shape (rows,).
    """
    layers, buckets = len(frame.attention_ns), least_cost.shape[1]
    hand_over_ns = frame.hand_over_ns
    total = 0
    for base in range(0, len(count_price), layers):
        for layer in range(layers + 1):
            for bucket in range(buckets):
                least_cost[layer, bucket] = TOP
        least_cost[0, 0] = 0
        for layer in range(layers):
            allowed = count_price.shape[1] if layer < layers - 1 else 1
            found = row_options(
                steps,
                price,
                count_price,
                loss_price,
                frame.host_copy,
                base + layer,
                allowed,
                options,
            )
            attention_ns, shared_ns = frame.attention_ns[layer], frame.shared_ns[layer]
            before = TOP
            for bucket in range(buckets):
                if least_cost[layer, bucket] >= before:
                    continue  # a smaller difference costs no more
                before = least_cost[layer, bucket]
                apart_ns = bucket * bucket_ns - hand_over_ns
                for option in range(found):
                    now_ns, late_ns = options[option, NOW], options[option, LATE]
                    added_ns = max(
                        attention_ns + shared_ns + options[option, GPU],
                        apart_ns + now_ns + hand_over_ns,
                    )
                    cpu_free_ns = apart_ns + now_ns + late_ns
                    if options[option, MISSED]:
                        added_ns = max(added_ns, attention_ns + 2 * hand_over_ns + now_ns)
                        start_ns = attention_ns + hand_over_ns
                        cpu_free_ns = max(cpu_free_ns, start_ns + now_ns + late_ns)
                    after = max(0, cpu_free_ns - added_ns + hand_over_ns) // bucket_ns
                    cost = before + unit * added_ns + options[option, COST]
                    if cost < least_cost[layer + 1, after]:
                        least_cost[layer + 1, after] = cost
                        origin[layer, after, 0] = bucket
                        origin[layer, after, 1] = options[option, SIDES]
                        origin[layer, after, 2] = options[option, COUNT]
        best = 0
        for bucket in range(1, buckets):
            if least_cost[layers, bucket] < least_cost[layers, best]:
                best = bucket
        total += least_cost[layers, best]
        for layer in range(layers - 1, -1, -1):
            sides[base + layer] = origin[layer, best, 1]
            counts[base + layer] = origin[layer, best, 2]
            best = origin[layer, best, 0]
    return total
