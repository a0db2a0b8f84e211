"""Branch on the numbers of striped reads until no plan is left within a slack, or one may be."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from moeopt.problems.layout.instance import Instance
from moeopt.problems.layout.multi_scenario.rows import Rows

from .program import SharedLayout

Verdict = Literal["none", "open", "limit"]
"""Is there a plan within the slack: none; perhaps; stopped."""

Counts = list[int]
"""Numbers of striped reads that a scenario may have, rising."""


@dataclass
class Group:
    """Some scenarios, together and each by itself."""

    together: SharedLayout
    alone: list[SharedLayout]

    @classmethod
    def of(
        cls, instance: Instance, rows: Rows, scenarios: list[int], least_ns: list[int]
    ) -> "Group":
        """Return a group; `least_ns` are proven bounds on the makespans."""
        alone = [
            SharedLayout.of(instance, rows, [s], [least])
            for s, least in zip(scenarios, least_ns, strict=True)
        ]
        return cls(SharedLayout.of(instance, rows, scenarios, least_ns), alone)


def refute(group: Group, slack: int, remaining_s: Callable[[], float]) -> Verdict:
    """Decide whether the group has no plan whose objective exceeds the least sum by `slack`.

    Every plan has some number of striped reads in each scenario: "none" says that all of them have
    been refuted, first for each scenario by itself, then together.
    """
    counts = []
    for program in group.alone:
        top = len(program.model.scenarios[0].striped) // 2
        first = [list(range(top + 1))]
        survivors = _survivors(program, first, slack, remaining_s)
        if survivors is None:
            return "limit"
        counts.append(sorted(only[0] for (only,) in survivors))
    survivors = _survivors(group.together, counts, slack, remaining_s)
    if survivors is None:
        return "limit"
    for node in survivors:
        reads = [(only[0], only[0]) for only in node]
        answer = group.together.decide(reads, slack, True, remaining_s())
        if answer != "no":
            return "open" if answer == "perhaps" else "limit"
    return "none"


def _survivors(
    program: SharedLayout,
    counts: list[Counts],
    slack: int,
    remaining_s: Callable[[], float],
) -> list[list[Counts]] | None:
    """Return the single counts that the linear relaxation does not refute; None if stopped.

    The scenario with most counts left is divided in the middle: the upper half leaves its DIMMs
    less room.
    """
    nodes, found = [counts], []
    while nodes:
        node = nodes.pop()
        if not all(node):
            continue
        if remaining_s() <= 0:
            return None
        if program.decide([(c[0], c[-1]) for c in node], slack, False, remaining_s()) == "no":
            continue
        longest = max(range(len(node)), key=lambda s: len(node[s]))
        middle = len(node[longest]) // 2
        if not middle:
            found.append(node)
            continue
        for half in (node[longest][:middle], node[longest][middle:]):
            nodes.append([*node[:longest], half, *node[longest + 1 :]])
    return found
