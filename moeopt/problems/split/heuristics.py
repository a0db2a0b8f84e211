"""The runtimes' rules, each as its source does it; the specification names the sources.

A rule takes devices with a buffer for GPUs and all others, and the source, for nodes of the host.
A rule that ends with more than fits, or with a part where it cannot run, has no solution.
"""

from collections.abc import Callable, Sequence
from copy import copy
from functools import wraps
from itertools import accumulate
from typing import Literal

from moeopt.problems.split import PROBLEM

from .check import objective, violations
from .instance import Instance, Layer, Solution

Rule = Callable[..., Solution | None]

Homes = tuple[list[int], list[int]]
"""The device of each layer's attention and of its experts; -1 for none."""


def of_layers(rule: Rule) -> Rule:
    """Return the rule for instances by tensor, too: all tensors of a layer lie as its experts."""

    @wraps(rule)
    def found(instance: Instance, **assumed: str) -> Solution | None:
        if not instance.by_tensor:
            return rule(instance, **assumed)
        blocks = _blocks(instance)
        layers = tuple(_joined(instance.layers[rows.start : rows.stop]) for rows in blocks)
        solution = rule(instance.model_copy(update={"layers": layers}), **assumed)
        if solution is None:
            return None
        attention, experts = [-1] * len(instance.layers), list[int]()
        for rows, at, home in zip(blocks, solution.attention, solution.experts, strict=True):
            attention[rows.start] = at
            experts += [home] * len(rows)
        return _valid(instance, (attention, experts))

    return found


@of_layers
def first_fit(instance: Instance) -> Solution | None:
    """Put attention of each layer, then experts of each, on the first device with room.

    GPUs come first, then the host. Attention is placed before any experts, and with an order stays
    at or behind the device of the layer before.
    """
    room, order = _room(instance), instance.order
    every = [*_gpus(instance), *hosts(instance)]
    attention: list[int] = []
    for layer in instance.layers:
        ways = every
        if order is not None:
            least = order.index(attention[-1]) if attention else 0
            ways = [device for device in every if device in order[least:]]
        at = _first(ways, layer.attention_ns, layer.attention_bytes, room)
        if at is None:
            return None
        attention.append(at)
    experts: list[int] = []
    for layer in instance.layers:
        home: int | None = -1
        if layer.experts_ns is not None:
            home = _first(every, layer.experts_ns, layer.experts_bytes, room)
        if home is None:
            return None
        experts.append(home)
    return _valid(instance, (attention, experts))


@of_layers
def one_gpu_only(instance: Instance, leave: str = "first") -> Solution | None:
    """Use the fastest GPU alone: all attention there, experts of the last layers as far as fit.

    The fastest is the one on which all parts together take the least time to decode. The assumption
    `leave` says which experts leave it.
    """
    gpus = _gpus(instance)
    if not gpus:
        return first_fit(instance)

    def time_ns(device: int) -> tuple[int, int]:
        times = [layer.attention_ns[device] for layer in instance.layers if layer.attention_ns]
        times += [layer.experts_ns[device] for layer in instance.layers if layer.experts_ns]
        return sum(time or 0 for time in times), device

    gpu = min(gpus, key=time_ns)
    return _fewest_on_cpu(instance, [gpu] * len(instance.layers), leave)


@of_layers
def tensor_split_then_n_cpu_moe(instance: Instance, leave: str = "first") -> Solution | None:
    """Share the layers out by memory (``-ts``), then the least ``--n-cpu-moe`` that fits.

    The shares are in proportion to free memory. The experts of the first N layers are on the host,
    or of the last ones, by the assumption `leave`.
    """
    gpus, room = _gpus(instance), _room(instance)
    if not gpus:
        return first_fit(instance)
    attention = _shared_out(gpus, [room[gpu] for gpu in gpus], len(instance.layers))
    return _fewest_on_cpu(instance, attention, leave)


def llama_cpp_fit(instance: Instance, margin: str = "0") -> Solution | None:
    """Fill GPUs from the back without experts, then from the front with them (``--fit``).

    A default split, by free memory, that holds the whole model stays. Else, from the last GPU on,
    each takes as many of the last layers as fit without experts; the last one keeps its first
    layer's experts. If attention alone is too much, the first layers stay on the host. Else, from
    the first GPU on, as many layers as fit get their experts; of the layer at a GPU's border up, or
    gate and up, or no tensor of the experts stays there, and the others lie on the next GPU, or on
    the host behind the last one. The number of layers is searched for by false position.
    """
    instance = _with_margin(instance, margin)
    gpus, blocks = _gpus(instance), _blocks(instance)
    if not gpus:
        return first_fit(instance)
    free = [instance.devices[gpu].capacity for gpu in gpus]
    attention, experts = [-1] * len(instance.layers), [-1] * len(instance.layers)
    for rows, gpu in zip(blocks, _shared_out(gpus, free, len(blocks)), strict=True):
        attention[rows.start] = gpu
        for row in rows:
            experts[row] = -1 if instance.layers[row].experts_ns is None else gpu
    default = _valid(instance, (attention, experts))
    if default is not None:
        return default
    fit = _filled_without_experts(_Fit(instance, gpus, blocks))
    surplus = sum(_room(instance)[gpu] for gpu in gpus)
    surplus -= sum(layer.attention_bytes for layer in instance.layers)
    return (_filled_with_experts(fit) if surplus > 0 else fit).solution()


def _filled_without_experts(fit: "_Fit") -> "_Fit":
    """Give each GPU, the last one first, as many layers without experts as fit."""
    last = len(fit.gpus) - 1

    def more(fit: _Fit, number: int, step: int) -> _Fit:
        taken = fit.copy()
        taken.layers[number] += step
        # The output layer has no experts: the source counts one layer less as without them.
        taken.partial[number] += step - (number == last and not fit.partial[number])
        return taken

    for number in range(last, -1, -1):
        left = len(fit.blocks) - sum(fit.layers)
        if left:
            fit = _most(fit, more(fit, number, left), number, left, more)
    return fit


def _filled_with_experts(fit: "_Fit") -> "_Fit":
    """Give each GPU, the first one first, as many layers with experts as fit, and part of one.

    They are taken from those that GPUs have without, of which the last GPU must have some.
    """
    count = len(fit.gpus)
    empty = [number for number in range(count) if not fit.layers[number]]
    first = max(empty, default=-1) + 1  # all from here on have layers

    def more(fit: _Fit, number: int, step: int) -> _Fit:
        taken = fit.copy()
        for source in range(fit.dense, count):
            moved = min(step, taken.partial[source])
            taken.layers[source] -= moved
            taken.partial[source] -= moved
            taken.layers[number] += moved
            step -= moved
        while taken.dense < count and not taken.partial[taken.dense]:
            taken.dense += 1
        return taken

    fit = fit.copy()
    fit.dense = first
    for number in range(count):
        left = sum(fit.partial[fit.dense :])
        if number > fit.dense or not left:
            break
        fit = _most(fit, more(fit, number, left), number, left, more)
        if fit.dense < count:
            tried = more(fit, number, 1)
            tried.partial[number] += 1
            if fit.dense == number:
                tried.dense = number  # the layer is still its own
            fit = tried.with_part(number) or fit
    return fit


def _most(
    low: "_Fit",
    high: "_Fit",
    number: int,
    apart: int,
    more: Callable[["_Fit", int, int], "_Fit"],
) -> "_Fit":
    """Return the fit between two with the most layers that a GPU has room for.

    By false position, as in the source: where layers differ, the result depends on what is tried.

    Parameters
    ----------
    low, high
        The first is taken to fit.
    apart
        By how many layers they differ.
    more
        Return a fit with so many layers more on a GPU.
    """
    room = low.room[number]
    if high.used(number) <= room:
        return high
    while apart > 1:
        used = low.used(number)
        rise, left = high.used(number) - used, room - used
        step = apart * left // rise if rise > 0 and left >= 0 else apart - 1
        step = min(max(step, 1), apart - 1)
        tried = more(low, number, step)
        if tried.used(number) <= room:
            low, apart = tried, apart - step
        else:
            high, apart = tried, step
    return low


Part = Literal["nothing", "up", "gate and up"]
"""What of a layer's experts lies beside its attention, at the border between two devices."""


class _Fit:
    """How many layers each GPU has in llama.cpp's fit, and how many of them without experts.

    Attributes
    ----------
    blocks
        The rows of each layer, and none for the output layer, which counts as the last one.
    layers, partial
        Per GPU: those with attention there, in order, and of them, at the end, those without all
        of their experts there.
    border
        Per GPU: what of the first of the partial ones' experts lies there, if the others of them
        lie on the next device; None: all on the host.
    dense
        The first GPU whose layers without experts can be moved to GPUs before it.
    room
        Of each GPU, in bytes.
    attention, experts
        Bytes of the layers before each, and of all.
    """

    def __init__(self, instance: Instance, gpus: list[int], blocks: list[range]) -> None:
        end = len(instance.layers)
        self.instance, self.gpus, self.blocks = instance, gpus, [*blocks, range(end, end)]
        self.layers, self.partial = [0] * len(gpus), [0] * len(gpus)
        self.border: list[Part | None] = [None] * len(gpus)
        self.dense, room = len(gpus), _room(instance)
        self.room = [room[gpu] for gpu in gpus]
        rows = [instance.layers[block.start : block.stop] for block in self.blocks]
        sizes = [sum(row.attention_bytes for row in block) for block in rows]
        self.attention = [0, *accumulate(sizes)]
        self.experts = [0, *accumulate(sum(map(_held, block)) for block in rows)]

    def copy(self) -> "_Fit":
        """Return another one that can be changed."""
        other = copy(self)
        other.layers, other.partial = self.layers[:], self.partial[:]
        other.border = self.border[:]
        return other

    def with_part(self, number: int) -> "_Fit | None":
        """Return the fit with as much as fits of the layer at a GPU's border; None: nothing does.

        As in the source, up is tried first, then gate with it; without up nothing of the experts;
        and a part must leave a byte, where it lies and on the next GPU.
        """
        near = range(number, min(number + 2, len(self.gpus)))
        ways: tuple[tuple[Part, ...], ...] = (("up", "gate and up"), ("nothing",))
        for parts in ways:
            found: _Fit | None = None
            for part in parts:
                tried = self.copy()
                tried.border[number] = part
                if any(tried.used(gpu) >= self.room[gpu] for gpu in near):
                    break
                found = tried
            if found is not None:
                return found
        return None

    def homes(self) -> tuple[list[int], list[int | None]]:
        """Return the device of each row's attention and of its experts; None for the host."""
        rows, host = len(self.instance.layers), hosts(self.instance)[0]
        first = len(self.blocks) - sum(self.layers)
        attention = [host if layer.attention_ns else -1 for layer in self.instance.layers]
        experts: list[int | None] = [None] * rows
        for number, gpu in enumerate(self.gpus):
            full = first + self.layers[number] - self.partial[number]
            beyond = None if gpu == self.gpus[-1] else self.gpus[number + 1]
            for at in range(first, first + self.layers[number]):
                block, part = self.blocks[at], self.border[number] if at == full else None
                kept = block if at < full else _kept(block, part)
                for row in block:
                    attention[row] = gpu if row == block.start else -1
                    experts[row] = gpu if row in kept else beyond if part else None
            first += self.layers[number]
        return attention, experts

    def used(self, number: int) -> int:
        """Return the bytes of what lies on a GPU."""
        end = len(self.blocks) - sum(self.layers[number + 1 :])
        first, full = end - self.layers[number], end - self.partial[number]
        used = self.attention[end] - self.attention[first]
        used += self.experts[full] - self.experts[first] + self._of_border(number)[0]
        return used + (self._of_border(number - 1)[1] if number else 0)

    def _of_border(self, number: int) -> tuple[int, int]:
        """Return the bytes of the layer at a GPU's border that lie there, and on the next GPU."""
        part, count = self.border[number], self.partial[number]
        if part is None or not count:
            return 0, 0
        at = len(self.blocks) - sum(self.layers[number + 1 :]) - count
        kept = sum(_held(self.instance.layers[row]) for row in _kept(self.blocks[at], part))
        return kept, self.experts[at + 1] - self.experts[at] - kept

    def solution(self) -> Solution | None:
        """Return the split, with the rest of the experts on the host."""
        return _on_host(self.instance, *self.homes())


def _kept(block: range, part: Part | None) -> range:
    """Return the rows of gate, up and down (or of up and down) that lie beside attention."""
    up = min(1, len(block) - 2)
    if part == "up":
        return block[up : up + 1] if up >= 0 else block[:0]
    return block[:-1] if part == "gate and up" else block[:0]


def _blocks(instance: Instance) -> list[range]:
    """Return the rows of each layer."""
    rows = [n for n, layer in enumerate(instance.layers) if layer.attention_ns is not None]
    ends = [*rows[1:], len(instance.layers)]
    return [range(row, end) for row, end in zip(rows, ends, strict=True)]


def _shared_out(gpus: Sequence[int], shares: Sequence[int], layers: int) -> list[int]:
    """Return the GPU of each layer by shares.

    A layer goes to the first GPU whose share, with those before it, is above the layer's number
    over the number of layers and the output layer.
    """
    ends = list(accumulate(max(0, share) for share in shares))
    each = list(zip(gpus, ends, strict=True))
    return [
        next((gpu for gpu, end in each if row * ends[-1] < end * (layers + 1)), gpus[-1])
        for row in range(layers)
    ]


@of_layers
def ik_auto_fit(instance: Instance, margin: str = "0") -> Solution | None:
    """Share the bytes out by memory, then take experts off each GPU from its last layer on.

    ``--fit`` of ik_llama.cpp, with its split by layers: layers with their experts are shared out in
    proportion to free memory, by bytes, to the nearest layer; then on each GPU experts go to the
    host from its last layer on until it fits.
    """
    instance = _with_margin(instance, margin)
    gpus, room = _gpus(instance), _room(instance)
    if not gpus:
        return first_fit(instance)
    sizes = [layer.attention_bytes + _held(layer) for layer in instance.layers]
    needed = sum(sizes)
    buffers = max(instance.devices[gpu].buffer for gpu in gpus)
    shares = [max(0, room[gpu]) for gpu in gpus]
    attention = [gpus[place] for place in ik_places(sizes, shares, buffers)]
    experts: list[int | None] = [*attention]
    for gpu in gpus:
        if needed <= sum(max(0, room[other]) for other in gpus):
            break
        mine = [number for number, at in enumerate(attention) if at == gpu]
        used = sum(sizes[number] for number in mine)
        for number in reversed(mine):
            if used <= room[gpu]:
                break
            used -= _held(instance.layers[number])
            experts[number] = None
    return _on_host(instance, attention, experts)


def ik_places(sizes: Sequence[int], shares: Sequence[float], buffer: int) -> list[int]:
    """Return which share of all bytes each layer goes to: to the nearest layer, in order.

    Each device has a compute buffer beside its layers, which counts; the last one takes the rest.
    """
    ends, total = list(accumulate(shares)), sum(sizes) + buffer * len(shares)
    found, row, loaded = [len(shares) - 1] * len(sizes), 0, 0
    for place, end in enumerate(ends):
        loaded += buffer
        while row < len(sizes):
            # Compared without a division: loaded + size against end / ends[-1] x total.
            over = (loaded + sizes[row]) * ends[-1] - end * total
            if over > 0 and over >= end * total - loaded * ends[-1]:
                break
            found[row] = place
            loaded += sizes[row]
            row += 1
            if over > 0:
                break
    return found


def best_rule(instance: Instance) -> Solution | None:
    """Return the best that the rules find; it is what exact methods start from."""
    found = [rule(instance) for rule in PROBLEM.functions().values()]
    valid = [solution for solution in found if solution is not None]
    return min(valid, key=lambda solution: objective(instance, solution), default=None)


def _gpus(instance: Instance) -> list[int]:
    """Return the GPUs, in the order that attention keeps to."""
    every = range(len(instance.devices)) if instance.order is None else instance.order
    return [d for d in every if instance.devices[d].buffer and d != instance.source]


def hosts(instance: Instance) -> list[int]:
    """Return the host's nodes, the source first."""
    count = range(len(instance.devices))
    others = [d for d in count if d != instance.source and not instance.devices[d].buffer]
    return [instance.source, *others]


def _room(instance: Instance) -> list[int]:
    """Return what parts may take on each device; negative where not even the buffer fits."""
    return [device.capacity - device.buffer for device in instance.devices]


def _held(layer: Layer) -> int:
    """Return the bytes of a layer's experts."""
    return 0 if layer.experts_ns is None else layer.experts_bytes


def _first(
    ways: Sequence[int], times: Sequence[int | None] | None, size: int, room: list[int]
) -> int | None:
    """Return the first device that can run a part and has room for it, which is taken."""
    for device in ways:
        if times is not None and times[device] is not None and size <= room[device]:
            room[device] -= size
            return device
    return None


def _on_host(
    instance: Instance, attention: list[int], experts: Sequence[int | None]
) -> Solution | None:
    """Return the split, with experts that have no home on the first node with room."""
    room, homes = _room(instance), []
    for layer, at, home in zip(instance.layers, attention, experts, strict=True):
        room[at] -= layer.attention_bytes
        if home is not None:
            room[home] -= _held(layer)
    nodes = hosts(instance)
    for layer, home in zip(instance.layers, experts, strict=True):
        if layer.experts_ns is None:
            homes.append(-1)
            continue
        where = home
        if where is None:
            where = _first(nodes, layer.experts_ns, layer.experts_bytes, room)
        if where is None:
            return None
        homes.append(where)
    return _valid(instance, (attention, homes))


def _fewest_on_cpu(instance: Instance, attention: list[int], leave: str) -> Solution | None:
    """Keep the experts of the fewest first or last layers on the host, others beside attention."""
    layers, room = len(attention), _room(instance)
    for layer, at in zip(instance.layers, attention, strict=True):
        room[at] -= layer.attention_bytes + _held(layer)
    over = {at for at in attention if room[at] < 0}
    for fewest in range(layers + 1):
        if fewest:  # the last one to leave
            left = fewest - 1 if leave == "first" else layers - fewest
            at = attention[left]
            room[at] += _held(instance.layers[left])
            if room[at] >= 0:
                over.discard(at)
        if over:
            continue
        off = range(fewest) if leave == "first" else range(layers - fewest, layers)
        homes = [None if row in off else at for row, at in enumerate(attention)]
        found = _on_host(instance, attention, homes)
        if found is not None:
            return found
    return None


def _with_margin(instance: Instance, margin: str) -> Instance:
    """Return the instance with so many MiB more in each GPU's buffer."""
    if margin == "0":
        return instance
    more = int(margin) * 2**20
    devices = [
        device.model_copy(update={"buffer": device.buffer + more}) if device.buffer else device
        for device in instance.devices
    ]
    return instance.model_copy(update={"devices": tuple(devices)})


def _valid(instance: Instance, homes: Homes) -> Solution | None:
    attention, experts = homes
    solution = Solution(instance=instance.name, attention=tuple(attention), experts=tuple(experts))
    return None if violations(instance, solution) else solution


def _joined(rows: Sequence[Layer]) -> Layer:
    """Return a layer with the experts of all rows as one part."""
    changed: dict[str, object] = {"experts_bytes": sum(_held(row) for row in rows)}
    for name in ("experts_ns", "prompt_experts_ns"):
        times = [getattr(row, name) for row in rows]
        if any(times):
            each = zip(*(own for own in times if own), strict=True)
            changed[name] = tuple(None if None in own else sum(own) for own in each)
    return rows[0].model_copy(update=changed)


WARM_START = best_rule
"""The heuristic whose solution the exact methods start from."""
