"""Static and dynamic schedules of parts (KTransformers 3.2), and longest part first.

The paper compares a static schedule with a queue from which threads take parts. It states neither
the grains nor the order of the queue; each function says how that is read here.
"""

from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush

from moeopt.core.clock import spend

from .check import objective
from .instance import Instance, Solution

Part = tuple[int, int]
"""Row of an expert, and which of its parts."""

PARTS_PER_UNIT = 1e6
"""So many parts find their threads in a unit of work."""


def static(instance: Instance) -> Solution:
    """Cut experts into the fewest parts; give threads blocks of equal count.

    All parts stand in the order of the file. Where their number is no multiple of the threads, the
    first threads have one more: KTransformers 3.2 compares with a schedule that is fixed before
    anything runs.
    """
    grains = [instance.choices(row)[0] for row in range(len(instance.experts))]
    counts = [instance.grains[grain] for grain in grains]
    threads = iter(_blocks(sum(counts), instance.threads))
    return _solution(instance, grains, [[next(threads) for _ in range(n)] for n in counts])


def static_all_threads(instance: Instance) -> Solution:
    """Cut each expert over all threads, in blocks of equal count.

    The grain is the coarsest with as many parts as threads, or the finest where none has. With
    fewer parts than threads the last threads do nothing for the expert.
    """
    grains = []
    for row in range(len(instance.experts)):
        choices = instance.choices(row)
        enough = [k for k in choices if instance.grains[k] >= instance.threads]
        grains.append(enough[0] if enough else choices[-1])
    rows = [_blocks(instance.grains[grain], instance.threads) for grain in grains]
    return _solution(instance, grains, rows)


def dynamic(instance: Instance) -> Solution:
    """Cut experts into the most parts; the thread that is free first takes the next one.

    KTransformers 3.2: threads take parts from a queue. It holds expert after expert, in the order
    of the file.
    """
    return _taken(instance, [instance.choices(row)[-1] for row in range(len(instance.experts))])


def dynamic_round_robin(instance: Instance) -> Solution:
    """Cut experts into the most parts; the queue has one part of each expert in turn.

    The thread that is free first takes the next one, as in `dynamic`.
    """
    grains = [instance.choices(row)[-1] for row in range(len(instance.experts))]
    return _taken(instance, grains, in_turn=True)


def lpt(instance: Instance) -> Solution:
    """Put the longest part first on the thread where it ends first, at one grain for all.

    The best over all grains (ties: the coarsest). An expert that lacks a grain takes the next
    coarser one that it has, or the next finer one. Graham's rule knows no loads; here a thread
    that has the expert's input already ends earlier by that.
    """
    found = list[tuple[int, int, Solution]]()
    for parts in sorted(set(instance.grains)):
        grains = [_nearest(instance, row, parts) for row in range(len(instance.experts))]
        solution = longest_first(instance, grains)
        found.append((objective(instance, solution), len(found), solution))
    return min(found)[2]


WARM_START = lpt
"""The heuristic whose solution the exact methods start from."""


def longest_first(instance: Instance, grains: Sequence[int]) -> Solution:
    """Return the schedule of longest part first at given grains."""
    rows: list[list[int]] = [[] for _ in grains]
    order = sorted(range(len(rows)), key=lambda row: -instance.pulled_ns(row, grains[row]))
    others = [(0, thread) for thread in range(instance.threads)]
    for row in order:
        load, pulled = instance.experts[row].load_ns, instance.pulled_ns(row, grains[row])
        touched: list[tuple[int, int]] = []
        for _ in range(instance.grains[grains[row]]):
            # Ends are compared: a thread that has the input already does not load it again.
            new = (others[0][0] + load, others[0][1]) if others else None
            if touched and (new is None or touched[0] <= new):
                end, thread = heappop(touched)
            else:
                end, thread = heappop(others)
                end += load
            heappush(touched, (end + pulled, thread))
            rows[row].append(thread)
        others += touched
        heapify(others)
        spend(len(rows[row]) / PARTS_PER_UNIT)
    return _solution(instance, grains, rows)


def _taken(instance: Instance, grains: list[int], *, in_turn: bool = False) -> Solution:
    """Return the schedule of a queue, from which the thread that is free first takes a part."""
    queue: list[Part] = [
        (row, part) for row, grain in enumerate(grains) for part in range(instance.grains[grain])
    ]
    if in_turn:
        queue.sort(key=lambda one: (one[1], one[0]))
    free = [(0, thread) for thread in range(instance.threads)]
    rows: list[list[int]] = [[] for _ in grains]
    touched: list[set[int]] = [set() for _ in grains]
    for row, _ in queue:
        clock, thread = heappop(free)
        clock += instance.pulled_ns(row, grains[row])
        if thread not in touched[row]:
            clock += instance.experts[row].load_ns
            touched[row].add(thread)
        rows[row].append(thread)
        heappush(free, (clock, thread))
    spend(len(queue) / PARTS_PER_UNIT)
    return _solution(instance, grains, rows)


def _blocks(parts: int, threads: int) -> list[int]:
    """Return the thread of each of some parts in blocks of equal count, the first ones longer."""
    each, longer = divmod(parts, threads)
    return [thread for thread in range(threads) for _ in range(each + (thread < longer))]


def _nearest(instance: Instance, row: int, parts: int) -> int:
    """Return the grain of an expert with so many parts, the next fewer, or the next more."""
    choices = instance.choices(row)
    fewer = [k for k in choices if instance.grains[k] <= parts]
    if not fewer:
        return choices[0]
    most = instance.grains[fewer[-1]]
    return next(k for k in fewer if instance.grains[k] == most)


def _solution(instance: Instance, grains: Iterable[int], rows: Iterable[Iterable[int]]) -> Solution:
    # Valid by construction; validation of 16,000 parts takes longer than the rule.
    return Solution.model_construct(
        problem="threads",
        instance=instance.name,
        grain=tuple(grains),
        thread=tuple(tuple(row) for row in rows),
    )
