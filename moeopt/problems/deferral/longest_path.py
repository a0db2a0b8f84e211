"""Earliest starts in a graph of waits."""

from collections.abc import Hashable, Sequence
from typing import TypeVar

Node = TypeVar("Node", bound=Hashable)


def longest_paths(arcs: Sequence[tuple[Node, Node, int]]) -> dict[Node, int]:
    """Return the earliest start of every node, from 0 on.

    Parameters
    ----------
    arcs
        (earlier, later, how long after the earlier one the later may start).

    Raises
    ------
    ValueError
        If some nodes wait for each other.
    """
    start = {node: 0 for arc in arcs for node in arc[:2]}
    for _ in range(len(start) + 1):
        moved = False
        for earlier, later, lag in arcs:
            if start[earlier] + lag > start[later]:
                start[later] = start[earlier] + lag
                moved = True
        if not moved:
            return start
    raise ValueError("some tasks wait for each other")
