"""Steps of several placement instances as one: a placement costs there what it does in all."""

from collections.abc import Sequence
from typing import Any

from moeopt.core.errors import InputError
from moeopt.problems.placement.instance import Instance

TABLES = ("gpu_expert_ns", "offload_expert_ns")
WIDTH_TABLES = ("width_gpu_ns", "width_offload_ns")


def joined(instances: Sequence[Instance]) -> Instance:
    """Return the instance of all steps, without what rules knew before them.

    Raises
    ------
    InputError
        If the times of experts differ.
    """
    change: dict[str, Any] = {
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
    if instances[0].step_scores is not None:
        change["step_scores"] = tuple(s for one in instances for s in one.step_scores or ())
    return instances[0].model_copy(update=change)


def _longest(name: str, tables: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Return the table that the others, which end at fewer tokens, are the beginning of."""
    longest = max(tables, key=len)
    if any(table != longest[: len(table)] for table in tables):
        raise InputError(f"{name}: differs: experts do not take the same time")
    return longest
