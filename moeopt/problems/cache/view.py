"""Ways as a schedule to look at, and the facts about them that reports ask for."""

from collections.abc import Iterable, Iterator

from moeopt.problems.view import Bar, Difference, Kind, Lane, different_counts

from .check import serve
from .instance import Instance
from .solution import Solution


def lanes(instance: Instance, solution: Solution) -> list[Lane]:
    """Return computing and copying, one bar per layer with its total over the trace.

    In truth the layers take turns, token by token; the sums are what the objective compares.
    """
    served = serve(instance, solution)
    return [
        _lane("layers", (layer.layer_ns for layer in served), "work"),
        _lane("fetches", (layer.fetches * instance.fetch_ns for layer in served), "transfer"),
    ]


def facts(instance: Instance, solution: Solution) -> dict[str, str | int]:
    """Return which side is later, slots and layers used, hits in permille and fetches."""
    served = serve(instance, solution)
    fetches = sum(layer.fetches for layer in served)
    used = int((instance.ids >= 0).sum())
    late = fetches * instance.fetch_ns > sum(layer.layer_ns for layer in served)
    return {
        "bottleneck": "fetches" if late else "layers",
        "slots_used": sum(ways or 0 for ways in solution.ways),
        "layers_cached": sum(bool(ways) for ways in solution.ways),
        "hits_permille": 1000 * sum(layer.hits for layer in served) // used if used else 0,
        "fetches": fetches,
    }


def differences(instance: Instance, ours: Solution, best: Solution) -> Iterator[Difference]:
    """Yield the layers that have different numbers of ways."""
    yield from different_counts(ours.ways, best.ways, "ways")


def _lane(device: str, lengths: Iterable[int], kind: Kind) -> Lane:
    bars, clock = [], 0
    for layer, length in enumerate(lengths):
        if length:
            bars.append(Bar(clock, clock + length, str(layer), kind))
            clock += length
    return Lane(device, tuple(bars))
