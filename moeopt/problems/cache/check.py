"""The checker: a plain simulation of every layer's LRU cache. Knows nothing of solvers."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from .instance import Instance, Solution

CONSTRAINTS = {
    "CA-C1": "each layer has one number of ways, from 0 to experts",
    "CA-C2": "the ways of all layers sum to at most slots",
    "CA-C3": "the times of all layers over the trace sum to at most the trace's time",
    "CA-C4": "the fetches over the trace, one after the other, take at most the trace's time",
}


OBJECTIVE = ("trace_ns",)
"""What is minimised, in order of importance; the name ends with the unit."""


@dataclass(frozen=True)
class Served:
    """What one layer did over the trace: experts found on the GPU, fetched, and its time."""

    hits: int
    fetches: int
    layer_ns: int


def violations(
    instance: Instance, solution: Solution, trace_ns: int | None = None
) -> list[tuple[str, str]]:
    """Return what is wrong with a solution, as (constraint ID, sentence); empty if it is valid.

    Parameters
    ----------
    instance, solution
        The problem and the decision to check.
    trace_ns
        The time claimed for the trace, if there is a claim: CA-C3 and CA-C4 hold the solution to
        it. Without a claim it is whatever the ways give.
    """
    found = list(_numbers(instance, solution))
    used = sum(ways or 0 for ways in solution.ways)
    if used > instance.slots:
        found.append(("CA-C2", f"{used} ways are given, there are {instance.slots} slots"))
    if trace_ns is not None:
        served = serve(instance, solution)
        claim = f"past the claimed {trace_ns} ns"
        computed_ns = sum(layer.layer_ns for layer in served)
        if computed_ns > trace_ns:
            found.append(("CA-C3", f"the layers take {computed_ns} ns, {claim}"))
        fetches = sum(layer.fetches for layer in served)
        if fetches * instance.fetch_ns > trace_ns:
            copied = f"{fetches} fetches take {fetches * instance.fetch_ns} ns"
            found.append(("CA-C4", f"{copied}, {claim}"))
    return found


def objective(instance: Instance, solution: Solution) -> int:
    """Return when both the layers and the fetches are done, in ns: they overlap."""
    served = serve(instance, solution)
    fetches = sum(layer.fetches for layer in served)
    return max(sum(layer.layer_ns for layer in served), fetches * instance.fetch_ns)


def serve(instance: Instance, solution: Solution) -> list[Served]:
    """Return what each layer did: nothing, at no cost, where it has no valid number of ways.

    A token's experts are looked up together against what the token before it left. Then all of
    them become most recent, in the listed order, and the least recent ones are evicted. What was
    missing is fetched if the layer has a cache at all.
    """
    given = (*solution.ways, *[None] * instance.layers)[: instance.layers]
    costs = (instance.other_ns, instance.gpu_ns, instance.activation_ns, instance.cpu_ns)
    known: dict[tuple[int, int], Served] = instance.served
    found = []
    for layer, (accesses, ways) in enumerate(zip(instance.by_layer, given, strict=True)):
        if ways is None or ways > instance.experts:
            found.append(Served(0, 0, 0))
            continue
        if (layer, ways) not in known:
            known[layer, ways] = _lru(accesses, costs, ways)
        found.append(known[layer, ways])
    return found


def _lru(accesses: tuple[tuple[int, ...], ...], costs: tuple[int, ...], ways: int) -> Served:
    """Simulate one layer; a dict keeps the order in which its keys were put in."""
    content: dict[int, None] = {}
    hits = misses = layer_ns = 0
    other_ns, gpu_ns, activation_ns, cpu_ns = costs
    for used in accesses:
        found = sum(map(content.__contains__, used))
        missing = len(used) - found
        hits, misses = hits + found, misses + missing
        on_cpu = activation_ns + missing * cpu_ns if missing else 0
        layer_ns += other_ns + max(found * gpu_ns, on_cpu)
        for expert in used:
            content.pop(expert, None)
            content[expert] = None
        while len(content) > ways:
            del content[next(iter(content))]
    return Served(hits, misses if ways else 0, layer_ns)


def _numbers(instance: Instance, solution: Solution) -> Iterator[tuple[str, str]]:
    if len(solution.ways) != instance.layers:
        count = f"{len(solution.ways)} entries for {instance.layers} layers"
        yield "CA-C1", f"ways has {count}"
    for layer, ways in enumerate(solution.ways):
        if ways is None:
            yield "CA-C1", f"ways[{layer}]: the layer has no number of ways"
        elif ways > instance.experts:
            yield "CA-C1", f"ways[{layer}]: {ways} ways for {instance.experts} experts"


MAX_CANDIDATES = 2**14
"""The checker simulates the whole trace for each."""


def count(instance: Instance) -> int:
    """Return how many candidates `candidates` yields."""
    return int((instance.experts + 1) ** instance.layers)


def candidates(instance: Instance) -> Iterator[Solution]:
    """Yield all ways, whether they fit into the slots or not: checking is the checker's work."""
    for ways in product(range(instance.experts + 1), repeat=instance.layers):
        yield Solution.model_construct(problem="cache", instance=instance.name, ways=ways)
