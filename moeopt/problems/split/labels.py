"""The own exact method: layers that are alike are counted (`runs`), after rules improved by moves.

Where the model of runs is not closed, the Lagrangian relaxation bounds, and CP-SAT goes on. (The
method's name is older: splits of the first layers, its labels, were extended by a layer at a time.)

Proof. By Lemma 2 of the specification the model of runs has the optimum, and CP-SAT's bound on it
is one in integers; with a known objective it holds better splits alone, so that "infeasible" says
that there are none. Consecutive blocks and moves give splits, no bounds; the checker sees each. The
proof that the relaxation is a bound stands in `bounds`. The largest of these is the bound.
"""

from dataclasses import replace

import numpy as np

from moeopt.core.clock import spend
from moeopt.core.search import Search

from .bounds import Relaxed, ascend, fitting, objective_grid, rows_of
from .check import objective, violations
from .heuristics import HEURISTICS
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
    for start in (rule(instance) for rule in HEURISTICS.values()):
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
        homes = counted(blocks_only, grid, known, search.remaining_s).homes
    if homes is not None:
        _offer(instance, search, _split(instance, homes))
    return not (search.closed or search.stopped)


def improved(paths: Paths, homes: Ints) -> Ints:
    """Return homes that no move of a part, or of a layer, or exchange of experts makes better.

    Parameters
    ----------
    homes
        Of a split that fits, shape (2, layers).
    """
    homes = homes.copy()
    layers, count = paths.attention.shape
    used = np.bincount(homes[0], paths.attention_bytes, count)
    used = (used + np.bincount(np.maximum(homes[1], 0), paths.experts_bytes, count)).astype(int)
    every = np.arange(layers)
    for _ in range(MOST_MOVES):
        spend((3 * layers * count + layers * layers) / MOVES_PER_UNIT)
        at, has = homes[0], paths.has > 0
        home = np.where(has, homes[1], at)
        before = np.concatenate([[paths.source], home[:-1]])
        after = np.concatenate([at[1:], [paths.source]])
        free = paths.room - used
        out = paths.hop[at] + paths.experts + paths.hop[:, after].T  # experts on each device
        out = np.where((paths.experts < FAR) & has[:, None], out, FAR)
        experts = np.where(paths.experts_bytes[:, None] <= free, out - out[every, home][:, None], 0)
        experts[~has] = 0
        into = paths.hop[before] + paths.attention  # attention on each device
        low = np.concatenate([[-1], paths.place[at[:-1]]])
        high = np.concatenate([paths.place[at[1:]], [count]])
        keeps = (paths.place >= low[:, None]) & (paths.place <= high[:, None])
        keeps &= paths.attention < FAR
        onward = np.where(has[:, None], paths.hop[:, home].T, paths.hop[:, after].T)
        alone = into + onward
        alone = alone - alone[every, at][:, None]
        fits = keeps & (paths.attention_bytes[:, None] <= free)
        alone = np.where(fits, alone, 0)
        now = into[every, at] + out[every, home]
        both = into + np.diag(paths.hop) + paths.experts + paths.hop[:, after].T - now[:, None]
        fits = keeps & has[:, None] & (paths.experts < FAR)
        fits &= (paths.attention_bytes + paths.experts_bytes)[:, None] <= free
        both = np.where(fits, both, 0)
        swap = out[:, home] - out[every, home][:, None]
        swap = swap + swap.T
        sizes = paths.experts_bytes[:, None] - paths.experts_bytes[None, :]
        fits = (sizes <= free[home][None, :]) & (-sizes <= free[home][:, None])
        fits &= has[:, None] & has[None, :] & (out[:, home] < FAR) & (out[:, home] < FAR).T
        beside = np.abs(every[:, None] - every[None, :]) > 0
        swap = np.where(fits & beside, swap, 0)
        moves = (experts, alone, both, swap)
        best = min(range(4), key=lambda kind: (int(moves[kind].min()), kind))
        if moves[best].min() >= 0:
            return homes
        layer, target = divmod(int(moves[best].argmin()), moves[best].shape[1])
        size, held = int(paths.attention_bytes[layer]), int(paths.experts_bytes[layer])
        if best in (1, 2):
            used[at[layer]] -= size
            used[target] += size
            homes[0, layer] = target
        if best in (0, 2):
            used[home[layer]] -= held
            used[target] += held
            homes[1, layer] = target
        if best == 3:
            used[home[layer]] += int(paths.experts_bytes[target]) - held
            used[home[target]] += held - int(paths.experts_bytes[target])
            homes[1, layer], homes[1, target] = homes[1, target], homes[1, layer]
    return homes


def up(bound: int, grid: int) -> int:
    """Return a bound rounded up to the grid."""
    return -(-bound // grid) * grid


def _split(instance: Instance, homes: Ints) -> Solution | None:
    """Return a path's homes as a solution; None if there is no path."""
    if (homes[0] < 0).any():
        return None
    return Solution(
        instance=instance.name,
        attention=tuple(homes[0].tolist()),
        experts=tuple(homes[1].tolist()),
    )


def _offer(instance: Instance, search: Search, solution: Solution | None) -> None:
    if solution is not None and not violations(instance, solution):
        search.offer(solution, objective(instance, solution))
