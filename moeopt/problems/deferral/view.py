"""A schedule to look at, and the facts about it that reports ask for."""

from collections.abc import Iterator

from moeopt.core.view import Bar, Changes, Difference, Lane, different_counts, replaced

from .check import objective, tasks
from .heuristics import schedule
from .instance import Instance, Solution

LANES = {"GPU": ("attention", "shared"), "CPU": ("immediate", "deferred")}

LETTER = {"attention": "A", "shared": "S", "immediate": "I", "deferred": "D"}
"""The first letter of a bar's label; the layer's number follows."""


def lanes(instance: Instance, solution: Solution) -> list[Lane]:
    """Return what GPU and CPU do when; tasks without length are left out."""
    work = tasks(instance, solution)
    found = []
    for device, kinds in LANES.items():
        bars = [
            Bar(
                task.start_ns,
                task.end_ns,
                f"{LETTER[kind]}{task.layer}",
                "deferred" if kind == "deferred" else "work",
            )
            for kind in kinds
            for task in work[kind]
            if task.end_ns > task.start_ns
        ]
        found.append(Lane(device, tuple(sorted(bars, key=lambda bar: (bar.start_ns, bar.end_ns)))))
    return found


def facts(instance: Instance, solution: Solution) -> dict[str, str | int]:
    """Return how many experts are deferred in all and at most in a layer, and how busy devices are.

    Busy times are in percent of the makespan, rounded down.
    """
    makespan_ns = objective(instance, solution)[0]
    counts = [count or 0 for count in solution.deferred]
    found: dict[str, str | int] = {"deferred": sum(counts), "most_deferred": max(counts)}
    for lane in lanes(instance, solution):
        busy_ns = sum(bar.end_ns - bar.start_ns for bar in lane.bars)
        share = 100 * busy_ns // makespan_ns if makespan_ns else 0
        found[f"{lane.device.lower()}_busy_percent"] = share
    return found


def differences(instance: Instance, ours: Solution, best: Solution) -> Iterator[Difference]:
    """Yield the layers that defer different numbers of experts."""
    yield from different_counts(ours.deferred, best.deferred, "deferred")


def changes(instance: Instance, solution: Solution) -> Changes:
    """Yield one deferred expert more or less in each layer, and everything as early as can be."""
    counts = [count or 0 for count in solution.deferred]
    for layer, count in enumerate(counts):
        for other in (count - 1, count + 1):
            if other in instance.deferrable(layer):
                now = f"layer {layer} defers {other} and not {count}"
                yield now, schedule(instance, replaced(counts, layer, other))
