"""Fill threads up to a target, and lower the target: exact where the lower bound is met.

Experts come by falling work. One that fits on a thread as a whole goes where it leaves least room;
any other is cut, at the grain that takes least in all, and its parts go to the threads with most
room, so that few of them load its input. Bisection finds a low target. Then orders that differ a
little from the first one are drawn, each for a target below the best makespan, until they have
found nothing better for long.

Proof. A filled schedule is a solution, judged by the checker; `bounds.lower_bound` is proven there.
Where the two meet, the solution is optimal. Else they are the bracket for the method that goes on.
"""

from bisect import bisect_left, insort
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from moeopt.core.clock import spend
from moeopt.core.search import Search

from .bounds import lower_bound, objective_grid
from .check import objective
from .heuristics import WARM_START
from .instance import Instance, Solution

PATIENCE = 150
"""So many orders in a row that find nothing better are enough."""

FINE = 2048
"""Bisection ends where targets differ by less than the bound over this."""

BLUR = 0.3
"""Works are multiplied with up to one plus this for another order."""

EXPERTS_PER_UNIT = 1e5
"""So many experts find their threads in a unit of work."""


class Cut(NamedTuple):
    """A grain of an expert: its index, how many parts, and what one takes with its pull."""

    grain: int
    parts: int
    pulled_ns: int


class Item(NamedTuple):
    """An expert: its load, its grains, and the one that takes least on a single thread."""

    row: int
    load_ns: int
    cuts: tuple[Cut, ...]
    whole: Cut
    whole_ns: int


Place = tuple[int, int]
"""Position of a thread in the list of rooms, and how many parts it takes."""


class Filled(NamedTuple):
    """The grain of each expert, and how many of its parts are on which thread."""

    grain: list[int]
    counts: list[list[tuple[int, int]]]


def solve(instance: Instance, search: Search) -> None:
    """Bound, bisect targets, then draw orders until the bound is met or patience ends."""
    if search.objective is None and (start := WARM_START(instance)) is not None:
        _offer(instance, search, start)
    bound = lower_bound(instance)
    search.prove(bound)
    items = sorted(items_of(instance), key=lambda item: -item.whole_ns)
    grid = objective_grid(instance)
    low = bound - 1
    while not search.closed and not search.stopped:
        high = _best(search)
        if (high - low) * FINE <= max(bound, 1) or high - low <= grid:
            break
        target = (low + high) // 2
        if not _filled(instance, search, items, target):
            low = target
    _draw_orders(instance, search, items, bound)
    best = _best(search)
    search.enough = not search.closed and best - bound <= search.enough_gap * best


def _draw_orders(instance: Instance, search: Search, items: list[Item], bound: int) -> None:
    """Fill by orders that are drawn anew, for targets below the best makespan."""
    rng = np.random.default_rng(search.seed)
    grid, stale = objective_grid(instance), 0
    works = np.array([item.whole_ns for item in items], dtype=np.float64)
    while stale < PATIENCE and not search.closed and not search.stopped:
        drawn = works * (1 + rng.random() * BLUR * rng.random(len(items)))
        order = [items[place] for place in np.argsort(-drawn, kind="stable").tolist()]
        best = _best(search)
        # Near the best makespan most of the time; now and then at once a large step.
        target = max(bound, best - grid - int((best - bound) * rng.random() ** 4))
        stale = 0 if _filled(instance, search, order, target) else stale + 1


def items_of(instance: Instance) -> list[Item]:
    """Return what filling needs of each expert."""
    found = []
    for row, expert in enumerate(instance.experts):
        cuts = tuple(
            Cut(k, instance.grains[k], instance.pulled_ns(row, k)) for k in instance.choices(row)
        )
        whole = min(cuts, key=lambda cut: cut.parts * cut.pulled_ns)
        whole_ns = whole.parts * whole.pulled_ns + expert.load_ns
        found.append(Item(row, expert.load_ns, cuts, whole, whole_ns))
    return found


def filled(threads: int, items: Sequence[Item], target_ns: int) -> Filled | None:
    """Return a schedule in which no thread ends after the target; None if filling finds none.

    Parameters
    ----------
    items
        In the order in which they are filled in.
    """
    rooms = [(target_ns, thread) for thread in range(threads)]  # kept sorted
    grain, counts = [0] * len(items), [list[tuple[int, int]]() for _ in items]
    for item in items:
        at = bisect_left(rooms, (item.whole_ns, -1))
        if at < len(rooms):
            room, thread = rooms.pop(at)
            insort(rooms, (room - item.whole_ns, thread))
            grain[item.row] = item.whole.grain
            counts[item.row].append((thread, item.whole.parts))
            continue
        options = [
            (cut.parts * cut.pulled_ns + len(places) * item.load_ns, cut.grain, cut, places)
            for cut in item.cuts
            if (places := _spread(rooms, item.load_ns, cut)) is not None
        ]
        if not options:
            return None
        _, grain[item.row], cut, places = min(options)
        for at, number in places:
            room, thread = rooms[at]
            counts[item.row].append((thread, number))
            rooms[at] = room - item.load_ns - number * cut.pulled_ns, thread
        rooms.sort()
    return Filled(grain, counts)


def _spread(rooms: Sequence[tuple[int, int]], load_ns: int, cut: Cut) -> list[Place] | None:
    """Return which threads take how many of an expert's parts; None if there is no room.

    Those with most room are filled; the last parts go where they leave least room.
    """
    places, left = list[Place](), cut.parts
    for at in range(len(rooms) - 1, -1, -1):
        room = rooms[at][0] - load_ns
        if room < cut.pulled_ns or room < 0:
            return None
        fit = left if cut.pulled_ns == 0 else min(left, room // cut.pulled_ns)
        if fit == left:
            due = load_ns + left * cut.pulled_ns
            places.append((bisect_left(rooms, (due, -1)), left))
            return places
        places.append((at, fit))
        left -= fit
    return None


def _filled(instance: Instance, search: Search, items: Sequence[Item], target_ns: int) -> bool:
    """Offer the schedule of an order and a target; tell whether it is better than all before."""
    spend(len(items) / EXPERTS_PER_UNIT)
    found = filled(instance.threads, items, target_ns)
    if found is None:
        return False
    rows = [[thread for thread, number in row for _ in range(number)] for row in found.counts]
    solution = Solution.model_construct(
        problem="threads",
        instance=instance.name,
        grain=tuple(found.grain),
        thread=tuple(map(tuple, rows)),
    )
    before = _best(search)
    _offer(instance, search, solution)
    return _best(search) < before


def _offer(instance: Instance, search: Search, solution: Solution) -> None:
    search.offer(solution, objective(instance, solution))


def _best(search: Search) -> int:
    """Return the best makespan so far; there is one from the beginning."""
    best = search.objective
    assert isinstance(best, int)  # noqa: S101
    return best
