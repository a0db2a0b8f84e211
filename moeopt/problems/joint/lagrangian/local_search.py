"""Plans from the relaxation's averages, and better ones by single changes and pairs of them.

A change puts one expert into another state (resident or not, at a width) or gives a layer another
number of deferred experts. What each adds to the time is computed from the clocks of every step;
pairs are taken to add up, and what is accepted is computed anew. Reduced costs, with the
multipliers of the budgets, choose the changes that pairs are made of.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain, combinations

import numpy as np

from moeopt.core.clock import spend

from .arrays import Arrays, Choice, Cost, cost, fits, room, scratch, uses
from .gpu_memory import FEW_EXPERTS
from .kernels import Decisions, Flags, Floats, Ints, outcomes

PAIRED = 150
"""Changes of least reduced cost that pairs are made of, for each budget and direction."""

CHANGES_WORK, ARCS, CACHE_ARCS, PAIRS = 2e-3, 1e8, 10, 8e7
"""Units of work that looking at all changes takes besides, arcs followed in one of them, what a
layer with another cache counts for in a step, and pairs of changes looked at in a unit."""

TRIES, FLIPPED = 30, 2
"""Pairs that are computed anew before changes are looked at again; experts that become residents,
or cease to be, with another number of ways, at most."""


@dataclass(frozen=True)
class Changes:
    """Single changes, one entry each.

    Attributes
    ----------
    layer, expert
        Where; -1: not one expert, but the layer's number of deferred ones; -2: its cache.
    decisions
        The layer's, after it.
    time_ns, used
        What it adds: to the time of all steps; and bytes on GPU and host, loss and the time of
        copies, shape (4, changes).
    """

    layer: Ints
    expert: Ints
    decisions: Decisions
    time_ns: Ints
    used: Ints

    def apply(self, plan: Choice, numbers: Ints) -> Choice:
        """Return a plan after some of the changes."""
        changed = plan.copy()
        for name in ("held", "width", "ways", "deferred"):
            before, after, new = (getattr(of, name) for of in (plan, changed, self.decisions))
            for n in numbers:
                at = self.layer[n]
                after[at] = np.where(new[n] != before[at], new[n], after[at])
        return changed


def changes(arrays: Arrays, plan: Choice) -> Changes:
    """Return all single changes of a plan."""
    i = arrays.instance
    layers, experts, widths = arrays.loss.shape
    own = plan.width + widths * plan.held
    at = np.nonzero(np.arange(2 * widths) != own[:, :, None])
    counts = np.nonzero(np.arange(i.max_deferred + 1) != plan.deferred[:-1, None])
    flips = _flips(experts if i.max_ways and experts <= FEW_EXPERTS else 0, experts)
    other = np.arange(i.max_ways + 1) != plan.ways[:, None, None]
    cached = np.nonzero(other | (flips.sum(axis=1) > 1)[:, None])
    n, last = np.arange(len(at[0])), len(at[0]) + len(counts[0])
    layer = np.concatenate([at[0], counts[0], cached[0]])
    held, width = plan.held[layer], plan.width[layer]
    ways, deferred = plan.ways[layer], plan.deferred[layer]
    held[n, at[1]], width[n, at[1]] = at[2] >= widths, at[2] % widths
    deferred[len(n) : last], ways[last:] = counts[1], cached[2]
    held[last:] ^= flips[cached[1]]
    new = Decisions(held, width, ways, deferred, arrays.nowhere())
    there, trial = (of.decisions(arrays.nowhere()) for of in (plan, plan.copy()))
    ends = len(arrays.row) * 2 * widths + len(i.steps) * layers * (i.max_deferred + 1)
    spend(CHANGES_WORK + (ends * (layers + 8) + len(cached[0]) * len(i.steps) * CACHE_ARCS) / ARCS)
    added = np.zeros((len(layer), 3), dtype=np.int64)
    frame = arrays.frames[plan.context]
    outcomes(arrays.steps, frame, there, trial, layer, new, *scratch(arrays), added)
    used = uses(arrays, layer, new) - uses(arrays, np.arange(layers), there)[:, layer]
    used[2] += added[:, 1]
    kinds = np.repeat([-1, -2], [len(counts[0]), len(cached[0])])
    expert = np.concatenate([at[1], kinds])
    return Changes(layer, expert, new, added[:, 0].copy(), np.vstack([used, added[:, 2]]))


def _flips(most: int, experts: int) -> Flags:
    """Return sets of up to `FLIPPED` of the first experts, as flags."""
    sets = chain.from_iterable(combinations(range(most), size) for size in range(FLIPPED + 1))
    return np.array([[e in chosen for e in range(experts)] for chosen in sets])


def descend(
    arrays: Arrays, plan: Choice, at: Floats, stopped: Callable[[], bool]
) -> tuple[Choice, Cost]:
    """Return a plan that neither a single change nor a pair looked at improves.

    Parameters
    ----------
    plan
        One that keeps the budgets.
    at
        Multipliers of GPU and host memory and loss.
    """
    found = cost(arrays, plan)
    while not stopped():
        better = _better(arrays, plan, found, at)
        if better is None:
            break
        plan, found = better
    return plan, found


def _better(arrays: Arrays, plan: Choice, found: Cost, at: Floats) -> tuple[Choice, Cost] | None:
    """Return a better plan, after one batch of changes in different layers or one pair."""
    known = changes(arrays, plan)
    left, used = room(arrays, found), known.used
    single = np.flatnonzero((used <= left[:, None]).all(axis=0) & (known.time_ns < 0))
    order = single[np.argsort(known.time_ns[single], kind="stable")]
    batch = _batch(known, left, order[:, None])
    for numbers in (batch, batch[:1]):
        if len(numbers) and (better := _accepted(arrays, known.apply(plan, numbers), found)):
            return better
    reduced = known.time_ns + at @ used[:3]
    kinds = [np.argsort(reduced, kind="stable")]
    for use in used:
        for sign in (1, -1):
            there = np.flatnonzero(sign * use > 0)
            kinds.append(there[np.argsort(reduced[there], kind="stable")])
    pool = np.unique(np.concatenate([kind[:PAIRED] for kind in kinds]))
    first, second = np.triu_indices(len(pool), 1)
    spend(len(first) / PAIRS)
    first, second = pool[first], pool[second]
    apart = (known.layer[first] != known.layer[second]) | (
        (known.expert[first] != known.expert[second]) & (known.expert[second] > -2)
    )
    time_ns = known.time_ns[first] + known.time_ns[second]
    together = used[:, first] + used[:, second]
    good = np.flatnonzero(apart & (time_ns < 0) & (together <= left[:, None]).all(axis=0))
    order = good[np.argsort(time_ns[good], kind="stable")]
    pairs = np.stack([first[order], second[order]], axis=1)
    batch = _batch(known, left, pairs[: 4 * PAIRED])
    if len(batch) > 2 and (better := _accepted(arrays, known.apply(plan, batch), found)):
        return better
    for pair in pairs[:TRIES]:
        if better := _accepted(arrays, known.apply(plan, pair), found):
            return better
    return None


def _batch(known: Changes, left: Floats, groups: Ints) -> Ints:
    """Return groups in layers of their own that keep the budgets together, the first ones first."""
    taken, layers = [], set[int]()
    for group in groups.tolist():
        own = {int(known.layer[n]) for n in group}
        need = known.used[:, group].sum(axis=1)
        if not own & layers and (need <= left).all():
            layers |= own
            left = left - need
            taken += group
    return np.array(taken, dtype=np.int64)


def _accepted(arrays: Arrays, plan: Choice, than: Cost) -> tuple[Choice, Cost] | None:
    found = cost(arrays, plan)
    if found.total_ns < than.total_ns and fits(arrays, found):
        return plan, found
    return None


def rounded(arrays: Arrays, context: int, selected: Floats, deferred: Floats) -> Choice | None:
    """Return a plan near the averages of the relaxation that keeps the budgets; None: none found.

    Parameters
    ----------
    selected
        Shape (cells, states).
    deferred
        Shape (layers, most + 1).
    """
    i = arrays.instance
    widths = len(i.bits)
    shape = (i.layers, i.experts)
    by_width = selected[:, :widths] + selected[:, widths:]
    width = by_width.argmax(axis=1)
    share = selected[:, widths:].sum(axis=1)
    held = np.zeros(i.layers * i.experts, dtype=np.bool_)
    free = i.gpu_bytes - i.contexts[context].kv_bytes
    for cell in np.argsort(-share, kind="stable").tolist():
        size = int(arrays.size[width[cell]])
        if share[cell] > 0 and size <= free:
            held[cell], free = True, free - size
    counts = np.where(np.arange(i.layers) < i.layers - 1, deferred.argmax(axis=1), 0)
    plan = Choice(
        context,
        held.reshape(shape),
        width.reshape(shape).astype(np.int64),
        np.zeros(i.layers, dtype=np.int64),
        counts.astype(np.int64),
    )
    return repaired(arrays, plan)


def repaired(arrays: Arrays, plan: Choice) -> Choice | None:
    """Return a plan that keeps the budgets, by changes that cost least time for what they free."""
    i = arrays.instance
    for _ in range(20):
        left = room(arrays, cost(arrays, plan))
        if (left >= 0).all():
            return plan
        known = changes(arrays, plan)
        used = known.used
        sizes = [max(1, most or 1) for most in (i.gpu_bytes, i.host_bytes, i.max_loss, None)]
        over = int(np.argmin(np.where(np.isfinite(left), left, 0) / sizes))
        frees = np.flatnonzero(used[over] < 0)
        others = np.delete(np.arange(4), over)
        keeps = (used[others][:, frees] <= np.maximum(left[others], 0)[:, None]).all(axis=0)
        frees = frees[keeps]
        rate = known.time_ns[frees] / np.maximum(-used[over][frees], 1)
        need, taken, layers = -left[over], [], set[tuple[int, int]]()
        for n in frees[np.argsort(rate, kind="stable")].tolist():
            own = (int(known.layer[n]), int(known.expert[n]))
            if need > 0 and own not in layers:
                layers.add(own)
                taken.append(n)
                need += used[over][n]
        if not taken:
            return None
        plan = known.apply(plan, np.array(taken))
    return None
