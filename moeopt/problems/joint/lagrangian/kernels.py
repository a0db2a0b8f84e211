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

Compiled: the subproblem of a whole step, a shortest path over the clocks' difference.

In one step every layer chooses where its experts are and how many it defers, paid prices for
both. Of the two clocks only the difference matters later, c - a: a layer adds g = max(arc 0, arc 1,
c - a + arc 2) to a, and the difference becomes max(arc 3, c - a + arc 4) - g. Below -s, with s a
hand-over, it no longer matters. So a dynamic program over the layers with the difference plus s as
its state is exact. It is rounded down to buckets, which makes no later time longer: what is found
is a lower bound, and exact where times are multiples of a bucket.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from moeopt.core.compiled import inner, part, short

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


class Steps(NamedTuple):
    """The steps; row ``step * layers + layer``, entry: an expert with tokens in a row.

    Attributes
    ----------
    start
        Where a row's entries begin, and the end of the last, shape (rows + 1,).
    expert
        Shape (entries,), like all that follow.
    gpu_ns, cpu_ns, copy_ns
        Its times by width, shape (entries, widths).
    late_loss
        Its loss if it is deferred.
    others
        Which others its layer used since it was used last, as `gpu_memory.others_since` has them.
    """

    start: Ints
    expert: Ints
    gpu_ns: Ints
    cpu_ns: Ints
    copy_ns: Ints
    late_loss: Ints
    others: Ints


class Frame(NamedTuple):
    """What a context's layers take besides their routed experts; arrays of shape (layers,).

    Attributes
    ----------
    idle_ns
        How much later than the end of attention the CPU counts as free where it has no experts;
        see `relaxation`.
    step_ns, hand_over_ns
        Before the first layer, and from GPU to CPU or back.
    host_copy
        Whether residents may run on the CPU.
    """

    attention_ns: Ints
    shared_ns: Ints
    idle_ns: Ints
    step_ns: int
    hand_over_ns: int
    host_copy: bool


class Decisions(NamedTuple):
    """Residents and places of widths, shape (layers, experts); ways and deferred, (layers,).

    With them what follows: which entries a cache holds when they are used, residents left out.
    """

    held: Flags
    width: Ints
    ways: Ints
    deferred: Ints
    hit: Flags


ARCS = 5

FEW, SOME = 2**11, 2**13
"""Up to so many numbers plain Python takes milliseconds at first; of them `SOME` for whole steps,
which need that much room for themselves."""

TOP = 2**61
"""Above any value."""

PACKED = 2**13
"""Above any count of experts on the CPU that is kept apart."""


@short(FEW)
def solve_rows(
    steps: Steps,
    price: Ints,
    flow: Ints,
    loss_price: int,
    hit: Ints,
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
    hit
        What the GPU pays for an expert that a cache holds, -1 where none does; then what rows are
        paid that run all on the CPU, which `all_steps` looks at alone. Shape (entries + rows,).
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
                if place >= widths or hit[p] >= 0:
                    paid -= hit[p] if place < widths else 0
                    value = to_both * gpu_ns[p, j] - paid
                    if value < best_alone:
                        best_alone, state[p, 0] = value, 3 * place
                    value = to_gpu * gpu_ns[p, j] - paid
                    if value < best[q, 0]:
                        best[q, 0], best[q, 3] = value, 3 * place
                    paid = price[p, place]
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


MOST_OPTIONS = 400
"""Of a row: more take the dynamic program too long."""


GPU, NOW, LATE, MISSED, COST, SIDES, COUNT = range(7)
"""What is known of an option: time on the GPU, immediate and deferred time, whether any expert is
on the CPU, what it costs besides time, the sides of all experts, and how many are deferred.

The sides are a number with one digit for each expert, counted from the last one listed: its width
on the GPU, on the CPU, or, with caches, on the GPU that finds it in one, `widths` digits each.
"""


@part
def row_options(
    steps: Steps,
    price: Ints,
    count_price: Ints,
    loss_price: int,
    hit: Ints,
    digits: int,
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
    hit, digits
        As in `solve_rows`, and how many sides there are.
    options
        Output, shape (options, 7).
    """
    widths, first, last = steps.gpu_ns.shape[1], steps.start[row], steps.start[row + 1]
    found, numbers = 0, 1
    for _ in range(first, last):
        numbers *= digits
    for count in range(counts):
        for number in range(numbers):
            gpu_ns, now_ns, late_ns, on_cpu = 0, 0, 0, 0
            cost, rest, known = -count_price[row, count], number, True
            for entry in range(last - 1, first - 1, -1):
                side = rest % digits
                rest //= digits
                width = side % widths
                if side >= 2 * widths:
                    if hit[entry] < 0:
                        known = False
                        break
                    gpu_ns += steps.gpu_ns[entry, width]
                    cost += hit[entry] - price[entry, width]
                    continue
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
            if not known:
                continue
            if on_cpu == last - first:
                cost -= hit[len(price) + row]
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


@short(SOME)
def all_steps(
    steps: Steps,
    frame: Frame,
    price: Ints,
    count_price: Ints,
    loss_price: int,
    hit: Ints,
    digits: int,
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
    price, count_price, hit, digits
        Shape (entries, 2 x widths) and (rows, counts), and as in `row_options`.
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
                hit,
                digits,
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


MOST_SWAPPED = 8
"""Rows run at most so many of the experts that the GPU holds on the CPU."""

NO_ARC = -(2**60)

LOST, START_A, START_C = ARCS, ARCS + 1, ARCS + 2
"""What else is known of a row besides its arcs: the loss deferred, and the clocks before it."""


@short(FEW)
def run_steps(
    steps: Steps, frame: Frame, plan: Decisions, used: Ints, moved: Ints, swapped: Flags, arcs: Ints
) -> tuple[int, int]:
    """Execute a plan, and return the time of all steps and of all copies.

    See `_serve_row` for the outputs, and `cache_hits` for `used` and what caches hold.
    """
    layers = len(frame.attention_ns)
    total, copies, a, c = 0, 0, 0, 0
    for layer in range(layers):
        if plan.ways[layer]:
            copies += cache_hits(steps, plan, layer, used)
    for row in range(len(steps.start) - 1):
        if row % layers == 0:
            total += a
            a, c = frame.step_ns, NO_ARC
        arcs[row, START_A], arcs[row, START_C] = a, c
        _serve_row(steps, frame, plan, row, moved, swapped, arcs, row)
        a, c = (
            max(a + max(arcs[row, 0], arcs[row, 1]), c + arcs[row, 2]),
            max(a + arcs[row, 3], c + arcs[row, 4]),
        )
    return total + a, copies


@inner
def _serve_row(
    steps: Steps,
    frame: Frame,
    plan: Decisions,
    row: int,
    moved: Ints,
    swapped: Flags,
    arcs: Ints,
    at: int,
) -> None:
    """Set a row's arcs.

    In layers that defer nothing the experts on the GPU that are better on the CPU go there, the
    best set of them: the layer ends as early as it can, and nobody waits for its CPU any longer.

    Parameters
    ----------
    moved
        For own use, shape (MOST_SWAPPED, 2).
    swapped
        Output: which of the row's entries the GPU holds and the CPU runs.
    arcs
        The clocks before the row. Output, at row `at`: the arcs, 3 is `NO_ARC` without experts on
        the CPU; the loss deferred.
    """
    layer = row % len(frame.attention_ns)
    count, a = plan.deferred[layer], frame.attention_ns[layer]
    apart = arcs[row, START_C] - arcs[row, START_A] - a
    gpu, now, late, misses, deferred, lost, movable = 0, 0, 0, 0, 0, 0, 0
    # from the last listed expert to the first: so many of those on the CPU are deferred
    for p in range(steps.start[row + 1] - 1, steps.start[row] - 1, -1):
        held, j = plan.held[layer, steps.expert[p]], plan.width[layer, steps.expert[p]]
        swapped[p] = False
        if held or plan.hit[p]:
            gpu += steps.gpu_ns[p, j]
            if movable < MOST_SWAPPED and (frame.host_copy or not held):
                moved[movable, 0], moved[movable, 1] = p, j
                movable += 1
            continue
        misses += 1
        if deferred < count:
            deferred += 1
            late += steps.cpu_ns[p, j]
            lost += steps.late_loss[p]
        else:
            now += steps.cpu_ns[p, j]
    s, end = frame.hand_over_ns, frame.shared_ns[layer] + gpu
    back = max(s, apart) + s
    if count == 0 and end > max(apart + s, back + now if misses else 0):
        best, chosen = end, 0
        for subset in range(1, 1 << movable):
            there, here = end, back + now
            for m in range(movable):
                if subset >> m & 1:
                    there -= steps.gpu_ns[moved[m, 0], moved[m, 1]]
                    here += steps.cpu_ns[moved[m, 0], moved[m, 1]]
            if max(there, here) < best:
                best, chosen = max(there, here), subset
        for m in range(movable):
            if chosen >> m & 1:
                gpu -= steps.gpu_ns[moved[m, 0], moved[m, 1]]
                now += steps.cpu_ns[moved[m, 0], moved[m, 1]]
                swapped[moved[m, 0]] = True
                misses += 1
    arcs[at, 0] = a + frame.shared_ns[layer] + gpu
    arcs[at, 1] = a + 2 * s + now if misses else arcs[at, 0]
    arcs[at, 2] = now + s
    arcs[at, 3] = a + s + now + late if misses else NO_ARC
    arcs[at, 4] = now + late
    arcs[at, LOST] = lost


@short(FEW)
def cache_hits(steps: Steps, plan: Decisions, layer: int, used: Ints) -> int:
    """Set what a layer's cache holds when it is used, and return the time of its copies.

    A cache holds an expert if since its last use fewer other non-residents were used than ways.

    Parameters
    ----------
    used
        For own use, shape (experts,).
    """
    layers, experts = plan.held.shape
    copies = 0
    for e in range(experts):
        used[e] = -1
    for row in range(layer, len(steps.start) - 1, layers):
        for p in range(steps.start[row], steps.start[row + 1]):
            e = steps.expert[p]
            since = 0
            for f in range(experts):
                if used[f] > used[e] and not plan.held[layer, f]:
                    since += 1
            plan.hit[p] = used[e] >= 0 and since < plan.ways[layer] and not plan.held[layer, e]
            if plan.ways[layer] and not (plan.hit[p] or plan.held[layer, e]):
                copies += steps.copy_ns[p, plan.width[layer, e]]
        for p in range(steps.start[row], steps.start[row + 1]):
            used[steps.expert[p]] = p
    return copies


@short(FEW)
def outcomes(
    steps: Steps,
    frame: Frame,
    plan: Decisions,
    trial: Decisions,
    layer: Ints,
    other: Decisions,
    used: Ints,
    moved: Ints,
    swapped: Flags,
    arcs: Ints,
    added: Ints,
) -> None:
    """Set what other decisions for a layer add, each alone; what later layers swap stays.

    Parameters
    ----------
    plan, trial
        The plan, and a copy of it for own use.
    layer, other
        Layers, shape (changes,), and decisions in their place: each field has one row for each.
    used, moved, swapped, arcs
        For own use; arcs have one row more than the steps.
    added
        Output: the time of all steps, loss deferred and time of copies, shape (changes, 3).
    """
    (layers, experts), rows = plan.held.shape, len(steps.start) - 1
    run_steps(steps, frame, trial, used, moved, swapped, arcs)
    run_steps(steps, frame, plan, used, moved, swapped, arcs)
    copies = np.zeros(layers, dtype=np.int64)
    for at in range(layers):
        if plan.ways[at]:
            copies[at] = cache_hits(steps, plan, at, used)
    left = np.zeros((rows, 2), dtype=np.int64)
    for row in range(rows - 1, -1, -1):
        left[row, 0] = _end_of_step(arcs, layers, left, row, row, 0, NO_ARC)
        left[row, 1] = _end_of_step(arcs, layers, left, row, row, NO_ARC, 0)
    for n in range(len(layer)):
        at = layer[n]
        for e in range(experts):
            trial.held[at, e], trial.width[at, e] = other.held[n, e], other.width[n, e]
        trial.ways[at], trial.deferred[at] = other.ways[n], other.deferred[n]
        if plan.ways[at] or trial.ways[at]:
            added[n, 2] = cache_hits(steps, trial, at, used) - copies[at]
        for row in range(at, rows, layers):
            same = trial.deferred[at] == plan.deferred[at]
            for p in range(steps.start[row], steps.start[row + 1]):
                e = steps.expert[p]
                same &= trial.held[at, e] == plan.held[at, e] and trial.hit[p] == plan.hit[p]
                same &= trial.width[at, e] == plan.width[at, e]
            if same:
                continue
            _serve_row(steps, frame, trial, row, moved, swapped, arcs, rows)
            a, c = arcs[row, START_A], arcs[row, START_C]
            end = _end_of_step(arcs, layers, left, row, row, a, c)
            added[n, 0] += _end_of_step(arcs, layers, left, row, rows, a, c) - end
            added[n, 1] += arcs[rows, LOST] - arcs[row, LOST]
        for e in range(experts):
            trial.held[at, e], trial.width[at, e] = plan.held[at, e], plan.width[at, e]
        trial.ways[at], trial.deferred[at] = plan.ways[at], plan.deferred[at]
        for row in range(at, rows, layers):
            for p in range(steps.start[row], steps.start[row + 1]):
                trial.hit[p] = plan.hit[p]


@inner
def _end_of_step(arcs: Ints, layers: int, left: Ints, row: int, at: int, a: int, c: int) -> int:
    """Return when a step ends: `row` begins at these clocks, has the arcs of `at`, then `left`."""
    end: int = max(a + max(arcs[at, 0], arcs[at, 1]), c + arcs[at, 2])
    if row % layers < layers - 1:
        end = max(end + left[row + 1, 0], max(a + arcs[at, 3], c + arcs[at, 4]) + left[row + 1, 1])
    return end
