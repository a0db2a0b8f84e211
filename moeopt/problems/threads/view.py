"""What reports say about a solution; with ``lanes``, where it is a schedule, also a chart."""

from collections.abc import Iterator

from moeopt.core.view import Changes, Difference, replaced

from .instance import Instance, Solution


def facts(instance: Instance, solution: Solution) -> dict[str, str | int]:
    """Return how many experts are kept."""
    return {"kept": sum(solution.kept)}


def differences(instance: Instance, ours: Solution, best: Solution) -> Iterator[Difference]:
    """Yield the experts that only one of two solutions keeps, by their miss cost."""
    words = {False: "not kept", True: "kept"}
    for number, expert in enumerate(instance.experts):
        a, b = ours.kept[number], best.kept[number]
        if a != b:
            yield expert.miss_ns, f"expert {number}", words[a], words[b]


def changes(instance: Instance, solution: Solution) -> Changes:
    """Yield each expert kept that is not, and the other way round."""
    for number, kept in enumerate(solution.kept):
        words = f"expert {number} {'not ' if kept else ''}kept"
        yield words, solution.model_copy(update={"kept": replaced(solution.kept, number, not kept)})
