"""A placement as a schedule to look at, and the facts about it that reports ask for."""

from collections.abc import Iterable, Iterator

from moeopt.core.problem import HINDSIGHT
from moeopt.core.view import Bar, Changes, Difference, Lane, expert_words

from .check import computed, layer_steps
from .instance import Instance, Solution, held_of, solution_of
from .ranking import of_profile, of_prompts


def lanes(instance: Instance, solution: Solution) -> list[Lane]:
    """Return the GPU, the other side and the later of the two, one bar per layer with its total.

    In truth the layers take turns, step by step, and a layer waits for its later side every time.
    """
    gpu, off, both = ([0] * instance.layers for _ in range(3))
    for number, step in enumerate(layer_steps(instance, solution)):
        layer = number % instance.layers
        gpu[layer] += step.gpu_ns
        off[layer] += step.offload_ns + step.fixed_ns
        both[layer] += step.time_ns
    return [_lane("GPU", gpu, both), _lane("offload", off, both), _lane("layers", both, both)]


SUMS = True
"""Bars are sums over all steps: their places on the axis are no instants."""

PROMISING = 40
"""How many experts on either side are exchanged with each other in `changes`."""

Toggled = tuple[int, int, int]
"""How much later all ends if an expert is on the other side; its layer and number."""

DECIDES_BY = {
    "importance": of_prompts,
    "uniform-x": of_prompts,
    "frequency": of_profile,
    "per-layer-frequency": of_profile,
    "fiddler": of_profile,
}
"""The usage that each rule decides by, as far as the instance has it."""


def information(instance: Instance | None, method: str) -> str | None:
    """Return which counts a rule decided by on an instance; None for rules that need none.

    Rules that stop where filling no longer helps see the steps for that.
    """
    rule = method.removesuffix("-stop")
    if instance is None or rule not in DECIDES_BY:
        return None
    usage = DECIDES_BY[rule](instance)
    scores = " and scores" if rule == "importance" and usage.scores is not None else ""
    stops = ", stops in hindsight" if rule != method and usage.words != HINDSIGHT else ""
    return f"{usage.words}{scores}{stops}"


def facts(instance: Instance, solution: Solution) -> dict[str, str | int]:
    """Return which side is later more often, slots used, and shares of layer-steps in permille.

    Counted are layers and steps with tokens: where the GPU is later than the other side, where
    nothing is offloaded. With free dispatch also how often experts on the GPU are computed
    elsewhere.
    """
    rows = [row for row in layer_steps(instance, solution) if row.gpu_ns or row.time_ns]
    bound = sum(row.gpu_ns > row.offload_ns + row.fixed_ns for row in rows)
    free = sum(row.offload_ns + row.fixed_ns == 0 for row in rows)
    used = sum(
        int(sizes[list(chosen)].sum())
        for sizes, chosen in zip(instance.sizes, solution.gpu, strict=True)
    )
    found: dict[str, str | int] = {
        "bottleneck": "gpu" if 2 * bound > len(rows) else "offload",
        "gpu_bound_permille": 1000 * bound // max(1, len(rows)),
        "not_offloading_permille": 1000 * free // max(1, len(rows)),
        "slots_used": used,
        "slots_free": instance.gpu_slots - used,
        "experts_on_gpu": sum(map(len, solution.gpu)),
    }
    if instance.dispatch == "free":
        found["dispatched_away"] = _dispatched_away(instance, solution)
    return found


def _dispatched_away(instance: Instance, solution: Solution) -> int:
    """Return how often the other side computes an expert that is on the GPU."""
    return sum(
        expert in solution.gpu[layer] and expert not in runs
        for number, step in enumerate(instance.steps)
        for layer, active in enumerate(step)
        if (runs := computed(solution, number, layer)) is not None
        for expert, _ in active
    )


def differences(instance: Instance, ours: Solution, best: Solution) -> Iterator[Difference]:
    """Yield the experts that live on different sides, by their tokens in all steps."""
    tokens: dict[tuple[int, int], int] = {}
    for step in instance.steps:
        for layer, active in enumerate(step):
            for expert, count in active:
                tokens[layer, expert] = tokens.get((layer, expert), 0) + count
    for layer, (a, b) in enumerate(zip(ours.gpu, best.gpu, strict=True)):
        for expert in sorted(set(a) ^ set(b)):
            count = tokens.get((layer, expert), 0)
            where = ("GPU", "other side") if expert in a else ("other side", "GPU")
            yield count, f"layer {layer}, {expert_words(expert, count)}", *where


def changes(instance: Instance, solution: Solution) -> Changes:
    """Yield an expert more or less on the GPU, and exchanges, by the time that probably results.

    It is exact but for two experts of one layer. Exchanges are of the `PROMISING` experts that are
    missed least with the as many that help most.
    """
    fixed_ns, layers = instance.layer_offload_fixed_ns, instance.layer_steps
    held = held_of(solution, instance.layers, instance.experts)
    gone: list[Toggled] = []
    come: list[Toggled] = []
    for layer, (steps, row) in enumerate(zip(layers, held, strict=True)):
        now = steps.cost_ns(row, fixed_ns)
        for expert in range(instance.experts):
            row[expert] = not row[expert]
            (come if row[expert] else gone).append(
                (steps.cost_ns(row, fixed_ns) - now, layer, expert)
            )
            row[expert] = not row[expert]
    gone, come = sorted(gone)[:PROMISING], sorted(come)[:PROMISING]
    several: list[tuple[Toggled, ...]] = [(a, b) for a in gone for b in come]
    several += [(change,) for change in (*gone, *come)]
    for pair in sorted(several, key=lambda pair: sum(more for more, _, _ in pair)):
        other, said = held.copy(), []
        for _, layer, expert in pair:
            other[layer, expert] ^= True
            word = "on the GPU" if other[layer, expert] else "off the GPU"
            said.append(f"layer {layer}, expert {expert} {word}")
        yield "; ".join(said), solution_of(instance, other)


def _lane(device: str, lengths: Iterable[int], slots: Iterable[int]) -> Lane:
    bars, clock = [], 0
    for layer, (length, slot) in enumerate(zip(lengths, slots, strict=True)):
        if length:
            bars.append(Bar(clock, clock + length, str(layer), "work"))
        clock += slot
    return Lane(device, tuple(bars))
