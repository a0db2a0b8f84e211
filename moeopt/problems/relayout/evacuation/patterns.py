"""Which experts of a DIMM must be read by hosts or leave it before its load fits."""

from collections.abc import Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

from .choices import Choices

ON_NDP, ON_HOST, GONE = range(3)
"""What becomes of an expert on its DIMM, by falling load."""

MAX_STATES = 10_000

Patterns = NDArray[np.int64]


class Dimm:
    """The active experts that lie on one DIMM, and every state of all of them.

    Attributes
    ----------
    rows
        The experts, largest NDP time first.
    """

    def __init__(self, choices: Choices, dimm: int) -> None:
        read = choices.localized_read
        ndp = {
            choice.row: choice.stays
            for row in choices.rows
            if choices.dimm[row] == dimm
            for choice in choices.of[row]
            if choice.domain == "ndp" and choice.kind is None
        }
        self.rows = sorted(ndp, key=lambda row: (-ndp[row], row))
        experts = choices.instance.experts
        self._floors = [min(ndp[row], read) for row in self.rows if not experts[row].resident]
        self._floors.sort(reverse=True)
        ways = [(ON_NDP, ON_HOST, GONE) if ndp[row] > read else (ON_NDP, GONE) for row in self.rows]
        self._states: Patterns | None = None
        if np.prod([float(len(way)) for way in ways]) <= MAX_STATES:
            self._tabulate(ways, [ndp[row] for row in self.rows], read)

    def _tabulate(self, ways: Sequence[tuple[int, ...]], ndp: list[int], read: int) -> None:
        """Tabulate each state, its load, and the least that undoing one step of it would add."""
        listed = list(product(*ways))
        states = np.array(listed, dtype=np.int64).reshape(len(listed), len(ways))
        load = np.zeros(len(states), dtype=np.int64)
        undo = np.full(len(states), np.iinfo(np.int64).max // 2)
        for column, (way, time) in enumerate(zip(ways, ndp, strict=True)):
            loads = np.array([time, read if ON_HOST in way else 0, 0])
            back = np.array([0, time - read, read if ON_HOST in way else time])
            load += loads[states[:, column]]
            changed = states[:, column] != ON_NDP
            undo[changed] = np.minimum(undo, back[states[:, column]])[changed]
        self._states, self._load, self._undo = states, load, undo

    def least_leavers(self, room: int) -> int:
        """Return how many experts that are not resident must leave before `room` is enough."""
        load, leavers = sum(self._floors), 0
        while load > room:
            load -= self._floors[leavers]
            leavers += 1
        return leavers

    def minimal_patterns(self, room: int) -> Patterns | None:
        """Return the states that fit into `room`, but not after one expert's step back.

        Shape (patterns, rows); None if the DIMM has too many states to list.
        """
        if self._states is None:
            return None
        fits = (self._load <= room) & (self._load + self._undo > room)
        patterns: Patterns = self._states[fits]
        return patterns
