"""Lemmas whose models are a page each: of balance, cache, deferral, replication and split."""

from bisect import bisect_right
from collections.abc import Mapping
from itertools import combinations
from typing import TYPE_CHECKING, Any

from moeopt.core.errors import InputError
from moeopt.problems.cache.bounds import objective_grid, sides_of

from .rows import LemmaModel, Term

if TYPE_CHECKING:
    from moeopt.problems.balance import Instance as Balance
    from moeopt.problems.cache import Instance as Cache
    from moeopt.problems.deferral import Instance as Deferral
    from moeopt.problems.replication import Instance as Replication
    from moeopt.problems.split import Instance as Split


CLOSED_FORM = "the makespan of the flow shop of link and GPU in closed form"


def link_and_units(instance: "Balance", below: int, form: Mapping[str, Any]) -> LemmaModel:
    """Return the model: slices by expert and unit, and the pulled expert that is computed last."""
    made = LemmaModel(CLOSED_FORM, tighten=True)
    units, held, wait = range(instance.ndp_units), instance.slices_per_unit, instance
    makespan, kept = made.whole(0, below - 1), made.whole(0, 1)
    gpu = [(kept, wait.gpu_overhead_ns), (makespan, -1)]
    ndp = [[(kept, wait.ndp_overhead_ns), (makespan, -1)] for _ in units]
    pulled: list[list[int]] = [[] for _ in units]
    every, away_work, last, work = [], [], [], 0
    for expert in sorted(instance.experts, key=lambda one: one.slice_gpu_ns):
        taken = [made.whole(0, held) for _ in units]
        every += taken
        work += held * expert.slice_ndp_ns
        for unit in units:
            ndp[unit].append((taken[unit], -expert.slice_ndp_ns))
        gpu += [(one, expert.slice_gpu_ns) for one in taken]
        if not expert.resident:
            away_work += [(one, expert.slice_gpu_ns) for one in taken]
            flag = made.whole(0, 1)
            last.append((flag, expert.slice_gpu_ns))
            made.row([(flag, 1), *((one, -1) for one in taken)], "<=", 0, "BA-C2")
            for unit in units:
                pulled[unit].append(taken[unit])
    made.row(gpu, "<=", 0, "BA-C2")
    for row in ndp:
        made.row(row, "<=", -work, "BA-C3")
    all_slices = len(every) * held
    made.row([(kept, all_slices), *((one, 1) for one in every)], ">=", all_slices, "BA-C3")
    made.first = [kept]
    if last:
        none = made.whole(0, 1)
        made.one([none, *(flag for flag, _ in last)], "BA-C2")
        sums = [made.whole(0, len(last) * held) for _ in units]
        for total, taken in zip(sums, pulled, strict=True):
            made.row([(total, -1), *((one, 1) for one in taken)], "=", 0, "sum")
        most = len(last) * held * instance.ndp_units
        made.row([(none, most), *((total, 1) for total in sums)], "<=", most, "BA-C2")
        due = [(kept, wait.gpu_overhead_ns), (makespan, -1)]
        transfer = instance.slice_transfer_ns
        made.row([*((total, transfer) for total in sums), *last, *due], "<=", 0, "BA-C2")
        made.row([*away_work, *due, (none, -transfer)], "<=", -transfer, "BA-C2")
        made.first += [none, *sums]
    made.objective = [[makespan, 1]]
    return made


COPIES = "the fullest device has the mean at least, and of k copies one a k-th at least"
LAYERS = "ways that fewer serve as well are left out, and layers with any are counted"


def numbers_of_copies(instance: "Replication", below: int, form: Mapping[str, Any]) -> LemmaModel:
    """Return the model: numbers of copies, a peak per window. Nodes, links, moves cost nothing."""
    made = LemmaModel(COPIES, tighten=True)
    devices, kernel = instance.devices, instance.work == "kernel"
    weights = [int(weight) for weight in instance.weights]
    peaks = [made.whole(0, (below - 1) // weight if weight else None) for weight in weights]
    numbers = range(1, min(instance.max_copies, devices) + 1)
    read, token = (instance.read_ns or 0, instance.token_ns or 0) if kernel else (0, 1)
    loads = [[int(load) for load in row] for row in instance.loads_units]
    slots, copies = [], []
    for expert in range(len(loads[0])):
        flags = made.flags(len(numbers))
        made.one(flags, "RP-C1")
        copies.append(flags)
        slots += list(zip(flags, numbers, strict=True))
        for peak, row in zip(peaks, loads, strict=True):
            load = row[expert]
            if not load:
                continue
            shares = [max(read, token * -(-load // k)) for k in numbers]
            made.row([(peak, -1), *zip(flags, shares, strict=True)], "<=", 0, "RP-C5")
    made.row(slots, "<=", devices * instance.slots, "RP-C2")
    for peak, row, weight in zip(peaks, loads, weights, strict=True):
        made.row([(peak, devices)], ">=", token * sum(row), "RP-C5")
        if kernel and weight:
            most = (below - 1) // weight
            if token and devices * (most // token) < sum(row):
                made.row([(peak, 0)], ">=", 1, "RP-C5")  # no room for all tokens
            if read and len(peaks) == 1:
                used = [
                    (flag, min(k, load))
                    for flags, load in zip(copies, row, strict=True)
                    for flag, k in zip(flags, numbers, strict=True)
                ]
                made.row(used, "<=", devices * (most // read), "RP-C5")
    made.objective = [[peak, weight] for peak, weight in zip(peaks, weights, strict=True) if weight]
    return made


def number_of_layers(instance: "Cache", below: int, form: Mapping[str, Any]) -> LemmaModel:
    """Return the model: a flag for each layer's ways, and the number of layers with none."""
    sides, grid = sides_of(instance), objective_grid(instance)
    made = LemmaModel(LAYERS, tighten=False)
    trace = made.whole(0, (below - 1) // grid)
    used, none = list[Term](), list[Term]()
    loads: tuple[list[Term], list[Term]] = [(trace, -1)], [(trace, -1)]
    for compute, copy in zip(sides.compute_ns.tolist(), sides.copy_ns.tolist(), strict=True):
        kept: list[tuple[int, int, int]] = []
        for ways, (one, other) in enumerate(zip(compute, copy, strict=True)):
            if all(one < a or other < b for _, a, b in kept):
                kept.append((ways, one, other))
        flags = made.flags(len(kept))
        made.one(flags, "CA-C1")
        none.append((flags[0], 1))
        for flag, (ways, one, other) in zip(flags, kept, strict=True):
            used.append((flag, ways))
            loads[0].append((flag, one // grid))
            loads[1].append((flag, other // grid))
    made.row(used, "<=", sides.slots, "CA-C2")
    for load, rule in zip(loads, ("CA-C3", "CA-C4"), strict=True):
        made.row(load, "<=", 0, rule)
    made.first = [made.whole(0, len(none))]
    made.row([*none, (made.first[0], -1)], "=", 0, "sum")
    made.objective = [[trace, grid]]
    return made


USUAL_ORDER = "immediate before deferred experts, layer by layer, loses nothing on the CPU"


def usual_order(instance: "Deferral", below: int, form: Mapping[str, Any]) -> LemmaModel:
    """Return the model: when each layer's attention starts and when the CPU is free for it.

    The recurrences are those of the specification, as inequalities. An expert that takes no time
    waits for nobody on the CPU, nor do no immediate ones: where either may be, less is said.
    """
    made = LemmaModel(USUAL_ORDER, tighten=True)
    radix = instance.layers * instance.penalty[-1] + 1
    most = below // radix
    attention = [made.whole(0, most) for _ in range(instance.layers)]
    free = [made.whole(0, most) for _ in range(instance.layers + 1)]
    makespan = made.whole(0, most)
    cost = []
    for layer, (start, before) in enumerate(zip(attention, free, strict=False)):
        gpu, sync = instance.attention_ns[layer], instance.sync_ns[layer]
        expert, top = instance.expert_cpu_ns[layer], instance.top_k
        counts = instance.deferrable(layer)
        flags = made.flags(len(counts))
        made.one(flags, "DE-C1")
        cost += [(flag, instance.penalty[d]) for flag, d in zip(flags, counts, strict=True)]
        count = made.whole(0, counts[-1])
        made.first.append(count)
        made.row([(count, -1), *zip(flags, counts, strict=True)], "=", 0, "DE-C1")
        begin = made.whole(0, most)  # of the immediate experts
        made.row([(begin, 1), (start, -1)], ">=", gpu + sync, "DE-C5")
        if expert and instance.min_immediate:
            made.row([(begin, 1), (before, -1)], ">=", 0, "DE-C6")
        after = free[layer + 1]
        made.row([(after, 1), (begin, -1)], ">=", top * expert if expert else -most, "DE-C6")
        made.row([(after, 1), (before, -1)], ">=", top * expert, "DE-C6")
        done = gpu + instance.shared_ns[layer]
        if layer + 1 == instance.layers:
            made.row([(makespan, 1), (start, -1)], ">=", done, "DE-C8")
            continue
        follows = attention[layer + 1]
        made.row([(follows, 1), (start, -1)], ">=", done, "DE-C4")
        made.row([(follows, 1), (begin, -1), (count, expert)], ">=", top * expert + sync, "DE-C2")
        if layer + 2 < instance.layers and expert:
            made.row([(attention[layer + 2], 1), (after, -1)], ">=", sync, "DE-C3")
    made.row([(makespan, 1), (free[-1], -1)], ">=", 0, "DE-C8")
    if instance.max_total_penalty is not None:
        made.row(cost, "<=", instance.max_total_penalty, "DE-C7")
    made.objective = [[makespan, radix], *([flag, w] for flag, w in cost if w)]
    return made


NUMBERS = "equal layers are counted, and steps between devices, in whatever order they come"

Lies = dict[tuple[int, int, int], int]
"""Run, device of attention and of experts -> how many layers; without experts both are one."""


def numbers_of_layers(instance: "Split", below: int, form: Mapping[str, Any]) -> LemmaModel:
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
    instance: "Split", made: LemmaModel, lies: Lies, kinds: list[int], cost: dict[int, int]
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


def _runs(instance: "Split") -> tuple[list[int], list[int]]:
    """Return each layer's run of equal ones, and the first layer of each."""
    layers = instance.layers
    first = [n for n, layer in enumerate(layers) if n == 0 or layer != layers[n - 1]]
    return [bisect_right(first, n) - 1 for n in range(len(layers))], first


def _times(instance: "Split", row: int, part: str) -> list[int | None]:
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


def _hop(instance: "Split", from_device: int, to_device: int) -> int:
    later = 0 if instance.prompt_hop_ns is None else instance.prompt_hop_ns[from_device][to_device]
    hop = instance.hop_ns[from_device][to_device]
    return instance.decode_weight * hop + instance.prompt_weight * later
