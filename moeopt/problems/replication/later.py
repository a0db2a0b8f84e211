"""Windows of replication instances one by one and together: copies stay where they were decided.

What moving copies costs is paid when they are decided, and no part of later loads. Which of its
copies an expert's tokens go to is decided anew where it is a part of the decision.
"""

from collections.abc import Sequence

from moeopt.core.errors import InputError

from .dispatch import best_shares
from .instance import MAX_WINDOWS, Instance, Solution

PAID: dict[str, object] = {"current": None, "move_cost": 0}


def unchanged(instance: Instance, decision: Solution) -> Solution:
    """Return copies that were decided on other loads, with these loads' tokens dispatched."""
    if instance.has_shares and len(decision.copies) == instance.experts:
        return best_shares(instance, decision.copies)
    return decision.model_copy(update={"instance": instance.name})


def windows_of(instance: Instance) -> list[Instance]:
    """Return every window that has tokens as an instance of its own, with its weight."""
    if len(instance.windows) == 1:
        return [instance.model_copy(update=PAID)]
    return [
        instance.model_copy(
            update=PAID | {"name": f"{instance.name[:180]} [{n}]", "windows": (one,)}
        )
        for n, one in enumerate(instance.windows)
        if any(one.loads)
    ]


def joined(instances: Sequence[Instance]) -> Instance:
    """Return the instance of all windows: copies cost there what they do in all together."""
    windows = tuple(window for one in instances for window in one.windows)
    if len(windows) > MAX_WINDOWS:
        raise InputError(f"{len(windows)} windows are more than {MAX_WINDOWS}")
    return instances[0].model_copy(update=PAID | {"windows": windows, "provenance": None})
