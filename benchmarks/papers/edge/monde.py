"""MoNDE on several NDP units: whole experts, dealt out to the units in turn (IV-A, IV-B).

The paper's baseline "distributes expert workloads cyclically" (IV-B) under expert parallelism
(III-B), with "partial workloads offloaded to the GPU", and leaves open how many. Three readings:

- expert-parallel: none.
- balanced: the whole experts whose transfers take as long as the NDP units need for the others if
  these were spread evenly, rounded; they are taken from the fullest unit. Assumed: this one.
- in hindsight: the number that is best for each token.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import product
from math import comb, prod

from benchmarks.papers.edge.cases import Reading
from benchmarks.rooms.balance import Instance, whole_experts
from benchmarks.rooms.sim import ModelShape

READINGS: tuple[Reading, ...] = ("expert-parallel", "balanced", "in hindsight")


def decode_ns(instance: Instance, model: ModelShape, reading: Reading = "balanced") -> float:
    """Return the expected time of a layer of one decoded token.

    Parameters
    ----------
    instance
        Of the system with tensor parallelism: says what slices, transfers and activations take.
    model
        Its experts are dealt out in turn. Every set of top_k experts is as likely; shared experts
        lie on a unit each, any with the same chance.
    """
    chances = fullest_first(
        model.routed_experts, model.top_k, model.shared_experts, instance.ndp_units
    )
    return sum(chance * _layer_ns(instance, load, reading) for load, chance in chances.items())


@cache
def fullest_first(
    experts: int, top_k: int, shared: int, units: int
) -> dict[tuple[int, ...], float]:
    """Return how likely it is that the units hold so many active experts each, fullest first."""
    sizes = [len(range(unit, experts, units)) for unit in range(units)]
    ways: Counter[tuple[int, ...]] = Counter()
    for counts in _splits(top_k, units):
        each = prod(comb(size, n) for size, n in zip(sizes, counts, strict=True))
        for places in product(range(units), repeat=shared) if each else ():
            load = (n + places.count(unit) for unit, n in enumerate(counts))
            ways[tuple(sorted(load, reverse=True))] += each
    return {load: count / comb(experts, top_k) / units**shared for load, count in ways.items()}


def prefill_ns(instance: Instance, reading: Reading = "expert-parallel") -> int:
    """Return the time of a layer of a prompt whose experts' tokens differ.

    Experts with most tokens go to the GPU first. "balanced" is assumed as "in hindsight" here: with
    experts this different no rule for a number alone is stated.
    """
    times = _Times(instance)
    load = [0] * instance.ndp_units
    order = sorted(instance.experts, key=lambda e: (-e.tokens, e.expert))
    for expert in order:
        load[expert.expert % instance.ndp_units] += expert.slice_ndp_ns * instance.slices
    ends = [max(load) + instance.ndp_overhead_ns]
    for moved, expert in enumerate(order, start=1):
        load[expert.expert % instance.ndp_units] -= expert.slice_ndp_ns * instance.slices
        gpu_ns = times.transfer_ns * moved + expert.slice_gpu_ns * instance.slices
        left_ns = max(load) + instance.ndp_overhead_ns if moved < len(order) else 0
        ends.append(max(gpu_ns, left_ns))
    return ends[0] if reading == "expert-parallel" else min(ends)


class _Times:
    """What whole experts take: a slice is 1 / slices of each."""

    def __init__(self, instance: Instance) -> None:
        first = instance.experts[0]
        self.transfer_ns = instance.slice_transfer_ns * instance.slices
        self.gpu_ns = first.slice_gpu_ns * instance.slices
        self.ndp_ns = first.slice_ndp_ns * instance.slices


def _splits(count: int, units: int) -> Iterator[tuple[int, ...]]:
    """Yield all ways to write a count as an ordered sum over the units."""
    if units == 1:
        yield (count,)
        return
    for first in range(count + 1):
        for rest in _splits(count - first, units - 1):
            yield (first, *rest)


def _layer_ns(instance: Instance, load: Sequence[int], reading: Reading) -> int:
    """Return the time of a layer whose units hold so many of the active experts, all alike."""
    if reading == "balanced":
        return _moved_ns(instance, load, whole_experts(instance))
    if reading == "expert-parallel":
        return _moved_ns(instance, load, 0)
    return min(_moved_ns(instance, load, moved) for moved in range(sum(load) + 1))


def _moved_ns(instance: Instance, load: Sequence[int], moved: int) -> int:
    """Return the same if the GPU takes `moved` experts, one by one from the fullest unit."""
    times, left = _Times(instance), list(load)
    for _ in range(moved):
        left[left.index(max(left))] -= 1
    gpu_ns = moved * times.transfer_ns + (times.gpu_ns if moved else 0)
    ndp_ns = max(left) * times.ndp_ns + instance.ndp_overhead_ns if any(left) else 0
    return max(gpu_ns, ndp_ns)
