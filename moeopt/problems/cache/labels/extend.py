"""Labels from layer to layer: all extensions within the target, then those that matter."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from moeopt.numeric.compiled import compiled
from moeopt.problems.cache.curves import Ints
from moeopt.problems.cache.sides import Sides
from moeopt.problems.cache.weighting import Weighed

Flags = NDArray[np.bool_]

CHUNK = 2**20
"""Extensions that are looked at before the clock is asked: some 10 ms."""

MOST = 2**22
"""Most labels of a layer before it is left to another method."""


class EndedError(Exception):
    """The search was stopped, or has become too large."""


class Labels(NamedTuple):
    """Partial plans: slots, computing and copying so far, the label before, ways of the layer."""

    slots: Ints
    compute_ns: Ints
    copy_ns: Ints
    before: Ints
    ways: Ints


def within(
    sides: Sides,
    weights: list[Weighed],
    target_ns: int,
    stopped: Callable[[], bool],
) -> Ints | None:
    """Return the best ways if their objective is at most the target, else None.

    Raises
    ------
    EndedError
        If told to stop, or if there are too many labels.
    """
    zero = np.zeros(1, dtype=np.int64)
    layers = [Labels(zero, zero, zero, zero, zero)]
    for layer in range(len(sides.compute_ns)):
        options = useful(sides, layer)
        found = _extensions(sides, weights, target_ns, layer, options, layers[-1], stopped)
        order = np.lexsort((found.slots, found.copy_ns, found.compute_ns))
        found = Labels(*(column[order] for column in found))
        keep = undominated(found.slots, found.copy_ns, sides.slots)
        layers.append(Labels(*(column[keep] for column in found)))
        if not keep.any():
            return None
        if len(layers[-1].slots) > MOST:
            raise EndedError("TOO_MANY_LABELS")
    last = layers[-1]
    trace_ns = np.maximum(last.compute_ns, last.copy_ns)
    at = int(np.argmin(trace_ns))
    if trace_ns[at] > target_ns:
        return None
    ways = []
    for labels in reversed(layers[1:]):
        ways.append(int(labels.ways[at]))
        at = int(labels.before[at])
    return np.array(ways[::-1], dtype=np.int64)


def useful(sides: Sides, layer: int) -> Ints:
    """Return the numbers of ways that fit and that no smaller number is as good as."""
    kept: list[int] = []
    compute, copy = sides.compute_ns[layer].tolist(), sides.copy_ns[layer].tolist()
    for ways in range(min(len(compute), sides.slots + 1)):
        if not any(compute[w] <= compute[ways] and copy[w] <= copy[ways] for w in kept):
            kept.append(ways)
    return np.array(kept, dtype=np.int64)


def _extensions(
    sides: Sides,
    weights: list[Weighed],
    target_ns: int,
    layer: int,
    options: Ints,
    labels: Labels,
    stopped: Callable[[], bool],
) -> Labels:
    p = np.array([weighed.p for weighed in weights], dtype=np.int64)
    rest = np.stack([weighed.table[layer + 1] for weighed in weights])
    compute, copy = sides.compute_ns[layer, options], sides.copy_ns[layer, options]
    step = max(1, CHUNK // len(options))
    limit = target_ns * sides.scale
    parts, total = [], 0
    for begin in range(0, len(labels.slots), step):
        if stopped():
            raise EndedError("STOPPED")
        slots, compute_ns, copy_ns = (column[begin : begin + step] for column in labels[:3])
        found = extend(
            slots, compute_ns, copy_ns, options, compute, copy, p, sides.scale, rest, limit
        )
        part = Labels(*found)
        parts.append(part._replace(before=part.before + begin))
        total += len(part.slots)
        if total > 8 * MOST:
            raise EndedError("TOO_MANY_LABELS")
    return Labels(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


@compiled
def extend(
    slots: Ints,
    compute_ns: Ints,
    copy_ns: Ints,
    options: Ints,
    layer_compute_ns: Ints,
    layer_copy_ns: Ints,
    p: Ints,
    scale: int,
    rest: Ints,
    limit: int,
) -> tuple[Ints, Ints, Ints, Ints, Ints]:
    """Return the extensions that no weight puts above the limit; columns as in `Labels`."""
    most = rest.shape[1] - 1
    out = np.empty((5, len(slots) * len(options)), np.int64)
    count = 0
    for i in range(len(slots)):
        for j in range(len(options)):
            used = slots[i] + options[j]
            if used > most:
                break
            compute = compute_ns[i] + layer_compute_ns[j]
            copy = copy_ns[i] + layer_copy_ns[j]
            fits = True
            for k in range(len(p)):
                if p[k] * compute + (scale - p[k]) * copy + rest[k, most - used] > limit:
                    fits = False
                    break
            if fits:
                out[0, count], out[1, count], out[2, count] = used, compute, copy
                out[3, count], out[4, count] = i, options[j]
                count += 1
    return (
        out[0, :count].copy(),
        out[1, :count].copy(),
        out[2, :count].copy(),
        out[3, :count].copy(),
        out[4, :count].copy(),
    )


@compiled
def undominated(slots: Ints, copy_ns: Ints, most: int) -> Flags:
    """Return which labels, in order of computing, no earlier one is as good as.

    A tree over the slots (Fenwick) holds the least copying of the labels so far that use no more.
    """
    far = np.iinfo(np.int64).max
    least = np.full(most + 2, far, np.int64)
    keep = np.ones(len(slots), np.bool_)
    for i in range(len(slots)):
        at = slots[i] + 1
        while at > 0 and keep[i]:
            if least[at] <= copy_ns[i]:
                keep[i] = False
            at -= at & -at
        at = slots[i] + 1
        while at < len(least) and keep[i]:
            least[at] = min(least[at], copy_ns[i])
            at += at & -at
    return keep
