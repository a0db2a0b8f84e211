"""The heuristics of tri_domain for all layers of a step at once.

The same decisions as `moeopt.problems.tri_domain.heuristics` takes on one instance per layer, by
arrays of shape (layers, experts). An expert without tokens costs nothing on any device, so it may
stand in every sum; what is decided for it means nothing.
"""

import numpy as np
from numpy.typing import NDArray

from moeopt.problems.device_loads import IDLE, refine
from moeopt.problems.tri_domain.heuristics import best_splits, cheapest_path
from moeopt.problems.tri_domain.layout_rule import STRIPED
from moeopt.systems.work import CPU, GPU, NDP, NEVER_NS, Integers, Offer

Flags = NDArray[np.bool_]


def greedy(offer: Offer, *, tie_order: str = "cpu") -> Integers:
    """Give each expert its cheapest path."""
    ndp_ns = np.where(offer.dimm == STRIPED, NEVER_NS, offer.ndp_ns)
    return cheapest_path(np.stack([offer.gpu_ns, offer.cpu_ns, ndp_ns]), tie_order)


def trimoe(
    offer: Offer, *, tie_order: str = "cpu", refinement: str = "one", delta: str = "growth"
) -> Integers:
    """Refine each layer's cheapest paths, by the compiled loop that the heuristic itself runs."""
    choice = np.where(offer.tokens > 0, greedy(offer, tie_order=tie_order), IDLE)
    every, by_growth = refinement == "all", delta == "growth"
    for table, domain in zip(offer.tables(), choice, strict=True):
        refine(table, domain, offer.dimms, every, by_growth)
    return choice


def klotski(offer: Offer) -> Integers:
    """Run everything on the GPU."""
    return np.full(offer.tokens.shape, GPU)


def ktransformers(offer: Offer, *, hot_loading: str = "while it helps") -> Integers:
    """Move experts from CPU to GPU by falling tokens, up to the first that does not help."""
    choice = np.where(offer.resident, GPU, CPU)
    if hot_loading == "none":
        return choice
    away = ~offer.resident & (offer.tokens > 0)
    order = _by_falling_tokens(offer, ~away)
    gpu_ns, cpu_ns = (_sorted(cost * away, order) for cost in (offer.gpu_ns, offer.cpu_ns))
    gpu = (offer.gpu_ns * offer.resident).sum(axis=1, keepdims=True) + _ends(gpu_ns)
    cpu = cpu_ns.sum(axis=1, keepdims=True) - _ends(cpu_ns)
    later = np.maximum(gpu, cpu)
    helps = np.logical_and.accumulate(later[:, 1:] < later[:, :-1], axis=1)
    np.put_along_axis(choice, order, np.where(helps, GPU, _sorted(choice, order)), axis=1)
    return choice


def monde(offer: Offer, *, striped_experts: str = "gpu") -> Integers:
    """Move the hottest localized experts to the GPU, as many as give the least makespan."""
    layers, experts = offer.tokens.shape
    active, striped = offer.tokens > 0, offer.dimm == STRIPED
    host = np.where(striped & ~offer.resident & (striped_experts == "cpu"), CPU, GPU)
    movable = ~striped & ~offer.resident & active
    order = _by_falling_tokens(offer, ~movable)
    fixed = active & ~movable
    read_ns = np.where(host == CPU, offer.cpu_dram_ns, offer.gpu_dram_ns) * fixed
    base = (read_ns * striped).sum(axis=1)
    at = np.arange(layers)[:, None], np.where(striped, 0, offer.dimm)
    own = np.zeros((layers, offer.dimms), dtype=np.int64)
    np.add.at(own, at, np.where(movable, offer.ndp_ns, read_ns * ~striped))
    change = np.zeros((layers, experts, offer.dimms), dtype=np.int64)
    moved_ns = (offer.gpu_dram_ns - offer.ndp_ns) * movable
    where = (np.arange(layers)[:, None], np.arange(experts), _sorted(at[1], order))
    change[where] = _sorted(moved_ns, order)
    dimm = own.max(axis=1, initial=0)[:, None]
    own = own[:, None] + change.cumsum(axis=1)
    dimm = np.hstack([dimm, own.max(axis=2)]) + base[:, None]
    gpu = (offer.gpu_ns * (fixed & (host == GPU))).sum(axis=1, keepdims=True)
    gpu = gpu + _ends(_sorted(offer.gpu_ns * movable, order))
    cpu = (offer.cpu_ns * (fixed & (host == CPU))).sum(axis=1, keepdims=True)
    moved = np.maximum(np.maximum(gpu, cpu), dimm).argmin(axis=1)
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.broadcast_to(np.arange(experts), order.shape), axis=1)
    return np.where(movable & (rank >= moved[:, None]), NDP, host)


def fiddler(offer: Offer) -> Integers:
    """Split each layer between GPU and CPU so that the later of the two is as early as possible."""
    active = offer.tokens > 0
    return np.where(best_splits(offer.gpu_ns * active, offer.cpu_ns * active), GPU, CPU)


def fiddler_as_coded(offer: Offer) -> Integers:
    """Run each expert on its own cheaper host."""
    return np.where(offer.gpu_ns <= offer.cpu_ns, GPU, CPU)


def hybrimoe(offer: Offer) -> Integers:
    """Serve one queue from both ends, the GPU from the head and the CPU from the tail.

    The head's i-th expert is the GPU's if it gets there before the CPU does: if the GPU has worked
    off the first i experts no later than the CPU all from the i-th on. (The two orders of arrival
    are merged, at a tie the GPU's first; one rises along the queue, and the other falls.)
    """
    order = _by_falling_tokens(offer, ~offer.resident)
    from_head = _ends(_sorted(offer.gpu_ns, order))[:, 1:]
    cpu_ns = _sorted(offer.cpu_ns, order)
    from_tail = cpu_ns.sum(axis=1, keepdims=True) - _ends(cpu_ns)[:, :-1]
    choice = np.empty_like(order)
    np.put_along_axis(choice, order, np.where(from_head <= from_tail, GPU, CPU), axis=1)
    return choice


def _by_falling_tokens(offer: Offer, last: Flags) -> Integers:
    """Return the experts of every layer by falling tokens, those in `last` after the others.

    Among equals the lowest number comes first. Short integers are sorted by their digits, in a
    fraction of the time.
    """
    most = int(offer.tokens.max(initial=0)) + 1
    key = np.where(last, most, 0) - offer.tokens
    return (key.astype(np.int16) if most < 2**14 else key).argsort(axis=1, kind="stable")


def _sorted(values: Integers, order: Integers) -> Integers:
    return np.take_along_axis(values, order, axis=1)


def _ends(lengths: Integers) -> Integers:
    """Return when each in a row ends, after 0: shape (layers, experts + 1)."""
    return np.hstack([np.zeros((len(lengths), 1), dtype=np.int64), lengths.cumsum(axis=1)])
