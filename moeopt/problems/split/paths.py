"""The layers as a path: weighted times as arrays, and least times to the end of it, compiled."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from moeopt.core.compiled import short

from .instance import Instance

Ints = NDArray[np.int64]

FAR = 2**61
"""Stands for what cannot be: above every sum of times and multipliers."""

FEW = 2**11
"""Up to so many numbers plain Python takes some 10 ms at first."""


@dataclass(frozen=True)
class Paths:
    """An instance as arrays, times weighted: decode_weight x decode + prompt_weight x prompt.

    Attributes
    ----------
    attention, experts
        Shape (layers, devices); `FAR` where a part cannot run.
    hop
        Shape (devices, devices).
    attention_bytes, experts_bytes
        Shape (layers,); 0 where there are no experts.
    has
        What a layer has, shape (layers,): 0 attention, 1 attention and experts, 2 experts alone.
    room
        What parts may take on each device, shape (devices,): its memory without its buffer. One
        with too little for its buffer can hold nothing, see `bounds`.
    place
        Position of a device in the order, 0 for all without one, shape (devices,).
    """

    source: int
    attention: Ints
    experts: Ints
    hop: Ints
    attention_bytes: Ints
    experts_bytes: Ints
    has: Ints
    room: Ints
    place: Ints


def paths_of(instance: Instance) -> Paths:
    """Return an instance as arrays."""
    decode, prompt = instance.decode_weight, instance.prompt_weight
    count = len(instance.devices)
    room = np.array([d.capacity - d.buffer for d in instance.devices], dtype=np.int64)
    order = instance.order
    place = np.array(
        [0 if order is None or d not in order else order.index(d) for d in range(count)]
    )
    parts = []
    for name in ("attention", "experts"):
        table = np.zeros((len(instance.layers), count), dtype=np.int64)
        for row, layer in enumerate(instance.layers):
            times = getattr(layer, f"{name}_ns")
            if times is None:
                continue
            later = getattr(layer, f"prompt_{name}_ns") or (0,) * count
            for device, (time, ubatch) in enumerate(zip(times, later, strict=True)):
                can = time is not None and room[device] >= 0
                can &= name == "experts" or order is None or device in order
                total = decode * (time or 0) + prompt * (ubatch or 0)
                table[row, device] = total if can else FAR
        parts.append(table)
    hop = decode * np.array(instance.hop_ns, dtype=np.int64)
    if instance.prompt_hop_ns is not None:
        hop = hop + prompt * np.array(instance.prompt_hop_ns, dtype=np.int64)
    has = np.array(
        [2 if x.attention_ns is None else int(x.experts_ns is not None) for x in instance.layers],
        dtype=np.int64,
    )
    held = np.array([layer.experts_bytes for layer in instance.layers], dtype=np.int64)
    return Paths(
        source=instance.source,
        attention=parts[0],
        experts=parts[1],
        hop=hop,
        attention_bytes=np.array([x.attention_bytes for x in instance.layers], dtype=np.int64),
        experts_bytes=held * (has > 0),
        has=has,
        room=room,
        place=place.astype(np.int64),
    )


def kinds_of(paths: Paths) -> tuple[Ints, Ints]:
    """Return each layer's kind, and the first row of a layer of each kind."""
    table = np.column_stack(
        [paths.attention, paths.experts, paths.has, paths.attention_bytes, paths.experts_bytes]
    )
    starts = np.flatnonzero(paths.has < 2)
    most = int(np.diff(np.append(starts, len(table))).max())
    padded = np.vstack([table, np.full((most, table.shape[1]), -1)])
    rows = starts[:, None] + np.arange(most)
    rows = np.where(rows < np.append(starts[1:], len(table))[:, None], rows, len(table))
    wide = padded[rows].reshape(len(starts), -1)
    _, first, kinds = np.unique(wide, axis=0, return_index=True, return_inverse=True)
    return kinds.ravel(), starts[first]


@short(FEW)
def completions(
    attention: Ints, experts: Ints, hop: Ints, has: Ints, place: Ints, source: int
) -> Ints:
    """Return the least time from the end of each layer to the end of all.

    Parameters
    ----------
    attention, experts, hop, has, place
        As in `Paths`, perhaps with multipliers added.

    Returns
    -------
    Ints
        Shape (layers + 1, devices, devices): with attention of the layer before on the first
        device, and the activations on the second. Of the first row the entry (p, source) of any p
        that comes first in the order is the whole path. At least `FAR`: there is no way.
    """
    layers, count = attention.shape
    table = np.empty((layers + 1, count, count), dtype=np.int64)
    for g in range(count):
        for h in range(count):
            table[layers, g, h] = hop[h, source]
    after = np.empty(count, dtype=np.int64)
    for layer in range(layers - 1, -1, -1):
        for g in range(count):  # attention runs on g: what follows
            best = FAR
            if attention[layer, g] < FAR:
                if has[layer]:
                    for h in range(count):
                        if experts[layer, h] < FAR and table[layer + 1, g, h] < FAR:
                            value = hop[g, h] + experts[layer, h] + table[layer + 1, g, h]
                            best = min(best, value)
                else:
                    best = table[layer + 1, g, g]
                if best < FAR:
                    best += attention[layer, g]
            after[g] = best
        for g in range(count):
            for h in range(count):
                best = FAR
                for following in range(count):
                    if has[layer] == 2:  # experts alone: attention stays what it was
                        if experts[layer, following] < FAR and table[layer + 1, g, following] < FAR:
                            value = experts[layer, following] + table[layer + 1, g, following]
                            best = min(best, hop[h, following] + value)
                    elif place[following] >= place[g] and after[following] < FAR:
                        best = min(best, hop[h, following] + after[following])
                table[layer, g, h] = best
    return table


@short(FEW)
def cheapest(
    attention: Ints, experts: Ints, hop: Ints, has: Ints, place: Ints, source: int, table: Ints
) -> Ints:
    """Return homes of a path that takes what `completions` says, shape (2, layers).

    Of equal ones the first device by number; -1 for a part that a layer has not.
    """
    layers, count = attention.shape
    homes = np.full((2, layers), -1, dtype=np.int64)
    before, here = -1, source
    for layer in range(layers):
        best, at, home = FAR, -1, -1
        for g in range(count):
            if attention[layer, g] >= FAR or (before >= 0 and place[g] < place[before]):
                continue
            if has[layer] == 2 and g != before:
                continue
            for h in range(count):
                if has[layer]:
                    if experts[layer, h] >= FAR:
                        continue
                    value = hop[here if has[layer] == 2 else g, h] + experts[layer, h]
                elif h == g:
                    value = 0
                else:
                    continue
                if table[layer + 1, g, h] >= FAR:
                    continue
                value += table[layer + 1, g, h]
                if has[layer] < 2:
                    value += hop[here, g] + attention[layer, g]
                if value < best:
                    best, at, home = value, g, h
        if at < 0:
            return homes
        if has[layer] < 2:
            homes[0, layer] = at
        if has[layer]:
            homes[1, layer] = home
        before, here = at, home
    return homes
