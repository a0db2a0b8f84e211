"""What runtimes do by default, and decisions taken one after the other."""

from collections.abc import Callable, Iterator

import numpy as np

from moeopt.core.clock import spend

from .check import loss, memory_bytes, objective, violations
from .instance import Instance, Solution

ENTRIES = 1e6
"""Entries of all steps that the checker executes in a second of a core."""

Rule = Callable[[Instance], Solution | None]
Residents = tuple[tuple[int, ...], ...]


def uniform(instance: Instance) -> Solution | None:
    """Take as many experts of every layer as fit, the first by number (ktransformers' "uniform").

    Like the other runtimes' defaults at one width, the widest that keeps the budgets, without
    caches, and with nothing deferred.
    """
    layers, experts = instance.layers, instance.experts
    return _plain(instance, lambda room: (tuple(range(min(experts, room // layers))),) * layers)


def whole_layers(instance: Instance) -> Solution | None:
    """Take the last layers as a whole, as many as fit (llama.cpp's ``--n-cpu-moe``)."""
    layers, every = instance.layers, tuple(range(instance.experts))

    def last(room: int) -> Residents:
        count = min(layers, room // instance.experts)
        return ((),) * (layers - count) + (every,) * count

    return _plain(instance, last)


def frequency(instance: Instance) -> Solution | None:
    """Take the experts with the most tokens in the steps, over all layers, as many as fit."""
    order = np.argsort(-_tokens(instance).ravel(), kind="stable")
    return _plain(instance, lambda room: _rows(instance, order[:room]))


def in_turn(instance: Instance) -> Solution | None:
    """One decision after the other: context, widths, residents, caches, deferral.

    The first context with which anything is valid; widths as narrow as the quality budget lets
    them be, those first that save most bytes for their loss; the experts of most time on the CPU
    as residents; what room is left in equal parts for caches, where that helps; and the same
    number of deferred experts in every layer, where that helps.
    """
    plan = next(plain_plans(instance), None)
    plan = _mixed(instance) if plan is None else _narrowed(instance, plan)
    if plan is None:
        return None
    plan = _with_residents(instance, plan)
    for name, most in (("ways", instance.max_ways), ("deferred", instance.max_deferred)):
        plan = _best_count(instance, plan, name, most)
    return plan


def grid(instance: Instance) -> Solution | None:
    """As `in_turn`, with all, three quarters, half, a quarter or none of the room for residents.

    The rest goes to caches, as many ways in every layer as fit; the best of the five, each with
    the best number of deferred experts, the same in every layer.
    """
    first = next(plain_plans(instance), None)
    if first is None:
        return None
    narrow = _narrowed(instance, first)
    best: Solution | None = None
    best_ns = 0
    for quarters in range(4, -1 if instance.max_ways else 3, -1):
        plan = _with_ways(instance, _with_residents(instance, narrow, quarters))
        plan = _best_count(instance, plan, "deferred", instance.max_deferred)
        plan_ns = _time_ns(instance, plan)
        if best is None or plan_ns < best_ns:
            best, best_ns = plan, plan_ns
    return best


def plain_plans(instance: Instance) -> Iterator[Solution]:
    """Yield valid plans with all experts on the CPU at one width: wide ones first.

    Without a host that is large enough for all there may be none of these.
    """
    for bits in reversed(instance.bits):
        yield from _on_cpu(instance, ((bits,) * instance.experts,) * instance.layers)


def _on_cpu(instance: Instance, bits: tuple[tuple[int, ...], ...]) -> Iterator[Solution]:
    """Yield the valid plans with all experts on the CPU at some widths, by context."""
    for context in range(len(instance.contexts)):
        plan = Solution(
            instance=instance.name,
            context=context,
            resident=((),) * instance.layers,
            bits=bits,
            ways=(0,) * instance.layers,
            deferred=(0,) * instance.layers,
        )
        if _valid(instance, plan):
            yield plan


def _plain(instance: Instance, residents: Callable[[int], Residents]) -> Solution | None:
    """Return the first valid plan of one width, with the residents for the room that it leaves."""
    for plan in plain_plans(instance):
        found = _if_valid(instance, plan, residents(_room(instance, plan)))
        if found is not None:
            return found
    return None


def _room(instance: Instance, plan: Solution) -> int:
    """Return how many experts of a plain plan's width fit beside its KV cache."""
    size = instance.expert_bytes[instance.bits.index(plan.bits[0][0] or 0)]
    left = instance.gpu_bytes - memory_bytes(instance, plan)[0]
    return left // size if size else instance.layers * instance.experts


def _mixed(instance: Instance) -> Solution | None:
    """Return all experts on the CPU at widths that lose little and fit into the host, or None.

    The host's memory has a price at which each expert takes the width of least loss plus price
    (Lagrangian relaxation of a multiple-choice knapsack); the lowest price at which all fit is
    bisected, and what room is left goes to the widenings that save most loss per byte.
    """
    if instance.width_loss is None or instance.host_bytes is None:
        return None
    losses = np.array(instance.width_loss, dtype=np.float64).reshape(-1, len(instance.bits))
    sizes = np.array(instance.expert_bytes, dtype=np.float64)
    cells = np.arange(len(losses))
    low, high = 0.0, float(losses.max() + 1.0)
    for _ in range(64):
        price = (low + high) / 2
        places = np.argmin(losses + price * sizes, axis=1)
        fits = sizes[places].sum() <= instance.host_bytes
        low, high = (low, price) if fits else (price, high)
    places = np.argmin(losses + high * sizes, axis=1)
    room = instance.host_bytes - sizes[places].sum()
    if room < 0:
        return None
    while True:
        saved = losses[cells, places][:, None] - losses
        more = sizes[None, :] - sizes[places][:, None]
        useful = (saved > 0) & (more > 0) & (more <= room)
        if not useful.any():
            break
        worth = np.where(useful, saved / np.maximum(more, 1e-9), -1.0)
        cell, place = np.unravel_index(int(np.argmax(worth)), worth.shape)
        room -= more[cell, place]
        places[cell] = place
    chosen = np.array(instance.bits)[places].reshape(instance.layers, instance.experts)
    bits = tuple(tuple(row) for row in chosen.tolist())
    return next(_on_cpu(instance, bits), None)


def _narrowed(instance: Instance, plan: Solution) -> Solution:
    """Take narrower widths by falling bytes saved per unit of loss while the budget lasts."""
    places = np.full((instance.layers, instance.experts), instance.bits.index(plan.bits[0][0] or 0))
    left = None if instance.max_loss is None else instance.max_loss - loss(instance, plan)
    if instance.width_loss is None:
        return plan
    steps = []
    sizes = instance.expert_bytes
    for layer in range(instance.layers):
        for e in range(instance.experts):
            wide = int(places[layer, e])
            for j in range(wide):
                more = instance.lost(layer, e, j) - instance.lost(layer, e, wide)
                steps.append((-(sizes[wide] - sizes[j]) / max(more, 1e-9), layer, e, j, more))
    done: set[tuple[int, int]] = set()
    for _, layer, e, j, more in sorted(steps):
        if (layer, e) not in done and left is not None and more <= left:
            places[layer, e], left = j, left - max(0, more)
            done.add((layer, e))
    bits = tuple(tuple(instance.bits[j] for j in row) for row in places.tolist())
    narrowed = plan.model_copy(update={"bits": bits})
    return narrowed if _valid(instance, narrowed) else plan


def _with_residents(instance: Instance, plan: Solution, quarters: int = 4) -> Solution:
    """Take residents by falling CPU time per byte while they fit into quarters of the room."""
    tokens = _tokens(instance)
    room = (instance.gpu_bytes - memory_bytes(instance, plan)[0]) * quarters // 4
    chosen: list[int] = []
    worth = []
    for layer in range(instance.layers):
        for e in range(instance.experts):
            j = instance.bits.index(plan.bits[layer][e] or 0)
            time_ns = instance.cpu_ns[j][1] * int(tokens[layer, e])
            worth.append((-time_ns / max(instance.expert_bytes[j], 1e-9), layer, e, j))
    for _, layer, e, j in sorted(worth):
        if instance.expert_bytes[j] <= room:
            room -= instance.expert_bytes[j]
            chosen.append(layer * instance.experts + e)
    rows = _rows(instance, np.array(chosen, dtype=np.int64))
    return _if_valid(instance, plan, rows) or plan


def _with_ways(instance: Instance, plan: Solution) -> Solution:
    """Give every layer as many ways as fit, the same number."""
    for ways in range(instance.max_ways, 0, -1):
        found = plan.model_copy(update={"ways": (ways,) * instance.layers})
        if memory_bytes(instance, found)[0] <= instance.gpu_bytes:
            return found
    return plan


def _best_count(instance: Instance, plan: Solution, name: str, most: int) -> Solution:
    """Give every layer the same number of ways, or of deferred experts, where that helps."""
    best, best_ns = plan, _time_ns(instance, plan)
    for count in range(1, most + 1):
        last = 0 if name == "deferred" else count
        row = (count,) * (instance.layers - 1) + (last,)
        found = plan.model_copy(update={name: row})
        if _valid(instance, found) and (found_ns := _time_ns(instance, found)) < best_ns:
            best, best_ns = found, found_ns
    return best


def _tokens(instance: Instance) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """Return the tokens of every expert over all steps, shape (layers, experts)."""
    total = np.zeros((instance.layers, instance.experts), dtype=np.int64)
    rows = instance.rows
    np.add.at(total, (rows.row % instance.layers, rows.expert), rows.tokens)
    return total


def _rows(instance: Instance, cells: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> Residents:
    """Return the residents by layer of some numbers layer x experts + expert."""
    flags = np.zeros((instance.layers, instance.experts), dtype=bool)
    flags.ravel()[cells] = True
    return tuple(tuple(np.flatnonzero(row).tolist()) for row in flags)


def _if_valid(instance: Instance, plan: Solution, resident: Residents) -> Solution | None:
    found = plan.model_copy(update={"resident": resident})
    return found if _valid(instance, found) else None


def _valid(instance: Instance, plan: Solution) -> bool:
    spend(instance.rows.entries / ENTRIES)
    return not violations(instance, plan)


def _time_ns(instance: Instance, plan: Solution) -> int:
    spend(instance.rows.entries / ENTRIES)
    return objective(instance, plan)


WARM_START = in_turn
"""The heuristic whose solution the exact methods start from."""
