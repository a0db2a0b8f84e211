"""The own exact method: layers that are alike are counted (`runs`), after rules improved by moves.

Where the model of runs is not closed, the Lagrangian relaxation bounds, and CP-SAT goes on. (The
method's name is older: splits of the first layers, its labels, were extended by a layer at a time.)

Proof. By Lemmas 2 and 3 of the specification the models of runs and of blocks have the optimum, and
CP-SAT's bound on them is one in integers; with a known objective they hold better splits alone, so
that "infeasible" says that there are none. Moves give splits, no bounds; the checker sees each. The
proof that the relaxation is a bound stands in `bounds`. The largest of these is the bound.
"""

from dataclasses import replace

import numpy as np

from moeopt.core.clock import spend
from moeopt.core.search import Search
from moeopt.problems.split import PROBLEM

from .bounds import Relaxed, ascend, fitting, objective_grid, rows_of
from .check import objective, violations
from .heuristics import of_layers
from .instance import Instance, Solution
from .paths import FAR, Ints, Paths, paths_of
from .runs import counted

STEPS = 400
"""Multipliers that are tried: the bound hardly rises after that."""

MOST_MOVES = 2_000
"""Improvements of one start; each is of a nanosecond at least."""

MOVES_PER_UNIT = 40_000_000
"""Moves looked at per unit of work."""


def solve(instance: Instance, search: Search) -> None:
    """Find the best split and prove it, or report the best and the bound reached."""
    paths = fitting(paths_of(instance))
    grid = objective_grid(instance)
    starts = [*PROBLEM.functions().values()]
    if instance.by_tensor:
        starts.append(of_layers(lambda whole: _whole_layers(whole, search)))
    for start in (rule(instance) for rule in starts):
        _offer(instance, search, start)
        if start is not None and not violations(instance, start):
            homes = np.array([start.attention, start.experts], dtype=np.int64)
            _offer(instance, search, _split(instance, improved(paths, homes)))
        if search.stopped:
            return

    if not _counted(instance, search, paths, grid):
        return

    def seen(found: Relaxed) -> bool:
        search.prove(up(found.bound, grid))
        _offer(instance, search, _split(instance, found.homes))
        return search.closed or search.stopped

    target = search.objective if isinstance(search.objective, int) else None
    best = ascend(paths, rows_of(paths), instance.largest, target, STEPS, seen)
    if best is None or best.bound > instance.largest:
        search.infeasible = search.objective is None
    search.note = "OPTIMAL" if search.closed else "OPEN"


def _whole_layers(instance: Instance, search: Search) -> Solution | None:
    """Return the best split that keeps a layer's tensors together, if the model of runs has one."""
    paths, grid = fitting(paths_of(instance)), objective_grid(instance)
    homes = counted(paths, grid, None, search.remaining_s / 2, proves=False).homes
    return None if homes is None else _split(instance, homes)


def _counted(instance: Instance, search: Search, paths: Paths, grid: int) -> bool:
    """Solve the model of runs; return whether to go on."""
    known = search.objective if isinstance(search.objective, int) else None
    found = counted(paths, grid, known, search.remaining_s)
    if found.infeasible:
        search.infeasible = True
        return False
    search.prove(found.bound)
    homes = found.homes
    if homes is None and instance.order is None and not search.stopped:
        # what was found does not hang together; consecutive blocks do
        blocks_only = replace(paths, place=np.arange(len(paths.room)))
        homes = counted(blocks_only, grid, known, search.remaining_s, proves=False).homes
    if homes is not None:
        _offer(instance, search, _split(instance, homes))
    if instance.by_tensor and instance.order is not None and not (search.closed or search.stopped):
        # Without the order the model is a fifth as large, and a relaxation.
        anywhere = replace(paths, place=np.zeros_like(paths.place))
        known = search.objective if isinstance(search.objective, int) else None
        free = counted(anywhere, grid, known, search.remaining_s)
        search.prove(free.bound)
        _offer(instance, search, None if free.homes is None else _split(instance, free.homes))
    return not (search.closed or search.stopped)


def improved(paths: Paths, homes: Ints) -> Ints:
    """Return homes that no move of a part, or of two, or exchange of experts makes better.

    Parameters
    ----------
    homes
        Of a split that fits, shape (2, layers).
    """
    row, part = np.nonzero(np.column_stack([paths.has < 2, paths.has > 0]))
    time = np.stack([paths.attention, paths.experts], axis=1)[row, part]
    size = np.column_stack([paths.attention_bytes, paths.experts_bytes])[row, part]
    at, every, count = homes[part, row], np.arange(len(row)), len(paths.room)
    used = np.bincount(at, size, count).astype(int)
    first = np.flatnonzero((part[:-1] == 0) & (part[1:] == 1))  # attention with experts behind it
    attention, experts = (np.flatnonzero(part == own) for own in range(2))
    apart = np.abs(experts[:, None] - experts) > 1
    sizes = size[experts][:, None] - size[experts]
    for _ in range(MOST_MOVES):
        spend((3 * len(row) * count + len(experts) ** 2) / MOVES_PER_UNIT)
        before = np.concatenate([[paths.source], at[:-1]])
        after = np.concatenate([at[1:], [paths.source]])
        free, places = paths.room - used, paths.place[at[attention]]
        low, high = np.append(-1, places[:-1]), np.append(places[1:], count)
        can = time < FAR
        can[attention] &= (paths.place >= low[:, None]) & (paths.place <= high[:, None])
        own = paths.hop[before] + time + paths.hop[:, after].T  # each part on each device
        one = np.where(can & (size[:, None] <= free), own - own[every, at][:, None], 0)
        behind = first + 1
        both = time[first] + np.diag(paths.hop) + time[behind] + paths.hop[:, after[behind]].T
        now = own[first, at[first]] + time[behind, at[behind]]
        now += paths.hop[at[behind], after[behind]]
        fits = can[first] & can[behind] & ((size[first] + size[behind])[:, None] <= free)
        both = np.where(fits, paths.hop[before[first]] + both - now[:, None], 0)
        home = at[experts]
        out = own[experts][:, home]
        swap = out - own[experts, home][:, None]
        fits = apart & (sizes <= free[home]) & (-sizes <= free[home][:, None])
        swap = np.where(fits & (out < FAR) & (out < FAR).T, swap + swap.T, 0)
        moves = (one, both, swap)
        best = min((kind for kind in range(3) if moves[kind].size), key=lambda k: moves[k].min())
        if moves[best].min() >= 0:
            break
        which, target = divmod(int(moves[best].argmin()), moves[best].shape[1])
        moved = {which: target}
        if best == 1:
            moved = {int(first[which]): target, int(behind[which]): target}
        if best == 2:
            stop, other = int(experts[which]), int(experts[target])
            moved = {stop: int(at[other]), other: int(at[stop])}
        for stop, device in moved.items():
            used[at[stop]] -= size[stop]
            used[device] += size[stop]
            at[stop] = device
    found = np.full_like(homes, -1)
    found[part, row] = at
    return found


def up(bound: int, grid: int) -> int:
    """Return a bound rounded up to the grid."""
    return -(-bound // grid) * grid


def _split(instance: Instance, homes: Ints) -> Solution | None:
    """Return a path's homes as a solution; None if there is no path."""
    if (homes < 0).all(axis=0).any():
        return None
    return Solution(
        instance=instance.name,
        attention=tuple(homes[0].tolist()),
        experts=tuple(homes[1].tolist()),
    )


def _offer(instance: Instance, search: Search, solution: Solution | None) -> None:
    if solution is not None and not violations(instance, solution):
        search.offer(solution, objective(instance, solution))
