"""Types that `moeopt.problems` gets in version 2.0: the modes of an expert on TriMoE's machine."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from ortools.sat.python.cp_model import CpModel, IntVar

Ints = NDArray[np.int64]

class Mode(NamedTuple):
    """One way to run an expert: its path, the copy that it reads, and whether it migrates."""

    path: str
    copy: int
    migration: int | None

@dataclass(frozen=True)
class Group:
    """Serial resources of one kind, with the time that each is busy in any case."""

    name: str
    members: int
    base: Ints

@dataclass(frozen=True)
class Budget:
    """Resources whose sums are limited and no part of the makespan."""

    name: str
    members: int
    limit: Ints

@dataclass(frozen=True)
class ModeTable:
    """Modes of all experts as sparse rows: entries of mode m are start[m]:start[m + 1].

    An entry loads one member of a group or budget, or every member where `member` is -1.
    """

    groups: tuple[Group, ...]
    budgets: tuple[Budget, ...]
    owner: Ints
    label: tuple[Mode, ...]
    start: Ints
    resource: Ints
    member: Ints
    ns: Ints
    needs: Ints | None = None

    def loads(self, chosen: Sequence[int]) -> list[Ints]: ...
    def makespan(self, chosen: Sequence[int]) -> int: ...
    def rows(self, model: CpModel, without: Collection[str] = ()) -> list[IntVar]: ...
