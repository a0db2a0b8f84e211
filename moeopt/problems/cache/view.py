"""Ways as a schedule to look at, and the facts about them that reports ask for."""

from collections.abc import Iterable, Iterator

from moeopt.core.view import Bar, Changes, Difference, Kind, Lane, different_counts, replaced

from .check import serve
from .instance import Instance, Solution


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


def changes(instance: Instance, solution: Solution) -> Changes:
    """Yield one way more or less in a layer, or one handed over, by the trace's time that results.

    The layers' curves give it; the checker counts again.
    """
    curves, ways = instance.curves, [count or 0 for count in solution.ways]
    layers = range(instance.layers)
    times, fetches = (int(of[layers, ways].sum()) for of in (curves.layer_ns, curves.fetches))

    def added(layer: int, step: int) -> tuple[int, int]:
        if not 0 <= ways[layer] + step <= instance.experts:
            return 2**62, 0
        now, then = ways[layer], ways[layer] + step
        more = curves.layer_ns[layer, then] - curves.layer_ns[layer, now]
        return int(more), int(curves.fetches[layer, then] - curves.fetches[layer, now])

    found = []
    less, more = ([added(layer, step) for layer in layers] for step in (-1, 1))
    nothing = [(None, (0, 0))]
    for source, (fewer_ns, fewer) in [*enumerate(less), *nothing]:
        for target, (more_ns, further) in [*enumerate(more), *nothing]:
            if source != target and max(fewer_ns, more_ns) < 2**62:
                copied = (fetches + fewer + further) * instance.fetch_ns
                found.append((max(times + fewer_ns + more_ns, copied), source, target))
    for _, source, target in sorted(found, key=lambda change: change[0]):
        other, said = tuple(ways), []
        for layer, step in ((source, -1), (target, 1)):
            if layer is not None:
                other = replaced(other, layer, ways[layer] + step)
                said.append(f"layer {layer} has {ways[layer] + step} ways and not {ways[layer]}")
        yield ", ".join(said), solution.model_copy(update={"ways": other})


def _lane(device: str, lengths: Iterable[int], kind: Kind) -> Lane:
    bars, clock = [], 0
    for layer, length in enumerate(lengths):
        if length:
            bars.append(Bar(clock, clock + length, str(layer), kind))
            clock += length
    return Lane(device, tuple(bars))
