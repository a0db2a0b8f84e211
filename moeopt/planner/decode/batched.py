"""The heuristics of tri_domain for all layers of a step at once.

The same decisions as `moeopt.problems.tri_domain.heuristics` takes on one instance per layer, by
arrays of shape (layers, experts). An expert without tokens costs nothing on any device, so it may
stand in every sum; what is decided for it means nothing.
"""

import numpy as np
from numpy.typing import NDArray

from moeopt.planner.decode.work import CPU, GPU, NDP, NEVER_NS, Integers, Offer
from moeopt.problems.tri_domain.heuristics import FIDDLER_GRID, cheapest_path
from moeopt.problems.tri_domain.layout_rule import STRIPED

Flags = NDArray[np.bool_]


def greedy(offer: Offer, *, tie_order: str = "cpu") -> Integers:
    """Give each expert its cheapest path."""
    ndp_ns = np.where(offer.dimm == STRIPED, NEVER_NS, offer.ndp_ns)
    return cheapest_path(np.stack([offer.gpu_ns, offer.cpu_ns, ndp_ns]), tie_order)


def trimoe(
    offer: Offer, *, tie_order: str = "cpu", refinement: str = "one", delta: str = "growth"
) -> Integers:
    """Refine each layer's cheapest paths, by the compiled loop that the heuristic itself runs."""
    from moeopt.core.device_loads import IDLE, refine

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
    choice = np.full(offer.tokens.shape, CPU)
    for layer, active in enumerate(offer.tokens > 0):
        rows = np.flatnonzero(active)
        if len(rows):
            split = best_split(offer.gpu_ns[layer, rows], offer.cpu_ns[layer, rows], FIDDLER_GRID)
            choice[layer, rows] = np.where(split, GPU, CPU)
    return choice


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


EXACT_IN_32_BITS = 2**24


def best_split(gpu_ns: Integers, cpu_ns: Integers, grid: int) -> NDArray[np.bool_]:
    """Return which experts `moeopt.problems.tri_domain.heuristics.fiddler` runs on the GPU.

    The same table of least CPU times over GPU times, and of equal splits the same one. Three things
    make it smaller: no split is later than one that is known; so the GPU gets at least what the CPU
    cannot do by then; and times in units of their common divisor fit into 32 bits.

    Parameters
    ----------
    gpu_ns, cpu_ns
        What each expert takes on either host, int64 of shape (experts,).
    grid
        Most steps of the table over the GPU's time.
    """
    limit = int(min(gpu_ns.sum(), cpu_ns.sum()))
    step = max(int(np.gcd.reduce(gpu_ns)), -(-limit // grid), 1)
    width = -(-gpu_ns // step)
    fewest, most = _range(width * step, cpu_ns, limit // step * step)
    size, first = most // step + 1, fewest // step
    unit = max(int(np.gcd.reduce(cpu_ns)), 1)
    kind = np.float32 if int(cpu_ns.sum()) // unit < EXACT_IN_32_BITS else np.float64
    least, other = (np.full(size, np.inf, dtype=kind) for _ in range(2))
    least[0] = 0
    taken = np.zeros((len(width), size), dtype=np.bool_)
    # After a row the GPU has at most what was offered, at least what later rows cannot make up for.
    end, left = 1, int(width.sum())
    for row, (shift, length) in enumerate(
        zip(width.tolist(), (cpu_ns // unit).tolist(), strict=True)
    ):
        end, left = min(end + shift, size), left - shift
        begin = max(first - left, 0)
        np.add(least[begin:end], kind(length), out=other[begin:end])
        come = max(begin, shift)
        if come < end:
            on_gpu, on_cpu = least[come - shift : end - shift], other[come:end]
            np.less(on_gpu, on_cpu, out=taken[row, come:end])
            np.minimum(on_gpu, on_cpu, out=on_cpu)
        least, other = other, least
    later = np.maximum(least[first:].astype(np.float64) * unit, np.arange(first, size) * step)
    return _walk(taken, width.tolist(), first + int(later.argmin()))


def _range(gpu_ns: Integers, cpu_ns: Integers, limit_ns: int) -> tuple[int, int]:
    """Return the least and the most time on the GPU in any split that is not late.

    The experts that cost the GPU least for what they relieve the CPU of go first: some such split
    is known, and a fraction of the last one bounds what every other needs.
    """
    price = np.where(cpu_ns > 0, gpu_ns / np.maximum(cpu_ns, 1), np.inf)
    order = price.argsort(kind="stable")
    gpu = np.concatenate([[0], gpu_ns[order].cumsum()])
    cpu = cpu_ns.sum() - np.concatenate([[0], cpu_ns[order].cumsum()])
    most = int(np.maximum(gpu, cpu)[gpu <= limit_ns].min())
    full = int((cpu > most).sum()) - 1  # whole experts that are not enough
    if full < 0:
        return 0, most
    part = (cpu[full] - most) / max(int(cpu_ns[order[full]]), 1)
    share = int(gpu_ns[order[full]] * part * (1 - 1e-9))
    return int(gpu[full]) + share, most


def _walk(taken: Flags, width: list[int], at: int) -> NDArray[np.bool_]:
    """Return the choice of each expert that ends at this entry of the table."""
    split = np.zeros(len(width), dtype=np.bool_)
    for row in range(len(width) - 1, -1, -1):
        if taken[row, at]:
            split[row] = True
            at -= width[row]
    return split
