"""Plans from the relaxation's averages, and better ones by single changes and pairs of them.

A change puts one expert into another state (resident or not, at a width) or gives a layer another
number of deferred experts. What each adds to the time is computed from the clocks of every step;
pairs are taken to add up, and what is accepted is computed anew. Reduced costs, with the
multipliers of the budgets, choose the changes that pairs are made of.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from moeopt.core.clock import spend

from .arrays import Arrays, Choice, Cost, cost, fits, scratch
from .kernels import Flags, Floats, Ints, gains
from .relaxation import Multipliers

PAIRED = 150
"""Changes of least reduced cost that pairs are made of, for each budget and direction."""

CHANGES_WORK, ARCS = 2e-3, 1e8
"""Units of work that looking at all changes takes besides, and arcs followed in one of them."""

TRIES = 30
"""Pairs that are computed anew before changes are looked at again."""


@dataclass(frozen=True)
class Changes:
    """Single changes, one entry each.

    Attributes
    ----------
    layer, expert, value
        Expert -1: the layer's number of deferred experts becomes `value`; else the expert's state.
    time_ns, gpu, host, loss
        What a change adds.
    """

    layer: Ints
    expert: Ints
    value: Ints
    time_ns: Ints
    gpu: Ints
    host: Ints
    loss: Ints

    def apply(self, plan: Choice, numbers: Ints) -> Choice:
        """Return a plan after some of the changes."""
        changed = plan.copy()
        for n in numbers:
            layer, e, value = (int(of[n]) for of in (self.layer, self.expert, self.value))
            if e < 0:
                changed.deferred[layer] = value
            else:
                widths = self.widths
                changed.held[layer, e], changed.width[layer, e] = value >= widths, value % widths
        return changed

    widths: int


def changes(arrays: Arrays, plan: Choice, hit: Flags) -> Changes:
    """Return all single changes of a plan, with what its caches hold."""
    i = arrays.instance
    layers, experts, widths = arrays.loss.shape
    states = 2 * widths
    most = i.max_deferred
    ends = len(arrays.row) * states + len(i.steps) * layers * (most + 1)
    spend(CHANGES_WORK + ends * (layers + 8) / ARCS)
    by_state = np.zeros((2, layers, experts, states), dtype=np.int64)
    by_count = np.zeros((2, layers, most + 1), dtype=np.int64)
    frame = arrays.frames[plan.context]
    gains(arrays.steps, frame, plan.decisions(hit), *scratch(arrays), by_state, by_count)
    size = np.tile(arrays.size, 2)
    held = np.arange(states) >= widths
    gpu = size * held
    host = size * (~held | i.host_copy)
    own = plan.width + widths * plan.held
    lost = np.tile(arrays.loss, 2)
    by_state[1] += lost - np.take_along_axis(lost, own[:, :, None], axis=2)
    other = np.arange(states) != own[:, :, None]
    at = np.nonzero(other)
    counts = np.nonzero(np.arange(most + 1) != plan.deferred[:, None])
    counts = tuple(part[counts[0] < layers - 1] for part in counts)
    none = np.zeros(len(counts[0]), dtype=np.int64)
    return Changes(
        layer=np.concatenate([at[0], counts[0]]),
        expert=np.concatenate([at[1], none - 1]),
        value=np.concatenate([at[2], counts[1]]),
        time_ns=np.concatenate([by_state[0][at], by_count[0][counts]]),
        gpu=np.concatenate([(gpu - gpu[own][:, :, None])[at], none]),
        host=np.concatenate([(host - host[own][:, :, None])[at], none]),
        loss=np.concatenate([by_state[1][at], by_count[1][counts]]),
        widths=widths,
    )


def descend(
    arrays: Arrays, plan: Choice, at: Multipliers, stopped: Callable[[], bool]
) -> tuple[Choice, Cost]:
    """Return a plan that neither a single change nor a pair looked at improves.

    Parameters
    ----------
    plan
        One that keeps the budgets.
    at
        Multipliers of the budgets.
    """
    found = cost(arrays, plan)
    while not stopped():
        better = _better(arrays, plan, found, at)
        if better is None:
            break
        plan, found = better
    return plan, found


def _better(
    arrays: Arrays, plan: Choice, found: Cost, at: Multipliers
) -> tuple[Choice, Cost] | None:
    """Return a better plan, after one batch of changes in different layers or one pair."""
    known = changes(arrays, plan, found.hit)
    room = _room(arrays, found)
    used = np.stack([known.gpu, known.host, known.loss])
    single = np.flatnonzero((used <= room[:, None]).all(axis=0) & (known.time_ns < 0))
    order = single[np.argsort(known.time_ns[single], kind="stable")]
    batch = _batch(known, used, room, order)
    for numbers in (batch, batch[:1]):
        if len(numbers) and (better := _accepted(arrays, known.apply(plan, numbers), found)):
            return better
    reduced = known.time_ns + at.gpu * known.gpu + at.host * known.host + at.loss * known.loss
    kinds = [np.argsort(reduced, kind="stable")]
    for use in used:
        for sign in (1, -1):
            there = np.flatnonzero(sign * use > 0)
            kinds.append(there[np.argsort(reduced[there], kind="stable")])
    pool = np.unique(np.concatenate([kind[:PAIRED] for kind in kinds]))
    first, second = np.triu_indices(len(pool), 1)
    first, second = pool[first], pool[second]
    apart = (known.layer[first] != known.layer[second]) | (
        known.expert[first] != known.expert[second]
    )
    time_ns = known.time_ns[first] + known.time_ns[second]
    together = used[:, first] + used[:, second]
    good = np.flatnonzero(apart & (time_ns < 0) & (together <= room[:, None]).all(axis=0))
    order = good[np.argsort(time_ns[good], kind="stable")]
    pairs = np.stack([first[order], second[order]], axis=1)
    batch = _pairs(known, used, room, pairs)
    if len(batch) > 2 and (better := _accepted(arrays, known.apply(plan, batch), found)):
        return better
    for pair in pairs[:TRIES]:
        if better := _accepted(arrays, known.apply(plan, pair), found):
            return better
    return None


def _room(arrays: Arrays, found: Cost) -> Floats:
    """Return what is left of GPU memory, host memory and loss."""
    i = arrays.instance
    return np.array(
        [
            i.gpu_bytes - found.gpu_bytes,
            np.inf if i.host_bytes is None else i.host_bytes - found.host_bytes,
            np.inf if i.max_loss is None else i.max_loss - found.loss,
        ]
    )


def _batch(known: Changes, used: Ints, room: Floats, order: Ints) -> Ints:
    """Return changes of different layers that keep the budgets together, the first ones first."""
    left, taken, layers = room.copy(), [], set()
    for n in order.tolist():
        layer = int(known.layer[n])
        if layer not in layers and (used[:, n] <= left).all():
            layers.add(layer)
            left = left - used[:, n]
            taken.append(n)
    return np.array(taken, dtype=np.int64)


def _pairs(known: Changes, used: Ints, room: Floats, pairs: Ints) -> Ints:
    """Return the changes of pairs in layers of their own that keep the budgets together."""
    left, taken, layers = room.copy(), [], set[int]()
    for pair in pairs[: 4 * PAIRED].tolist():
        own = {int(known.layer[n]) for n in pair}
        need = used[:, pair].sum(axis=1)
        if not own & layers and (need <= left).all():
            layers |= own
            left = left - need
            taken += pair
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
    room = i.gpu_bytes - i.contexts[context].kv_bytes
    for cell in np.argsort(-share, kind="stable").tolist():
        size = int(arrays.size[width[cell]])
        if share[cell] > 0 and size <= room:
            held[cell], room = True, room - size
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
    for _ in range(20):
        found = cost(arrays, plan)
        room = _room(arrays, found)
        if (room >= 0).all():
            return plan
        known = changes(arrays, plan, found.hit)
        used = np.stack([known.gpu, known.host, known.loss])
        over = int(np.argmin(np.where(np.isfinite(room), room, 0) / _sizes(arrays)))
        frees = np.flatnonzero(used[over] < 0)
        others = np.delete(np.arange(3), over)
        keeps = (used[others][:, frees] <= np.maximum(room[others], 0)[:, None]).all(axis=0)
        frees = frees[keeps]
        rate = known.time_ns[frees] / np.maximum(-used[over][frees], 1)
        need, taken, layers = -room[over], [], set[tuple[int, int]]()
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


def _sizes(arrays: Arrays) -> Floats:
    i = arrays.instance
    return np.array([max(1, i.gpu_bytes), max(1, i.host_bytes or 1), max(1, i.max_loss or 1)])
