"""The own exact method: labels over the layers, cut by the Lagrangian relaxation's completions.

A label is a split of the first layers: where its attention is, where its activations are, the
bytes used on each device. Labels are extended by a layer at a time, within the memory, and kept if
they may still end below the incumbent; if they are too many, those with the best bounds.

Proof. A label's bound is its own priced time, plus the least priced time of the layers to come
(`paths.completions`), less the constant of the multipliers: by the proof in `lagrangian`, applied
to the splits that go on from it, nothing that goes on from it is better. A label is left out only
(1) if that bound is above the incumbent less one step of the grid that all objectives lie on; (2)
if another one is in the same place with the same bytes used and costs no more: whatever goes on
from the one goes on from the other; or (3) because labels are too many: then the least bound of
those that were left out is remembered. At the end nothing is better than the incumbent but what
(3) left out, so the least of the incumbent and that bound is a lower bound; where (3) never
happened, the incumbent is the optimum, or there is none.
"""

from dataclasses import dataclass, fields, replace

import numpy as np

from moeopt.core.clock import spend
from moeopt.core.search import Search

from .bounds import objective_grid
from .check import objective, violations
from .heuristics import HEURISTICS
from .instance import Instance, Solution
from .lagrangian import Relaxed, ascend, fitting, rows_of
from .paths import FAR, Ints, Paths, paths_of
from .runs import counted

STEPS = 400
"""Multipliers that are tried: the bound hardly rises after that."""

WIDTHS = (30, 300, 3_000, 30_000)
"""Labels kept at a layer, one pass after the other."""

SURPLUS = 4
"""So many times the width are kept until equal ones are merged."""

CELLS_PER_UNIT = 15_000_000
"""Extensions of labels that a unit of work looks at."""

MOST_MOVES = 2_000
"""Improvements of one start; each is of a nanosecond at least."""

MOVES_PER_UNIT = 40_000_000
"""Moves looked at per unit of work."""


@dataclass
class Labels:
    """Splits of the first layers, one per entry of each array.

    Attributes
    ----------
    priced, cost
        Time so far in 1 / scale ns with multipliers, and in ns without.
    at, here
        Device of the last attention, and where the activations are.
    used
        Bytes of parts, shape (labels, devices).
    before, attention, experts
        The label that it was made of, and the homes of its last layer.
    """

    priced: Ints
    cost: Ints
    at: Ints
    here: Ints
    used: Ints
    before: Ints
    attention: Ints
    experts: Ints

    def taken(self, rows: Ints) -> "Labels":
        """Return some of them."""
        return Labels(*(getattr(self, field.name)[rows] for field in fields(self)))


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
        return
    for width in WIDTHS:
        if search.closed or search.stopped:
            return
        dropped = _pass(instance, search, paths, best, width, grid)
        if search.stopped:
            return
        known = search.objective
        if dropped is not None and (not isinstance(known, int) or up(dropped, grid) < known):
            search.prove(up(dropped, grid))
        elif known is None:
            search.infeasible = True
        else:
            search.prove_incumbent()
    search.note = f"more than {WIDTHS[-1]} labels at a layer"


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


def _pass(
    instance: Instance, search: Search, paths: Paths, best: Relaxed, width: int, grid: int
) -> int | None:
    """Extend labels through all layers; return the least bound left out, None if none was."""
    first = np.zeros(1, dtype=np.int64)
    none = np.zeros((1, len(paths.room)), dtype=np.int64)
    start = int(np.argmin(paths.place))
    labels = Labels(first, first, first + start, first + paths.source, none, first, first, first)
    steps: list[Labels] = []
    least: int | None = None
    for layer in range(len(paths.has)):
        if search.stopped:
            return None
        limit = FAR
        if isinstance(search.objective, int):
            limit = (search.objective - grid) * best.scale + best.constant
        labels, left = _extended(paths, best, labels, layer, width, limit)
        if left is not None:
            least = left if least is None else min(least, left)
        steps.append(labels)
    if len(labels.cost):
        end = int(np.argmin(labels.cost + paths.hop[labels.here, paths.source]))
        homes = np.full((2, len(steps)), -1, dtype=np.int64)
        for layer in range(len(steps) - 1, -1, -1):
            homes[:, layer] = steps[layer].attention[end], steps[layer].experts[end]
            end = int(steps[layer].before[end])
        _offer(instance, search, _split(instance, homes))
    return None if least is None else -((best.constant - least) // best.scale)


def _extended(
    paths: Paths, best: Relaxed, labels: Labels, layer: int, width: int, limit: int
) -> tuple[Labels, int | None]:
    """Return the labels with one layer more, and the least priced bound left out."""
    room, table = paths.room, best.table[layer + 1]
    can = (paths.attention[layer] < FAR)[:, None] & (paths.experts[layer] < FAR)[None, :]
    if not paths.has[layer]:
        can = np.diag(paths.attention[layer] < FAR)
    g, h = np.nonzero(can & (table < FAR))
    size, held = int(paths.attention_bytes[layer]), int(paths.experts_bytes[layer])
    step = best.attention[layer][g]
    step_ns = paths.attention[layer][g]
    if paths.has[layer]:
        step = step + best.hop[g, h] + best.experts[layer][h]
        step_ns = step_ns + paths.hop[g, h] + paths.experts[layer][h]
    priced = labels.priced[:, None] + best.hop[labels.here][:, g] + step
    bound = priced + table[g, h]
    spend(bound.size / CELLS_PER_UNIT)
    fits = labels.used[:, g] + np.where(g == h, size + held, size) <= room[g]
    fits &= labels.used[:, h] + np.where(g == h, size + held, held) <= room[h]
    fits &= paths.place[g][None, :] >= paths.place[labels.at][:, None]
    row, pair = np.nonzero(fits & (bound <= limit))
    least: int | None = None
    ordered = bound[row, pair]
    if len(row) > SURPLUS * width:
        kept = np.argpartition(ordered, SURPLUS * width)
        least = int(ordered[kept[SURPLUS * width :]].min())
        kept = np.sort(kept[: SURPLUS * width])
        row, pair, ordered = row[kept], pair[kept], ordered[kept]
    cost = labels.cost[row] + paths.hop[labels.here[row], g[pair]] + step_ns[pair]
    used = labels.used[row]
    numbers = np.arange(len(row))
    used[numbers, g[pair]] += size
    used[numbers, h[pair]] += held
    made = Labels(
        priced=priced[row, pair],
        cost=cost,
        at=g[pair],
        here=h[pair],
        used=used,
        before=row,
        attention=g[pair],
        experts=h[pair] if paths.has[layer] else np.full(len(pair), -1, dtype=np.int64),
    )
    apart = _best_of_equal(made, paths)
    ordered = ordered[apart]
    best_first = np.lexsort((apart, cost[apart], ordered))
    if len(apart) > width:
        left = int(ordered[best_first[width:]].min())
        least = left if least is None else min(least, left)
    return made.taken(apart[best_first[:width]]), least


def _best_of_equal(labels: Labels, paths: Paths) -> Ints:
    """Return one label of each place and bytes used: the one of least cost, the first of these."""
    keys = [labels.cost, *labels.used.T, labels.here, paths.place[labels.at]]
    order = np.lexsort(keys)
    if not len(order):
        return order
    same = np.ones(len(order) - 1, dtype=bool)
    for key in keys[1:]:
        same &= key[order[1:]] == key[order[:-1]]
    kept: Ints = order[np.concatenate([[True], ~same])]
    return kept


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
