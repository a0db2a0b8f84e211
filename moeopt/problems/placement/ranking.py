"""Ranking experts by what a rule may know, and putting them on the GPU in that order.

Each published rule decides by what its paper gives it, and where an instance does not have that, by
the next best; `Usage.words` says which it was. Experts are taken with the habit of filling every
slot or without.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from moeopt.core.clock import out_of_time, spend
from moeopt.core.problem import HINDSIGHT

from .bounds import Capacity, capacity_of, summed
from .instance import Instance, Solution, solution_of
from .layer_steps import Flags, Ints


@dataclass(frozen=True)
class Usage:
    """How much each expert was used, as far as a rule may know.

    Attributes
    ----------
    counts
        Tokens that chose each expert, shape (layers, experts).
    words
        What this is, for tables.
    scores
        The tokens' summed routing weights, of the same shape, in any unit; None if not known.
    """

    counts: Ints
    words: str
    scores: Ints | None = None


def of_prompts(instance: Instance) -> Usage:
    """Return the usage in the sequences' own prompts; else of the profile, else of the steps."""
    known = instance.known
    if known is None or known.prefill_counts is None:
        return of_profile(instance)
    scores = None if known.prefill_scores is None else np.array(known.prefill_scores)
    return Usage(np.array(known.prefill_counts), "prefill counts", scores)


def of_profile(instance: Instance) -> Usage:
    """Return the usage in an offline profile; else that of the prompts, else of the steps."""
    known = instance.known
    if known is None:
        return of_steps(instance)
    if known.profile_counts is None:
        return of_prompts(instance)
    return Usage(np.array(known.profile_counts), "offline profile")


def of_steps(instance: Instance) -> Usage:
    """Return the usage in the steps themselves, which nobody knows beforehand."""
    return Usage(instance.tokens, HINDSIGHT)


ALPHA = 0.5
"""Weight of counts against routing scores, context-aware CXL-NDP's own (5.3)."""

Floats = NDArray[np.float64]
Scores = Ints | Floats


def descending(score: Scores) -> Ints:
    """Rank all experts of all layers; of equals the lower layer, then the lower expert is first."""
    return np.argsort(-score.ravel(), kind="stable")


def layer_by_layer(score: Scores) -> Ints:
    """Every layer's best expert first, then every layer's second, and so on."""
    ranked = descending(score)
    order = np.argsort(ranked // score.shape[1], kind="stable")
    return ranked[order].reshape(score.shape).T.ravel()


def importance(usage: Usage) -> Floats:
    """Return S = a P~ + (1 - a) W~ of every expert (context-aware CXL-NDP 4.1), a = 0.5 (5.3).

    Parameters
    ----------
    usage
        P is how many tokens chose an expert, W the sum of their routing scores for it, both divided
        by the layer's sum. Without scores W is P.

    Returns
    -------
    Floats
        Shape (layers, experts).
    """
    scores = usage.counts if usage.scores is None else usage.scores
    return ALPHA * _normalized(usage.counts) + (1 - ALPHA) * _normalized(scores)


def offload_time(instance: Instance) -> Ints:
    """Rank by the offload time that an expert takes over all steps; per slot if sizes differ.

    Where the GPU is never the later side and every layer offloads something in every step, this
    order is optimal.
    """
    saved = [summed(layer, instance.experts)[1] for layer in instance.layer_steps]
    return descending(np.array(saved) / instance.sizes)


def _normalized(used: Ints) -> Floats:
    total = used.sum(axis=1, keepdims=True)
    shares: Floats = np.divide(used, np.maximum(total, 1))
    return shares


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
