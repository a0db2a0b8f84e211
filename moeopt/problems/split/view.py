"""What reports say about a split, and where two of them differ."""

from collections.abc import Iterator

from moeopt.core.view import Changes, Difference, replaced

from .check import times_ns, used_bytes
from .instance import Instance, Solution

PERCENT = 100


def facts(instance: Instance, solution: Solution) -> dict[str, str | int]:
    """Return both times, the hops between devices, and how full the fullest device is.

    Layers with attention and experts are counted by device.
    """
    token_ns, prompt_ns = times_ns(instance, solution)
    found: dict[str, str | int] = {"token_ns": token_ns, "prompt_ns": prompt_ns}
    found["hops"] = sum(a != b for a, b in hops(instance, solution))
    for number, (device, used) in enumerate(
        zip(instance.devices, used_bytes(instance, solution), strict=True)
    ):
        layers = solution.attention.count(number)
        experts = solution.experts.count(number)
        full = PERCENT * (used + device.buffer) // device.capacity if device.capacity else 0
        of = "tensors" if instance.by_tensor else "layers"
        said = f"attention of {layers}, experts of {experts} {of}, {full} % full"
        found[device.name] = said if layers or experts else "left out"
    return found


def hops(instance: Instance, solution: Solution) -> Iterator[tuple[int, int]]:
    """Yield the devices that the activations go between, one after the other."""
    here = instance.source
    for at, home in zip(solution.attention, solution.experts, strict=True):
        if at >= 0:
            yield here, at
            here = at
        if home >= 0:
            yield at, home
            here = home
    yield here, instance.source


def _layer(instance: Instance, row: int, part: str = "experts") -> str:
    """Return what a row of `layers` is: a layer, or a tensor of one, counted from 0."""
    if not instance.by_tensor:
        return f"layer {row}"
    starts = [n for n, one in enumerate(instance.layers[: row + 1]) if one.attention_ns is not None]
    of = f"layer {len(starts) - 1}"
    return of if part == "attention" else f"{of}, tensor {row - starts[-1]}"


def differences(instance: Instance, ours: Solution, best: Solution) -> Iterator[Difference]:
    """Yield the parts that lie elsewhere, by their bytes."""
    names = [device.name for device in instance.devices]
    for number, layer in enumerate(instance.layers):
        for part, size in (
            ("attention", layer.attention_bytes),
            ("experts", layer.experts_bytes),
        ):
            a, b = getattr(ours, part)[number], getattr(best, part)[number]
            if a != b:
                yield size, f"{_layer(instance, number, part)}: {part}", names[a], names[b]


def changes(instance: Instance, solution: Solution) -> Changes:
    """Yield each part on another device, and exchanges of two layers' experts."""
    names = [device.name for device in instance.devices]
    for number in range(len(instance.layers)):
        for part in ("attention", "experts"):
            homes = getattr(solution, part)
            for device, name in enumerate(names):
                if homes[number] not in (device, -1):
                    of = f"{part} of {_layer(instance, number, part)}"
                    words = f"{of} on {name}, not {names[homes[number]]}"
                    moved = {part: replaced(homes, number, device)}
                    yield words, solution.model_copy(update=moved)
    homes = solution.experts
    for first in range(len(homes)):
        for second in range(first):
            if homes[first] != homes[second] and min(homes[first], homes[second]) >= 0:
                both = replaced(replaced(homes, first, homes[second]), second, homes[first])
                both_of = f"{_layer(instance, second)} and {_layer(instance, first)}"
                words = f"experts of {both_of} exchanged"
                yield words, solution.model_copy(update={"experts": both})
