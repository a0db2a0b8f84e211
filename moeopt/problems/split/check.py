"""The checker: what makes a split valid and what it costs. Knows nothing of solvers."""

from collections.abc import Iterator, Sequence
from itertools import product

from .instance import Instance, Solution

CONSTRAINTS = {
    "SP-C1": "each layer's attention has one device that can run it, and so have its experts",
    "SP-C2": "the parts that lie on a device fit into its memory",
    "SP-C3": "so they do beside its buffer, which it needs as soon as any part lies there",
    "SP-C4": "attention keeps to the order, and never goes back in it",
    "SP-C5": "a token takes the sum of its parts and hops",
    "SP-C6": "so does an ubatch of a prompt, with the prompt's times",
}

OBJECTIVE = ("weighted_ns",)
"""What is minimised: decode_weight x a token's time + prompt_weight x an ubatch's, in ns."""

NONE = -1
"""Stands for the home of a part that a layer does not have."""

Found = Iterator[tuple[str, str]]


def violations(
    instance: Instance, solution: Solution, claim_ns: int | None = None
) -> list[tuple[str, str]]:
    """Return what is wrong with a split, as (constraint ID, sentence); empty if it is valid.

    Parameters
    ----------
    instance, solution
        The problem and the split to check.
    claim_ns
        The objective claimed for it, if there is a claim: SP-C5 and SP-C6 hold it to its times.
    """
    found = list(_homes(instance, solution))
    if found:
        return found
    found += _memory(instance, solution)
    found += _order(instance, solution)
    if claim_ns is not None:
        token_ns, prompt_ns = times_ns(instance, solution)
        decode_ns = instance.decode_weight * token_ns
        if claim_ns < decode_ns:
            found.append(("SP-C5", f"{claim_ns} ns is claimed, decoding alone is {decode_ns} ns"))
        elif claim_ns < decode_ns + instance.prompt_weight * prompt_ns:
            both_ns = decode_ns + instance.prompt_weight * prompt_ns
            found.append(("SP-C6", f"{claim_ns} ns is claimed, with the prompt it is {both_ns} ns"))
    return found


def objective(instance: Instance, solution: Solution) -> int:
    """Return decode_weight x `token_ns` + prompt_weight x `prompt_ns`."""
    token_ns, prompt_ns = times_ns(instance, solution)
    return instance.decode_weight * token_ns + instance.prompt_weight * prompt_ns


def times_ns(instance: Instance, solution: Solution) -> tuple[int, int]:
    """Return the time of a token, and of an ubatch of a prompt, in ns.

    A part that has no device that can run it takes no time here; `violations` reports it.
    """
    token_ns, prompt_ns = (_walk_ns(instance, solution, prefix) for prefix in ("", "prompt_"))
    return token_ns, prompt_ns


def used_bytes(instance: Instance, solution: Solution) -> list[int]:
    """Return the bytes of the parts on each device, without its buffer."""
    used = [0] * len(instance.devices)
    for layer, at, home in zip(instance.layers, solution.attention, solution.experts, strict=False):
        if 0 <= at < len(used):
            used[at] += layer.attention_bytes
        if layer.experts_ns is not None and 0 <= home < len(used):
            used[home] += layer.experts_bytes
    return used


def _walk_ns(instance: Instance, solution: Solution, prefix: str) -> int:
    """Follow the activations from the source through all layers and back."""
    hop_ns: Sequence[Sequence[int]] | None = getattr(instance, f"{prefix}hop_ns")
    total, here = 0, instance.source
    for number, layer in enumerate(instance.layers):
        stops = [(solution.attention[number], getattr(layer, f"{prefix}attention_ns"))]
        if layer.experts_ns is not None:
            stops.append((solution.experts[number], getattr(layer, f"{prefix}experts_ns")))
        for device, times in stops:
            if not 0 <= device < len(instance.devices):
                continue
            total += 0 if hop_ns is None else hop_ns[here][device]
            total += 0 if times is None else times[device] or 0
            here = device
    return total + (0 if hop_ns is None else hop_ns[here][instance.source])


def _homes(instance: Instance, solution: Solution) -> Found:
    count = len(instance.layers)
    for name in ("attention", "experts"):
        if (entries := len(getattr(solution, name))) != count:
            yield "SP-C1", f"{name} has {entries} entries for {count} layers"
            return
    for number, layer in enumerate(instance.layers):
        for name, device, times in (
            ("attention", solution.attention[number], layer.attention_ns),
            ("experts", solution.experts[number], layer.experts_ns),
        ):
            if times is None:
                if device != NONE:
                    yield "SP-C1", f"{name}[{number}]: the layer has none: must be -1"
            elif not 0 <= device < len(instance.devices):
                there = len(instance.devices)
                yield "SP-C1", f"{name}[{number}]: there is no device {device}, only {there}"
            elif times[device] is None:
                yield "SP-C1", f"{name}[{number}]: cannot run on {instance.devices[device].name}"


def _memory(instance: Instance, solution: Solution) -> Found:
    taken = {*solution.attention, *solution.experts}
    for number, used in enumerate(used_bytes(instance, solution)):
        device = instance.devices[number]
        if used > device.capacity:
            yield "SP-C2", f"{device.name}: {used} bytes lie there, it has {device.capacity}"
        elif number in taken and used + device.buffer > device.capacity:
            need = f"{used} bytes lie there, and {device.buffer} are its buffer"
            yield "SP-C3", f"{device.name}: {need}; it has {device.capacity}"


def _order(instance: Instance, solution: Solution) -> Found:
    if instance.order is None:
        return
    before = 0
    for number, device in enumerate(solution.attention):
        if device == NONE:
            continue
        name = instance.devices[device].name
        if device not in instance.order:
            yield "SP-C4", f"attention[{number}]: {name} is not in the order"
            continue
        place = instance.order.index(device)
        if place < before:
            yield "SP-C4", f"attention[{number}]: goes back to {name}"
        before = place


MAX_CANDIDATES = 2**17


def count(instance: Instance) -> int:
    """Return how many candidates `candidates` yields."""
    parts = [(layer.attention_ns, layer.experts_ns) for layer in instance.layers]
    found: int = len(instance.devices) ** sum(times is not None for row in parts for times in row)
    return found


def candidates(instance: Instance) -> Iterator[Solution]:
    """Yield every device for every part, valid or not: that is for the checker to say."""
    every = range(len(instance.devices))
    at, homes = (
        [every if times is not None else (NONE,) for times in each]
        for each in zip(*((x.attention_ns, x.experts_ns) for x in instance.layers), strict=True)
    )
    for attention in product(*at):
        for experts in product(*homes):
            yield Solution.model_construct(
                problem="split", instance=instance.name, attention=attention, experts=experts
            )
