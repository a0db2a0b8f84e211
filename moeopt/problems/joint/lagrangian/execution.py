"""Compiled: executing a plan, and what single changes add to it. Arcs as in `kernels`."""

from moeopt.core.compiled import compiled

from .data import Decisions, Flags, Frame, Ints, Steps
from .kernels import ARCS

MOST_SWAPPED = 8
"""Rows run at most so many of the experts that the GPU holds on the CPU."""

NO_ARC = -(2**60)


@compiled
def run_steps(
    steps: Steps, frame: Frame, plan: Decisions, moved: Ints, swapped: Flags, arcs: Ints
) -> int:
    """Execute a plan, and return the time of all steps; see `_serve_row` for the outputs."""
    layers = len(frame.attention_ns)
    total, a, c = 0, 0, 0
    for row in range(len(steps.start) - 1):
        layer = row % layers
        if layer == 0:
            total += a
            a, c = frame.step_ns, NO_ARC
        apart, count = c - a - frame.attention_ns[layer], plan.deferred[layer]
        _serve_row(steps, frame, plan, row, count, -1, 0, apart, moved, swapped, arcs, row)
        a, c = (
            max(a + max(arcs[row, 0], arcs[row, 1]), c + arcs[row, 2]),
            max(a + arcs[row, 3], c + arcs[row, 4]),
        )
    return total + a


@compiled
def _serve_row(
    steps: Steps,
    frame: Frame,
    plan: Decisions,
    row: int,
    count: int,
    who: int,
    state: int,
    apart: int,
    moved: Ints,
    swapped: Flags,
    arcs: Ints,
    at: int,
) -> None:
    """Set a row's arcs if `count` experts are deferred, with one expert in another state.

    In layers that defer nothing the experts on the GPU that are better on the CPU go there, the
    best set of them: the layer ends as early as it can, and nobody waits for its CPU any longer.

    Parameters
    ----------
    who, state
        The expert, -1 for none.
    apart
        How much later than the end of attention the CPU is free.
    moved
        For own use, shape (MOST_SWAPPED, 2).
    swapped
        Output: which of the row's entries the GPU holds and the CPU runs.
    arcs
        Output, at row `at`: the arcs, 3 is `NO_ARC` without experts on the CPU; the loss deferred.
    """
    layer, widths = row % len(frame.attention_ns), steps.gpu_ns.shape[1]
    gpu, now, late, misses, deferred, lost, movable = 0, 0, 0, 0, 0, 0, 0
    # from the last listed expert to the first: so many of those on the CPU are deferred
    for p in range(steps.start[row + 1] - 1, steps.start[row] - 1, -1):
        e = steps.expert[p]
        held, j = plan.held[layer, e], plan.width[layer, e]
        if e == who:
            held, j = state >= widths, state % widths
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
    a, s, end = frame.attention_ns[layer], frame.hand_over_ns, frame.shared_ns[layer] + gpu
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
    arcs[at, ARCS] = lost


@compiled
def cache_hits(steps: Steps, plan: Decisions, used: Ints) -> int:
    """Set what the caches hold when it is used, and return the time of all copies.

    A cache holds an expert if since its last use fewer other non-residents were used than ways.

    Parameters
    ----------
    used
        -1 for each expert, shape (layers, experts); for own use.
    """
    layers, experts = plan.held.shape
    copies = 0
    for row in range(len(steps.start) - 1):
        layer = row % layers
        if plan.ways[layer] == 0:
            continue
        for p in range(steps.start[row], steps.start[row + 1]):
            e = steps.expert[p]
            if plan.held[layer, e]:
                continue
            since = 0
            for f in range(experts):
                if used[layer, f] > used[layer, e] and not plan.held[layer, f]:
                    since += 1
            plan.hit[p] = used[layer, e] >= 0 and since < plan.ways[layer]
            if not plan.hit[p]:
                copies += steps.copy_ns[p, plan.width[layer, e]]
        for p in range(steps.start[row], steps.start[row + 1]):
            used[layer, steps.expert[p]] = p
    return copies


@compiled
def gains(
    steps: Steps,
    frame: Frame,
    plan: Decisions,
    moved: Ints,
    swapped: Flags,
    arcs: Ints,
    by_state: Ints,
    by_count: Ints,
) -> None:
    """Add up what single changes add to the time of all steps and to the loss of deferral.

    Caches stay as they are, and swaps are chosen as if the CPU were free.

    Parameters
    ----------
    moved, swapped, arcs
        For own use; arcs have one row more than the steps.
    by_state
        Output, of an expert's change: time and loss, shape (2, layers, experts, states).
    by_count
        Output, of another number of deferred experts, shape (2, layers, most + 1).
    """
    layers, widths, rows = len(frame.attention_ns), steps.gpu_ns.shape[1], len(steps.start) - 1
    for row in range(rows):
        count = plan.deferred[row % layers]
        _serve_row(steps, frame, plan, row, count, -1, 0, NO_ARC, moved, swapped, arcs, row)
    a, c = 0, NO_ARC
    for row in range(rows):
        layer = row % layers
        if layer == 0:
            a, c = 0, NO_ARC
        count = plan.deferred[layer]
        end, lost = _end_of_step(arcs, layers, row, row, a, c), arcs[row, ARCS]
        for p in range(steps.start[row], steps.start[row + 1]):
            e = steps.expert[p]
            own = plan.width[layer, e] + (widths if plan.held[layer, e] else 0)
            for state in range(2 * widths):
                if state != own:
                    _serve_row(
                        steps, frame, plan, row, count, e, state, NO_ARC, moved, swapped, arcs, rows
                    )
                    by_state[0, layer, e, state] += (
                        _end_of_step(arcs, layers, row, rows, a, c) - end
                    )
                    by_state[1, layer, e, state] += arcs[rows, ARCS] - lost
        if layer < layers - 1:
            for other in range(by_count.shape[2]):
                if other != count:
                    _serve_row(
                        steps, frame, plan, row, other, -1, 0, NO_ARC, moved, swapped, arcs, rows
                    )
                    by_count[0, layer, other] += _end_of_step(arcs, layers, row, rows, a, c) - end
                    by_count[1, layer, other] += arcs[rows, ARCS] - lost
        a, c = (
            max(a + max(arcs[row, 0], arcs[row, 1]), c + arcs[row, 2]),
            max(a + arcs[row, 3], c + arcs[row, 4]),
        )


@compiled
def _end_of_step(arcs: Ints, layers: int, row: int, at: int, a: int, c: int) -> int:
    """Return when a step ends whose layer `row` begins at these clocks, with the arcs of `at`."""
    for later in range(row, row + layers - row % layers):
        n = at if later == row else later
        a, c = (
            max(a + max(arcs[n, 0], arcs[n, 1]), c + arcs[n, 2]),
            max(a + arcs[n, 3], c + arcs[n, 4]),
        )
    return a
