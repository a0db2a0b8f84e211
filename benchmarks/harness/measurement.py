"""What is measured: one run of one contender on one instance."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

WORKERS = 1
"""Solver threads that every contender gets."""


@dataclass(frozen=True)
class Measurement:
    """What a contender reports of one run.

    Attributes
    ----------
    seconds
        Wall time of building the model and solving it.
    objective, bound
        The recomputed objective of its solution and its proven lower bound; None if there is none.
    proven
        Whether it claims to have proven optimality (without an objective: infeasibility).
    hit_limit
        Whether the time limit ended it, so that `seconds` is only a lower bound.
    cpu_s
        Seconds that the process computed meanwhile, in all its threads: on a busy machine less of
        other processes' doing than `seconds`. None if it was not measured.
    """

    seconds: float
    objective: int | None
    bound: float | None
    proven: bool
    hit_limit: bool = False
    cpu_s: float | None = None


Contender = Callable[[Any, float], Measurement]
"""Called with an instance of the case's problem and the time limit in s; raises if it fails."""


@dataclass(frozen=True)
class Run:
    """One turn of a contender; `measurement` is None if it failed, and `failure` says how."""

    repeat: int
    instance: str
    contender: str
    measurement: Measurement | None
    failure: str | None = None

    @property
    def last(self) -> bool:
        """Whether a further repeat would only cost time: it hit the limit or failed."""
        return self.measurement is None or self.measurement.hit_limit
