"""Bundles: tasks that become ready together, the unit in which tasks are added."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]


@dataclass(slots=True)
class Bundle:
    """One or more tasks with the same dependencies, release time, priority and kind.

    A bundle of several tasks keeps arrays of shape (count,) where a single task has integers;
    `resource` is one integer if all of them are on one resource. The engine fills in the last
    block.

    Parameters
    ----------
    first, count
        Its tasks are numbers `first` to ``first + count - 1`` in order of creation.
    resource, duration_ns
        Index of the resource occupied, and for how long.
    after
        Bundles that must have ended; every one of their tasks.
    release_ns
        Not ready before this time.
    priority
        Smaller goes first among what is ready in the same instant.
    kind, label, number
        For people: what it is, where it belongs, and a number per task (an expert's, say) or None.
    """

    first: int
    count: int
    resource: int | Integers
    duration_ns: int | Integers
    after: tuple[int, ...]
    release_ns: int
    priority: int
    kind: str
    label: str
    number: int | Integers | None

    pending: int = 0
    ready_ns: int = 0
    start_ns: int | Integers | None = None
    finish_ns: int = 0
    turn: int = -1
    successors: list[int] = field(default_factory=list)

    @property
    def done(self) -> bool:
        """Whether its tasks have their times."""
        return self.start_ns is not None

    def name(self, row: int = 0) -> str:
        """Return what to call one of its tasks."""
        number = self.number if self.number is None or isinstance(self.number, int) else None
        if isinstance(self.number, np.ndarray):
            number = int(self.number[row])
        return self.kind if number is None else f"{self.kind} {number}"


def find_cycle(bundles: Sequence[Bundle]) -> str:
    """Return a sentence that names one circle among the bundles that could not run."""
    at = next(row for row, bundle in enumerate(bundles) if not bundle.done)
    seen: dict[int, int] = {}
    while at not in seen:
        seen[at] = len(seen)
        at = next(other for other in bundles[at].after if not bundles[other].done)
    circle = [*list(seen)[seen[at] :], at]
    names = " after ".join(f"{row} ({bundles[row].name()})" for row in circle)
    return f"tasks depend on one another in a circle: {names}"
