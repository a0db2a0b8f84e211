"""The steps as arrays: one row for each step and layer, in the order of execution."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Rows:
    """Every layer of every step; row ``step * layers + layer``.

    Attributes
    ----------
    start
        Where a row's entries begin, and the end of the last, shape (rows + 1,).
    expert, tokens, loss
        Shape (entries,): an expert with tokens, how many, and its loss if it is deferred there.
    """

    start: Ints
    expert: Ints
    tokens: Ints
    loss: Ints

    @property
    def entries(self) -> int:
        """How many experts with tokens there are in all steps and layers."""
        return len(self.expert)


def rows_of_steps(steps: Sequence[Sequence[Sequence[tuple[int, int, int]]]]) -> Rows:
    """Return the rows of an instance's steps."""
    lengths = [len(active) for step in steps for active in step]
    entries = np.array(
        [entry for step in steps for active in step for entry in active], dtype=np.int64
    ).reshape(-1, 3)
    start = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=start[1:])
    expert, tokens, loss = (np.ascontiguousarray(column) for column in entries.T)
    return Rows(start, expert, tokens, loss)
