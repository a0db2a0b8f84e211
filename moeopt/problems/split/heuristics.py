"""The runtimes' rules, each as its source does it; the specification describes them.

A rule takes devices with a buffer for GPUs and all others, and the source, for nodes of the host.
A rule that ends with more than fits, or with a part where it cannot run, has no solution.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from itertools import accumulate

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
        rows = [n for n, layer in enumerate(instance.layers) if layer.attention_ns is not None]
        ends = [*rows[1:], len(instance.layers)]
        layers = tuple(
            _joined(instance.layers[row:end]) for row, end in zip(rows, ends, strict=True)
        )
        solution = rule(instance.model_copy(update={"layers": layers}), **assumed)
        if solution is None:
            return None
        attention, experts = [-1] * ends[-1], list[int]()
        for row, end, at, home in zip(
            rows, ends, solution.attention, solution.experts, strict=True
        ):
            attention[row] = at
            experts += [home] * (end - row)
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

    The fastest is the one on which all parts together take the least time to decode.
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

    A layer goes to the first GPU whose share of all memory, with those before it, is above the
    layer's number over the number of layers and the output layer.
    """
    gpus, room = _gpus(instance), _room(instance)
    if not gpus:
        return first_fit(instance)
    ends = list(accumulate(max(0, room[gpu]) for gpu in gpus))
    layers = len(instance.layers) + 1  # the output layer counts as one
    attention = [
        next((gpu for gpu, end in zip(gpus, ends, strict=True) if row * ends[-1] < end * layers),
             gpus[-1])
        for row in range(len(instance.layers))
    ]  # fmt: skip
    return _fewest_on_cpu(instance, attention, leave)


@of_layers
def llama_cpp_fit(instance: Instance, margin: str = "0") -> Solution | None:
    """Fill GPUs from the back without experts, then from the front with them (``--fit``)."""
    instance = _with_margin(instance, margin)
    gpus, layers = _gpus(instance), len(instance.layers)
    if not gpus:
        return first_fit(instance)
    whole = tensor_split_then_n_cpu_moe(instance)
    if whole is not None and not set(whole.experts) & set(hosts(instance)):
        return whole
    fit = _Fit(instance, gpus, [0] * len(gpus), [0] * len(gpus), [False] * len(gpus))
    for number in reversed(range(len(gpus))):
        left = layers - sum(fit.layers)
        for count in range(left, 0, -1):
            tried = fit.copy()
            tried.layers[number] = tried.partial[number] = count
            if tried.fits(number):
                fit = tried
                break
    if sum(fit.layers) < layers:
        return fit.solution()  # not even attention fits: the first layers stay on the host
    dense = next(number for number, count in enumerate(fit.layers) if count)
    for number in range(len(gpus)):
        if number > dense:
            break
        for count in range(sum(fit.partial[dense:]), 0, -1):
            tried, moved, source = fit.copy(), count, dense
            while moved:
                taken = min(moved, tried.partial[source])
                tried.layers[source] -= taken
                tried.partial[source] -= taken
                tried.layers[number] += taken
                moved -= taken
                source += moved > 0
            if tried.fits(number):
                fit = tried
                while dense < len(gpus) - 1 and not fit.partial[dense]:
                    dense += 1
                break
        if fit.partial[dense] and number < dense:
            tried = fit.copy()  # attention of one layer more, its experts on the next device
            tried.layers[dense] -= 1
            tried.partial[dense] -= 1
            tried.layers[number] += 1
            tried.partial[number] += 1
            tried.overflows[number] = True
            if tried.fits(number) and tried.fits(number + 1):
                fit = tried
                while dense < len(gpus) - 1 and not fit.partial[dense]:
                    dense += 1
    return fit.solution()


@dataclass
class _Fit:
    """How many layers each GPU has in llama.cpp's fit, and how many of them without experts."""

    instance: Instance
    gpus: Sequence[int]
    layers: list[int]
    partial: list[int]
    overflows: list[bool]

    def copy(self) -> "_Fit":
        """Return another one that can be changed."""
        return _Fit(self.instance, self.gpus, self.layers[:], self.partial[:], self.overflows[:])

    def homes(self) -> tuple[list[int], list[int | None]]:
        """Return the GPU of each layer's attention and of its experts; None for the host."""
        total = len(self.instance.layers)
        host = hosts(self.instance)[0]
        attention = [host] * (total - sum(self.layers))
        experts: list[int | None] = [None] * len(attention)
        for number, gpu in enumerate(self.gpus):
            full = self.layers[number] - self.partial[number]
            attention += [gpu] * self.layers[number]
            experts += [gpu] * full
            for row in range(self.partial[number]):
                over = row == 0 and self.overflows[number] and number + 1 < len(self.gpus)
                experts.append(self.gpus[number + 1] if over else None)
        return attention, experts

    def fits(self, number: int) -> bool:
        """Return whether a GPU has room for what lies there."""
        gpu, used = self.gpus[number], 0
        for layer, at, home in zip(self.instance.layers, *self.homes(), strict=True):
            used += layer.attention_bytes * (at == gpu)
            used += layer.experts_bytes * (home == gpu and layer.experts_ns is not None)
        return used <= _room(self.instance)[gpu]

    def solution(self) -> Solution | None:
        """Return the split, with the rest of the experts on the host."""
        return _on_host(self.instance, *self.homes())


@of_layers
def ik_auto_fit(instance: Instance, margin: str = "0") -> Solution | None:
    """Share the bytes out by memory, then take experts off each GPU from its last layer on.

    ``--fit`` of ik_llama.cpp, with its split by layers.
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
    layers = len(attention)
    for fewest in range(layers + 1):
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
