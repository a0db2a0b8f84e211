"""Compiled: the subproblem of a row, and the execution of a plan.

The arcs of a row, from the two clocks a (attention starts) and c (the CPU is free) to those of the
next layer, with A attention, S shared experts, s a hand-over, G experts on the GPU, I immediate and
D deferred ones on the CPU:

- 0, a to a': A + S + G;
- 1, a to a': A + 2 s + I, without experts on the CPU A + S + G;
- 2, c to a': I + s;
- 3, a to c': A + s + I + D, without experts on the CPU A + the least of s and what the arcs 0 of
  this layer and the next leave of the way to the attention after the next, less s (`idle_ns`);
- 4, c to c': I + D.
"""

import numpy as np
from numpy.typing import NDArray

from moeopt.numeric.compiled import compiled

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

ARCS = 5
MOST_SWAPPED = 8
"""Rows with more experts on the GPU run them all there."""


@compiled
def row_subproblem(first, last, gpu, cpu, late, price, z, mu, count, copy, cached, seen, state):  # type: ignore[no-untyped-def]
    """Return the least cost of a row's experts, and where each one is then.

    Entries `first` to `last`; `price` of shape (entries, 2 x widths) is paid back for being in a
    state: not resident at each width, then resident at each width. `count` experts are deferred.
    `state` gets 3 x state + side (GPU, CPU immediate, CPU deferred).
    Returns two values: with all experts on the GPU, and with some on the CPU; `z` are the flows on
    the arcs. The constant parts of the lengths are not in it.
    """
    widths = gpu.shape[1]
    n = last - first
    both = z[0] + z[1]
    now = z[1] + z[2] + z[3] + z[4]
    after = z[3] + z[4]
    none = both * 0
    never = none + 2**61
    top = max(count, 1)
    # all on the GPU
    alone = none
    for p in range(first, last):
        best = never
        for j in range(widths):
            value = both * gpu[p, j] - price[p, widths + j]
            if value < best:
                best = value
                state[p, 0] = 3 * (widths + j)
            if cached and seen[p]:
                value = both * gpu[p, j] - price[p, j]
                if value < best:
                    best = value
                    state[p, 0] = 3 * j
        alone += best
    # some on the CPU: from the last expert to the first, with how many are on the CPU so far
    table = np.empty((n + 1, top + 1), dtype=price.dtype)
    side = np.empty((n, top + 1), dtype=np.int64)
    table[0, 0] = none
    for c in range(1, top + 1):
        table[0, c] = never
    for q in range(n):
        p = last - 1 - q
        best_gpu, at_gpu = never, 0
        best_now, at_now = never, 0
        best_late, at_late = never, 0
        for j in range(widths):
            value = z[0] * gpu[p, j] - price[p, widths + j]
            if value < best_gpu:
                best_gpu, at_gpu = value, 3 * (widths + j)
            if cached and seen[p]:
                value = z[0] * gpu[p, j] - price[p, j]
                if value < best_gpu:
                    best_gpu, at_gpu = value, 3 * j
            for held in range(1 + copy):
                own = price[p, held * widths + j]
                value = now * cpu[p, j] - own
                if value < best_now:
                    best_now, at_now = value, 3 * (held * widths + j) + 1
                value = after * cpu[p, j] + mu * late[p] - own
                if value < best_late:
                    best_late, at_late = value, 3 * (held * widths + j) + 2
        for c in range(top + 1):
            table[q + 1, c] = never
        for c in range(top + 1):
            if table[q, c] >= never:
                continue
            value = table[q, c] + best_gpu
            if best_gpu < never and value < table[q + 1, c]:
                table[q + 1, c] = value
                side[q, c] = at_gpu * 8192 + c
            deferred = c < count
            value = table[q, c] + (best_late if deferred else best_now)
            then = min(c + 1, top)
            if value < table[q + 1, then]:
                table[q + 1, then] = value
                side[q, then] = (at_late if deferred else at_now) * 8192 + c
    some, at = never, 0
    for c in range(1, top + 1):
        if table[n, c] < some:
            some, at = table[n, c], c
    if some < never:
        for q in range(n - 1, -1, -1):
            state[last - 1 - q, 1] = side[q, at] // 8192
            at = side[q, at] % 8192
    return alone, some


@compiled
def all_rows(start, gpu, cpu, late, price, z, mu, attention, shared, idle, hand_over, copy, ways, seen, most, counts, value, state, lengths, losses):  # type: ignore[no-untyped-def]
    """Solve the subproblems of all rows for every number of deferred experts, by layer.

    `value` of shape (layers, most + 1) gets the sums over the rows; `counts` the best number of
    each layer, `state` what each entry is then (3 x state + side), `lengths` the arcs' lengths and
    `losses` the deferred experts' loss, by layer.
    """
    layers = len(attention)
    rows = len(start) - 1
    both = np.zeros((len(gpu), 2), dtype=np.int64)
    value[:] = 0
    for layer in range(layers):
        least = most if layer < layers - 1 else 0
        for count in range(least + 1):
            for row in range(layer, rows, layers):
                value[layer, count] += _row(row, layer, count, start, gpu, cpu, late, price, z, mu, attention, shared, idle, hand_over, copy, ways[layer], seen, both)[0]  # fmt: skip
        best = 0
        for count in range(1, least + 1):
            if value[layer, count] < value[layer, best]:
                best = count
        counts[layer] = best
        losses[layer] = 0
        for row in range(layer, rows, layers):
            _, missed = _row(row, layer, best, start, gpu, cpu, late, price, z, mu, attention, shared, idle, hand_over, copy, ways[layer], seen, both)  # fmt: skip
            widths = gpu.shape[1]
            on_gpu, immediate, deferred = 0, 0, 0
            for p in range(start[row], start[row + 1]):
                found = both[p, 1 if missed else 0]
                state[p] = found
                width = found // 3 % widths
                if found % 3 == 0:
                    on_gpu += gpu[p, width]
                elif found % 3 == 1:
                    immediate += cpu[p, width]
                else:
                    deferred += cpu[p, width]
                    losses[layer] += late[p]
            _set_lengths(lengths, row, missed, attention[layer], shared[layer], idle[layer], hand_over, on_gpu, immediate, deferred)  # fmt: skip


@compiled
def _row(row, layer, count, start, gpu, cpu, late, price, z, mu, attention, shared, idle, hand_over, copy, ways, seen, state):  # type: ignore[no-untyped-def]
    """Return a row's least cost, and whether anything is on the CPU then."""
    flow = z[row]
    alone, some = row_subproblem(start[row], start[row + 1], gpu, cpu, late, price, flow, mu, count, copy, ways > 0, seen, state)  # fmt: skip
    a, s = attention[layer], hand_over
    if alone < 2**60:
        alone += (flow[0] + flow[1]) * (a + shared[layer]) + flow[2] * s + flow[3] * (a + idle[layer])  # fmt: skip
    if some < 2**60:
        some += flow[0] * (a + shared[layer]) + flow[1] * (a + 2 * s)
        some += flow[2] * s + flow[3] * (a + s)
    if some < alone:
        return some, True
    return alone, False


@compiled
def _set_lengths(lengths, row, missed, a, shared, idle, s, on_gpu, immediate, deferred):  # type: ignore[no-untyped-def]
    lengths[row, 0] = a + shared + on_gpu
    lengths[row, 1] = a + 2 * s + immediate if missed else a + shared + on_gpu
    lengths[row, 2] = immediate + s
    lengths[row, 3] = a + s + immediate + deferred if missed else a + idle
    lengths[row, 4] = immediate + deferred


@compiled
def run_steps(start, expert, gpu, cpu, copy_ns, late, attention, shared, hand_over, step, copy, held, width, ways, deferred, swapped, lengths):  # type: ignore[no-untyped-def]
    """Execute a plan: return the time of all steps, that of all copies, and the loss deferred.

    In layers that defer nothing the experts on the GPU that are better on the CPU go there, the
    best set of them: the layer ends as early as it can, and nobody waits for its CPU any longer.
    """
    layers = len(attention)
    rows = len(start) - 1
    experts = held.shape[1]
    used = np.full((layers, experts), -1, dtype=np.int64)
    total, copies, lost = 0, 0, 0
    now, cpu_free, due = 0, 0, 0
    on = np.zeros(64, dtype=np.int64)
    for row in range(rows):
        layer = row % layers
        if layer == 0:
            total += now
            now, cpu_free, due = step, 0, 0
        first, last = start[row], start[row + 1]
        a, s = attention[layer], hand_over
        on_gpu, on_cpu, movable = 0, 0, 0
        # from the last listed expert to the first: so many of those on the CPU are deferred
        misses, put_off, put_off_ns = 0, 0, 0
        for p in range(last - 1, first - 1, -1):
            e = expert[p]
            j = width[layer, e]
            there = held[layer, e]
            if not there and ways[layer] > 0:
                there = _in_cache(used[layer], held[layer], e, ways[layer])
                if not there:
                    copies += copy_ns[p, j]
            swapped[p] = False
            if there:
                on_gpu += gpu[p, j]
                if movable < 64 and (copy or not held[layer, e]):
                    on[movable] = p
                    movable += 1
            else:
                if put_off < deferred[layer]:
                    put_off += 1
                    put_off_ns += cpu[p, j]
                    lost += late[p]
                else:
                    on_cpu += cpu[p, j]
                misses += 1
        if ways[layer] > 0:
            for p in range(first, last):
                used[layer, expert[p]] = p
        if deferred[layer] == 0 and 0 < movable <= MOST_SWAPPED:
            ready = max(now + a + s, cpu_free)
            cpu_end = ready + on_cpu + s if misses else 0
            if now + a + shared[layer] + on_gpu > max(cpu_end, due):
                best = max(now + a + shared[layer] + on_gpu, cpu_end)
                chosen = 0
                for subset in range(1, 1 << movable):
                    there_ns, here_ns = on_gpu, on_cpu
                    for m in range(movable):
                        if subset >> m & 1:
                            j = width[layer, expert[on[m]]]
                            there_ns -= gpu[on[m], j]
                            here_ns += cpu[on[m], j]
                    end = max(now + a + shared[layer] + there_ns, ready + here_ns + s)
                    if end < best:
                        best, chosen = end, subset
                for m in range(movable):
                    if chosen >> m & 1:
                        j = width[layer, expert[on[m]]]
                        on_gpu -= gpu[on[m], j]
                        on_cpu += cpu[on[m], j]
                        swapped[on[m]] = True
                        misses += 1
        _set_lengths(lengths, row, misses > 0, a, shared[layer], 0, s, on_gpu, on_cpu, put_off_ns)  # fmt: skip
        end = now + a + shared[layer] + on_gpu
        later = 0
        if misses:
            cpu_free = max(now + a + s, cpu_free) + on_cpu
            end = max(end, cpu_free + s)
            cpu_free += put_off_ns
            if put_off:
                later = cpu_free + s
        now, due = max(end, due), later
    return total + now, copies, lost


@compiled
def _in_cache(used, held, e, ways):  # type: ignore[no-untyped-def]
    """Tell whether fewer other non-residents than ways were used since the expert itself."""
    if used[e] < 0:
        return False
    since = 0
    for f in range(len(used)):
        if used[f] > used[e] and not held[f]:
            since += 1
    return since < ways


@compiled
def experts_best(cost, weight, chosen):  # type: ignore[no-untyped-def]
    """Choose each expert's state at its least cost plus weight; return the sum.

    Shapes (cells, states), (cells, states) and (cells,).
    """
    total = cost[0, 0] * 0
    for cell in range(len(cost)):
        best = 0
        for state in range(1, cost.shape[1]):
            if cost[cell, state] + weight[cell, state] < cost[cell, best] + weight[cell, best]:
                best = state
        chosen[cell] = best
        total += cost[cell, best] + weight[cell, best]
    return total


@compiled
def _changed_row(first, last, layer, expert, gpu, cpu, late, attention, shared, hand_over, copy, held, width, hit, count, who, state, found):  # type: ignore[no-untyped-def]
    """Set `found` to a row's arcs with one expert (none: -1) in another state; return its loss.

    As `run_steps`, but the CPU is taken to be free when experts may go there, what caches hold
    stands in `hit`, and arc 3 is not there without experts on the CPU.
    """
    widths = gpu.shape[1]
    on_gpu, on_cpu, misses, put_off, put_off_ns, lost, movable = 0, 0, 0, 0, 0, 0, 0
    on = np.zeros(MOST_SWAPPED, dtype=np.int64)
    at = np.zeros(MOST_SWAPPED, dtype=np.int64)
    for p in range(last - 1, first - 1, -1):
        e = expert[p]
        own, j = held[layer, e], width[layer, e]
        if e == who:
            own, j = state >= widths, state % widths
        if own or hit[p]:
            on_gpu += gpu[p, j]
            if movable < MOST_SWAPPED and (copy or not own):
                on[movable], at[movable] = p, j
                movable += 1
        else:
            misses += 1
            if put_off < count:
                put_off += 1
                put_off_ns += cpu[p, j]
                lost += late[p]
            else:
                on_cpu += cpu[p, j]
    a, s = attention[layer], hand_over
    cpu_end = 2 * s + on_cpu if misses else 0
    if count == 0 and movable and shared[layer] + on_gpu > cpu_end:
        best, chosen = shared[layer] + on_gpu, 0
        for subset in range(1, 1 << movable):
            there_ns, here_ns = on_gpu, on_cpu
            for m in range(movable):
                if subset >> m & 1:
                    there_ns -= gpu[on[m], at[m]]
                    here_ns += cpu[on[m], at[m]]
            end = max(shared[layer] + there_ns, 2 * s + here_ns)
            if end < best:
                best, chosen = end, subset
        for m in range(movable):
            if chosen >> m & 1:
                on_gpu -= gpu[on[m], at[m]]
                on_cpu += cpu[on[m], at[m]]
                misses += 1
    found[0] = a + shared[layer] + on_gpu
    found[1] = a + 2 * s + on_cpu if misses else found[0]
    found[2] = on_cpu + s
    found[3] = a + s + on_cpu + put_off_ns if misses else -(2**60)
    found[4] = on_cpu + put_off_ns
    return lost


@compiled
def _end_of_step(lengths, row, layer, layers, a, c, first):  # type: ignore[no-untyped-def]
    """Return when a step ends from the clocks of a layer on, whose arcs are `first`."""
    to_a = max(a + max(first[0], first[1]), c + first[2])
    to_c = max(a + first[3], c + first[4])
    for later in range(1, layers - layer):
        arc = lengths[row + later]
        a, c = to_a, to_c
        to_a = max(a + max(arc[0], arc[1]), c + arc[2])
        to_c = max(a + arc[3], c + arc[4])
    return to_a


@compiled
def gains(start, expert, gpu, cpu, late, attention, shared, hand_over, copy, held, width, deferred, hit, most, by_state, by_state_loss, by_count, by_count_loss):  # type: ignore[no-untyped-def]
    """Return the time of all steps, and set what single changes add to time and deferral loss.

    `by_state` and `by_state_loss` of shape (layers, experts, states), `by_count` and
    `by_count_loss` of shape (layers, most + 1).
    """
    layers, experts = held.shape
    rows = len(start) - 1
    widths = gpu.shape[1]
    lengths = np.zeros((rows, ARCS), dtype=np.int64)
    lost = np.zeros(rows, dtype=np.int64)
    clock = np.zeros((rows, 2), dtype=np.int64)
    ends = np.zeros(rows // layers, dtype=np.int64)
    total = 0
    by_state[:] = 0
    by_state_loss[:] = 0
    by_count[:] = 0
    by_count_loss[:] = 0
    for row in range(rows):
        layer = row % layers
        lost[row] = _changed_row(start[row], start[row + 1], layer, expert, gpu, cpu, late, attention, shared, hand_over, copy, held, width, hit, deferred[layer], -1, 0, lengths[row])  # fmt: skip
        if layer == 0:
            clock[row, 1] = -(2**60)
        else:
            arc, a, c = lengths[row - 1], clock[row - 1, 0], clock[row - 1, 1]
            clock[row, 0] = max(a + max(arc[0], arc[1]), c + arc[2])
            clock[row, 1] = max(a + arc[3], c + arc[4])
        if layer == layers - 1:
            ends[row // layers] = _end_of_step(lengths, row, layer, layers, clock[row, 0], clock[row, 1], lengths[row])  # fmt: skip
            total += ends[row // layers]
    found = np.zeros(ARCS, dtype=np.int64)
    for row in range(rows):
        layer, end = row % layers, ends[row // layers]
        first, last = start[row], start[row + 1]
        for p in range(first, last):
            e = expert[p]
            now = width[layer, e] + (widths if held[layer, e] else 0)
            for state in range(2 * widths):
                if state != now:
                    loss = _changed_row(first, last, layer, expert, gpu, cpu, late, attention, shared, hand_over, copy, held, width, hit, deferred[layer], e, state, found)  # fmt: skip
                    then = _end_of_step(lengths, row, layer, layers, clock[row, 0], clock[row, 1], found)  # fmt: skip
                    by_state[layer, e, state] += then - end
                    by_state_loss[layer, e, state] += loss - lost[row]
        if layer < layers - 1:
            for count in range(most + 1):
                if count != deferred[layer]:
                    loss = _changed_row(first, last, layer, expert, gpu, cpu, late, attention, shared, hand_over, copy, held, width, hit, count, -1, 0, found)  # fmt: skip
                    then = _end_of_step(lengths, row, layer, layers, clock[row, 0], clock[row, 1], found)  # fmt: skip
                    by_count[layer, count] += then - end
                    by_count_loss[layer, count] += loss - lost[row]
    return total
