"""Putting experts on the GPU in a given order, with the habit of filling every slot or without."""

from collections.abc import Iterable, Iterator

import numpy as np

from moeopt.core.clock import out_of_time, spend

from .capacity import Capacity, capacity_of
from .instance import Instance
from .layer_steps import Flags, Ints
from .solution import Solution, solution_of

COST_WORK, ENTRIES = 4e-5, 5e7
"""Units of work that the time of one layer takes, and entries that go into one of them."""

Block = tuple[int, ...]
"""Experts that go on the GPU together, as layer x experts + expert."""


def filled(instance: Instance, order: Ints, most: int | None = None) -> Solution | None:
    """Take what fits, in the order; None if that breaks a rule, such as that of a full GPU.

    Parameters
    ----------
    most
        Slots to fill; the instance's if None.

    Notes
    -----
    What goes on the GPU together depends on the restriction, see `blocks`.
    """
    capacity = capacity_of(instance)
    flags = _empty(capacity)
    for block in _fitting(
        blocks(instance, order), capacity, capacity.most if most is None else most
    ):
        flags.ravel()[list(block)] = True
    return _checked(instance, capacity, flags)


def best_prefix(instance: Instance, order: Ints) -> Solution | None:
    """Take what fits, in the order, but only as far as the total time is least.

    Ties: the fewest slots. None if the rules allow no such stop. Where a limit cuts in, no further.
    """
    capacity = capacity_of(instance)
    flags = _empty(capacity)
    costs = [
        layer.cost_ns(row, instance.layer_offload_fixed_ns)
        for layer, row in zip(instance.layer_steps, flags, strict=True)
    ]
    taken: list[int] = []
    best: tuple[int, int] | None = (sum(costs), 0) if capacity.allows(flags) else None
    for block in _fitting(blocks(instance, order), capacity, capacity.most):
        flags.ravel()[list(block)] = True
        taken += block
        for layer in sorted({number // instance.experts for number in block}):
            spend(COST_WORK + len(instance.layer_steps[layer].expert) / ENTRIES)
            costs[layer] = instance.layer_steps[layer].cost_ns(
                flags[layer], instance.layer_offload_fixed_ns
            )
        if (best is None or sum(costs) < best[0]) and capacity.allows(flags):
            best = (sum(costs), len(taken))
        if best is not None and out_of_time():
            break
    if best is None:
        return None
    flags = _empty(capacity)
    flags.ravel()[taken[: best[1]]] = True
    return _checked(instance, capacity, flags)


def blocks(instance: Instance, order: Ints) -> Iterator[Block]:
    """Yield what goes on the GPU together: experts, whole layers, or one expert of each layer.

    Whole layers follow the mean place of their experts in the order (ties: the lower layer). With
    equal counts every layer's first goes together, then every layer's second.
    """
    layers, experts = instance.layers, instance.experts
    if instance.restriction is None:
        yield from ((int(number),) for number in order)
        return
    place = np.argsort(order).reshape(layers, experts)
    numbers = np.arange(layers * experts).reshape(layers, experts)
    if instance.restriction == "whole-layers":
        for layer in np.argsort(place.sum(axis=1), kind="stable"):
            yield tuple(numbers[layer].tolist())
    else:
        ranked = np.take_along_axis(numbers, np.argsort(place, axis=1), axis=1)
        yield from (tuple(column.tolist()) for column in ranked.T)


def _fitting(found: Iterable[Block], capacity: Capacity, most: int) -> Iterator[Block]:
    sizes, left = capacity.sizes.ravel(), most
    for block in found:
        if (size := int(sizes[list(block)].sum())) <= left:
            left -= size
            yield block


def _empty(capacity: Capacity) -> Flags:
    return np.zeros(capacity.sizes.shape, dtype=bool)


def _checked(instance: Instance, capacity: Capacity, flags: Flags) -> Solution | None:
    return solution_of(instance, flags) if capacity.allows(flags) else None
