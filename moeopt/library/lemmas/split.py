"""split: how many layers of a kind lie where, and how often activations go from where to where.

Layers of a run, equal ones that follow one another, are alike. A split gives numbers: of each run
with attention on g and experts on h, and of steps from there to attention on the next device, in
the run or in the next one. It costs a sum of them, and what it takes of a device's memory is one.
Without their buffers, devices that hold nothing have room, too. A run's layers on some devices are
come to from others, or from the run before.
"""

from bisect import bisect_right
from collections.abc import Mapping
from itertools import combinations
from typing import TYPE_CHECKING, Any

from moeopt.core.errors import InputError
from moeopt.library.lemmas.rows import LemmaModel, Term

if TYPE_CHECKING:
    from moeopt.problems.split import Instance

NUMBERS = "equal layers are counted, and steps between devices, in whatever order they come"

Lies = dict[tuple[int, int, int], int]
"""Run, device of attention and of experts -> how many layers; without experts both are one."""


def numbers_of_layers(instance: "Instance", below: int, form: Mapping[str, Any]) -> LemmaModel:
    """Return the model: layers of a kind by device, and steps between devices."""
    if instance.by_tensor:
        raise InputError("layers: by tensor: this lemma counts whole layers")
    made, count = LemmaModel(NUMBERS, tighten=False), len(instance.devices)
    kinds, first = _runs(instance)
    cost: dict[int, int] = {}
    lies: Lies = {}
    for kind, row in enumerate(first):
        size = kinds.count(kind)
        for g, attention in enumerate(_times(instance, row, "attention")):
            for h, experts in enumerate(_times(instance, row, "experts")):
                has = instance.layers[row].experts_ns is not None
                if attention is None or experts is None or (not has and h != g):
                    continue
                lies[kind, g, h] = made.whole(0, size)
                cost[lies[kind, g, h]] = attention + experts + (_hop(instance, g, h) if has else 0)
        made.row([(n, 1) for (of, *_), n in lies.items() if of == kind], "=", size, "SP-C1")
    _steps(instance, made, lies, kinds, cost)
    layers = [instance.layers[row] for row in first]
    parts = [(one.attention_bytes, one.experts_bytes * bool(one.experts_ns)) for one in layers]
    for device in range(count):
        held = [
            (n, parts[kind][0] * (g == device) + parts[kind][1] * (h == device))
            for (kind, g, h), n in lies.items()
        ]
        room = instance.devices[device].capacity - instance.devices[device].buffer
        made.row(held, "<=", max(room, 0), "SP-C2")
        for size in {size for _, size in held if size}:
            made.row([(n, own // size) for n, own in held], "<=", max(room, 0) // size, "SP-C2")
        for at in (1, 2):  # worth branching on: numbers of attentions, and of experts, there
            total = made.whole(0, len(kinds))
            own_part = [(n, 1) for key, n in lies.items() if key[at] == device]
            made.row([*own_part, (total, -1)], "=", 0, "SP-C1")
            made.first.append(total)
    made.objective = [[n, price] for n, price in cost.items() if price]
    return made


def _steps(
    instance: "Instance", made: LemmaModel, lies: Lies, kinds: list[int], cost: dict[int, int]
) -> None:
    """Add the steps of each run: from where its layers lie, but for the last, to the others."""
    count, ordered = len(instance.devices), instance.order is not None
    place = {device: n for n, device in enumerate(instance.order or ())}
    sets = [s for n in (() if ordered else (1, 2, 3)) for s in combinations(range(count), n)]
    starts = made.flags(count)
    made.one(starts, "SP-C5")
    cost |= {one: _hop(instance, instance.source, device) for device, one in enumerate(starts)}
    came: list[list[Term]] = [[(start, 1)] for start in starts]
    for run in range(kinds[-1] + 1):
        size, last = kinds.count(run), run == kinds[-1]
        own = {key: n for key, n in lies.items() if key[0] == run}
        before, came = came, [[] for _ in range(count)]
        steps: dict[int, tuple[int, int, int]] = {}
        ends: list[Term] = []
        for g, h in sorted({(g if ordered else -1, h) for _, g, h in own}):
            out = [
                (n, -1) for (_, at, to), n in own.items() if to == h and (at == g or not ordered)
            ]
            if last:
                end = made.whole(0, 1)
                cost[end] = _hop(instance, h, instance.source)
                ends.append((end, 1))
                out.append((end, 1))
            for after in range(count):
                if ordered and (after not in place or place[after] < place[g]):
                    continue
                for leaves in (False, True)[: 2 - last]:
                    step = made.whole(0, 1 if leaves else size)
                    cost[step] = _hop(instance, h, after)
                    out.append((step, 1))
                    if leaves:
                        came[after].append((step, 1))
                        ends.append((step, 1))
                    else:
                        steps[step] = g, h, after
            made.row(out, "=", 0, "SP-C5")
        made.row(ends, "=", 1, "SP-C5")
        for device in range(count):
            here = [(n, -1) for (_, g, _), n in own.items() if g == device]
            into = [(n, 1) for n, (*_, after) in steps.items() if after == device]
            made.row([*before[device], *into, *here], "=", 0, "SP-C5")
            if ordered:  # each device that has any attention of a run is come to once
                used = made.whole(0, 1)
                entered = [one for one in into if steps[one[0]][0] != device]
                made.row([*before[device], *entered, (used, -1)], "=", 0, "SP-C4")
                made.row([*((n, 1) for n, _ in here), (used, -size)], "<=", 0, "SP-C4")
        for some in sets:  # what has any attention is come to
            entered = [one for device in some for one in before[device]]
            entered += [(n, 1) for n, (_, h, g) in steps.items() if h not in some and g in some]
            entered += [(n, 1) for (_, g, h), n in own.items() if g not in some and h in some]
            here = [(n, 1) for (_, g, _), n in own.items() if g in some]
            made.row([*here, *((n, -size) for n, _ in entered)], "<=", 0, "SP-C5")


def _runs(instance: "Instance") -> tuple[list[int], list[int]]:
    """Return each layer's run of equal ones, and the first layer of each."""
    layers = instance.layers
    first = [n for n, layer in enumerate(layers) if n == 0 or layer != layers[n - 1]]
    return [bisect_right(first, n) - 1 for n in range(len(layers))], first


def _times(instance: "Instance", row: int, part: str) -> list[int | None]:
    """Return what a part of a layer takes on each device, weighted; None where it cannot be."""
    layer = instance.layers[row]
    times = getattr(layer, f"{part}_ns")
    if times is None:
        return [0] * len(instance.devices)
    prompt = getattr(layer, f"prompt_{part}_ns") or (0,) * len(times)
    found: list[int | None] = []
    for device, (time, ubatch) in enumerate(zip(times, prompt, strict=True)):
        own = instance.devices[device]
        can = time is not None and own.capacity >= own.buffer
        if part == "attention" and instance.order is not None:
            can = can and device in instance.order
        total = instance.decode_weight * (time or 0) + instance.prompt_weight * (ubatch or 0)
        found.append(total if can else None)
    return found


def _hop(instance: "Instance", from_device: int, to_device: int) -> int:
    later = 0 if instance.prompt_hop_ns is None else instance.prompt_hop_ns[from_device][to_device]
    hop = instance.hop_ns[from_device][to_device]
    return instance.decode_weight * hop + instance.prompt_weight * later
