"""Steps that are still to come: residents stay, and several stretches of steps are one instance."""

from collections.abc import Sequence

from moeopt.core.errors import InputError

from .instance import Instance, Solution, held_of, solution_of

TABLES = ("gpu_expert_ns", "offload_expert_ns")
WIDTH_TABLES = ("width_gpu_ns", "width_offload_ns")


def unchanged(instance: Instance, decision: Solution) -> Solution:
    """Return a placement decided on other steps, dispatched best on those of an instance.

    One that does not fit the instance comes back as it is, for the checker to say why.
    """
    moved = decision.model_copy(update={"instance": instance.name, "computed_on_gpu": None})
    fits = len(moved.gpu) == instance.layers
    if not fits or any(expert >= instance.experts for row in moved.gpu for expert in row):
        return moved
    return solution_of(instance, held_of(moved, instance.layers, instance.experts))


def joined(instances: Sequence[Instance]) -> Instance:
    """Return the instance of all steps, without what rules knew before them.

    Raises
    ------
    InputError
        If the times of experts differ.
    """
    change: dict[str, object] = {
        "provenance": None,
        "known": None,
        "steps": tuple(step for one in instances for step in one.steps),
    }
    for name in TABLES:
        change[name] = _longest(name, [getattr(one, name) for one in instances])
    for name in WIDTH_TABLES:
        tables = [getattr(one, name) for one in instances]
        if tables[0] is not None:
            rows = zip(*tables, strict=True)
            change[name] = tuple(_longest(name, row) for row in rows)
    return instances[0].model_copy(update=change)


def _longest(name: str, tables: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Return the table that the others, which end at fewer tokens, are the beginning of."""
    longest = max(tables, key=len)
    if any(table != longest[: len(table)] for table in tables):
        raise InputError(f"{name}: differs: experts do not take the same time")
    return longest
