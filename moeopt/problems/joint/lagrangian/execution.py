"""Compiled: executing a plan, and what single changes add to it. Arcs as in `kernels`."""

import numpy as np

from moeopt.core.compiled import compiled

from .data import Decisions, Flags, Frame, Ints, Steps
from .kernels import ARCS

MOST_SWAPPED = 8
"""Rows run at most so many of the experts that the GPU holds on the CPU."""

NO_ARC = -(2**60)


@compiled
def run_steps(
    steps: Steps, frame: Frame, plan: Decisions, swapped: Flags, hit: Flags, lengths: Ints
) -> tuple[int, int, int]:
    """Execute a plan: return the time of all steps, that of all copies, and the loss deferred.

    In layers that defer nothing the experts on the GPU that are better on the CPU go there, the
    best set of them: the layer ends as early as it can, and nobody waits for its CPU any longer.

    Parameters
    ----------
    swapped
        Output: which entries the GPU holds and the CPU runs, shape (entries,).
    hit
        Output: which entries a cache holds when they are used, residents left out.
    lengths
        Output: of every row's arcs, shape (rows, arcs).
    """
    layers = len(frame.attention_ns)
    used = np.full(plan.held.shape, -1, dtype=np.int64)
    s = frame.hand_over_ns
    total, copies, lost, a, cpu_free, due = 0, 0, 0, 0, 0, 0
    moved = np.zeros(MOST_SWAPPED, dtype=np.int64)
    for row in range(len(steps.start) - 1):
        layer = row % layers
        if layer == 0:
            total += a
            a, cpu_free, due = frame.step_ns, 0, 0
        first, last = steps.start[row], steps.start[row + 1]
        gpu, now, late, misses, deferred, movable = 0, 0, 0, 0, 0, 0
        # from the last listed expert to the first: so many of those on the CPU are deferred
        for p in range(last - 1, first - 1, -1):
            e = steps.expert[p]
            j, there = plan.width[layer, e], plan.held[layer, e]
            hit[p] = False
            if not there and plan.ways[layer] > 0:
                there = hit[p] = _in_cache(used[layer], plan.held[layer], e, plan.ways[layer])
                if not there:
                    copies += steps.copy_ns[p, j]
            swapped[p] = False
            if there:
                gpu += steps.gpu_ns[p, j]
                if movable < MOST_SWAPPED and (frame.host_copy or not plan.held[layer, e]):
                    moved[movable] = p
                    movable += 1
                continue
            misses += 1
            if deferred < plan.deferred[layer]:
                deferred += 1
                late += steps.cpu_ns[p, j]
                lost += steps.late_loss[p]
            else:
                now += steps.cpu_ns[p, j]
        if plan.ways[layer] > 0:
            for p in range(first, last):
                used[layer, steps.expert[p]] = p
        attended = a + frame.attention_ns[layer]
        end = attended + frame.shared_ns[layer] + gpu
        ready = max(attended + s, cpu_free)
        if plan.deferred[layer] == 0 and end > max(due, ready + now + s if misses else 0):
            subset = _best_swap(steps, plan, layer, moved[:movable], end, ready + s, now)
            for m in range(movable):
                if subset >> m & 1:
                    p = moved[m]
                    j = plan.width[layer, steps.expert[p]]
                    gpu, now = gpu - steps.gpu_ns[p, j], now + steps.cpu_ns[p, j]
                    end -= steps.gpu_ns[p, j]
                    swapped[p] = True
                    misses += 1
        _set_arcs(lengths[row], frame, layer, gpu, now, late, misses > 0, frame.attention_ns[layer])
        later = 0
        if misses:
            end = max(end, ready + now + s)
            cpu_free = ready + now + late
            if deferred:
                later = cpu_free + s
        a, due = max(end, due), later
    return total + a, copies, lost


@compiled
def _in_cache(used: Ints, held: Flags, e: int, ways: int) -> bool:
    """Tell whether fewer other non-residents than ways were used since the expert itself."""
    if used[e] < 0:
        return False
    since = 0
    for f in range(len(used)):
        if used[f] > used[e] and not held[f]:
            since += 1
    return since < ways


@compiled
def _best_swap(
    steps: Steps, plan: Decisions, layer: int, moved: Ints, end: int, back: int, now: int
) -> int:
    """Return the set of experts, as bits, that is best moved to the CPU.

    Parameters
    ----------
    end
        When the GPU is done if none is moved.
    back, now
        When the CPU could answer if it did nothing, and what it does if none is moved, in ns.
    """
    best, chosen = end, 0
    for subset in range(1, 1 << len(moved)):
        gpu_end, cpu_end = end, back + now
        for m in range(len(moved)):
            if subset >> m & 1:
                j = plan.width[layer, steps.expert[moved[m]]]
                gpu_end -= steps.gpu_ns[moved[m], j]
                cpu_end += steps.cpu_ns[moved[m], j]
        if max(gpu_end, cpu_end) < best:
            best, chosen = max(gpu_end, cpu_end), subset
    return chosen


@compiled
def _set_arcs(
    arcs: Ints, frame: Frame, layer: int, gpu: int, now: int, late: int, missed: bool, idle: int
) -> None:
    """Set the lengths of a row's arcs; arc 3 is `idle` without experts on the CPU."""
    a, s = frame.attention_ns[layer], frame.hand_over_ns
    arcs[0] = a + frame.shared_ns[layer] + gpu
    arcs[1] = a + 2 * s + now if missed else arcs[0]
    arcs[2] = now + s
    arcs[3] = a + s + now + late if missed else idle
    arcs[4] = now + late


@compiled
def gains(
    steps: Steps,
    frame: Frame,
    plan: Decisions,
    hit: Flags,
    by_state: Ints,
    by_count: Ints,
) -> None:
    """Set what single changes add to the time of all steps and to the loss of deferral.

    Caches stay as they are, and swaps are chosen as if the CPU were free.

    Parameters
    ----------
    hit
        Which entries a cache holds.
    by_state
        Output, of an expert's change: time and loss, shape (2, layers, experts, states).
    by_count
        Output, of another number of deferred experts, shape (2, layers, most + 1).
    """
    layers, widths = len(frame.attention_ns), steps.gpu_ns.shape[1]
    rows = len(steps.start) - 1
    arcs = np.zeros((rows, ARCS), dtype=np.int64)
    lost = np.zeros(rows, dtype=np.int64)
    clock = np.zeros((rows, 2), dtype=np.int64)
    by_state[:] = 0
    by_count[:] = 0
    for row in range(rows):
        layer = row % layers
        count = plan.deferred[layer]
        lost[row] = _changed_row(steps, frame, plan, hit, row, count, -1, 0, arcs[row])
        clock[row, 1] = NO_ARC
        if layer:
            before, a, c = arcs[row - 1], clock[row - 1, 0], clock[row - 1, 1]
            clock[row, 0] = max(a + max(before[0], before[1]), c + before[2])
            clock[row, 1] = max(a + before[3], c + before[4])
    found = np.zeros(ARCS, dtype=np.int64)
    for row in range(rows):
        layer = row % layers
        count = plan.deferred[layer]
        end = _end_of_step(arcs, clock, row, layers, arcs[row])
        for p in range(steps.start[row], steps.start[row + 1]):
            e = steps.expert[p]
            now = plan.width[layer, e] + (widths if plan.held[layer, e] else 0)
            for state in range(2 * widths):
                if state != now:
                    loss = _changed_row(steps, frame, plan, hit, row, count, e, state, found)
                    then = _end_of_step(arcs, clock, row, layers, found)
                    by_state[0, layer, e, state] += then - end
                    by_state[1, layer, e, state] += loss - lost[row]
        if layer < layers - 1:
            for other in range(by_count.shape[2]):
                if other != count:
                    loss = _changed_row(steps, frame, plan, hit, row, other, -1, 0, found)
                    then = _end_of_step(arcs, clock, row, layers, found)
                    by_count[0, layer, other] += then - end
                    by_count[1, layer, other] += loss - lost[row]


@compiled
def _changed_row(
    steps: Steps,
    frame: Frame,
    plan: Decisions,
    hit: Flags,
    row: int,
    count: int,
    who: int,
    state: int,
    arcs: Ints,
) -> int:
    """Set a row's arcs with one expert (-1: none) in another state; return what deferral loses."""
    layer = row % len(frame.attention_ns)
    widths = steps.gpu_ns.shape[1]
    gpu, now, late, misses, deferred, lost, movable = 0, 0, 0, 0, 0, 0, 0
    gpu_ns = np.zeros(MOST_SWAPPED, dtype=np.int64)
    cpu_ns = np.zeros(MOST_SWAPPED, dtype=np.int64)
    for p in range(steps.start[row + 1] - 1, steps.start[row] - 1, -1):
        e = steps.expert[p]
        own, j = plan.held[layer, e], plan.width[layer, e]
        if e == who:
            own, j = state >= widths, state % widths
        if own or hit[p]:
            gpu += steps.gpu_ns[p, j]
            if movable < MOST_SWAPPED and (frame.host_copy or not own):
                gpu_ns[movable], cpu_ns[movable] = steps.gpu_ns[p, j], steps.cpu_ns[p, j]
                movable += 1
            continue
        misses += 1
        if deferred < count:
            deferred += 1
            late += steps.cpu_ns[p, j]
            lost += steps.late_loss[p]
        else:
            now += steps.cpu_ns[p, j]
    s, shared = frame.hand_over_ns, frame.shared_ns[layer]
    if count == 0 and shared + gpu > (2 * s + now if misses else 0):
        best, chosen = shared + gpu, 0
        for subset in range(1, 1 << movable):
            there, here = shared + gpu, 2 * s + now
            for m in range(movable):
                if subset >> m & 1:
                    there, here = there - gpu_ns[m], here + cpu_ns[m]
            if max(there, here) < best:
                best, chosen = max(there, here), subset
        for m in range(movable):
            if chosen >> m & 1:
                gpu, now, misses = gpu - gpu_ns[m], now + cpu_ns[m], misses + 1
    _set_arcs(arcs, frame, layer, gpu, now, late, misses > 0, NO_ARC)
    return lost


@compiled
def _end_of_step(arcs: Ints, clock: Ints, row: int, layers: int, own: Ints) -> int:
    """Return when a step ends whose layer `row` has other arcs."""
    a, c = clock[row, 0], clock[row, 1]
    a, c = max(a + max(own[0], own[1]), c + own[2]), max(a + own[3], c + own[4])
    for later in range(row + 1, row + layers - row % layers):
        arc = arcs[later]
        a, c = max(a + max(arc[0], arc[1]), c + arc[2]), max(a + arc[3], c + arc[4])
    return int(a)
