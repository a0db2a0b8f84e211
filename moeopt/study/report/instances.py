"""A problem's instances one by one: each heuristic's excess."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from moeopt.study.plan import Key
from moeopt.study.report.study import is_exact, own_heuristic
from moeopt.study.rows import Row

MOST_ROWS = 500
"""Instances of a problem that are listed; gap.csv has all."""


@dataclass(frozen=True)
class Listed:
    """One instance.

    Attributes
    ----------
    name, family
        What it is called.
    is_proven
        Whether its optimum is.
    excess
        By label of the heuristic, the worst of its solves; those that are not known are missing.
    """

    name: str
    family: str
    is_proven: bool
    excess: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Instances:
    """A problem's instances, those on which its published rule loses most first.

    Attributes
    ----------
    methods
        Labels of the heuristics.
    rows
        The first `MOST_ROWS`.
    left_out
        How many more there are.
    """

    methods: Sequence[str]
    rows: Sequence[Listed]
    left_out: int


def instances_of(problem: str, rows: Sequence[Row], labels: Mapping[Key, str]) -> Instances:
    """Return the instances that the rows of one problem are about."""
    found: dict[str, Listed] = {}
    methods: dict[str, str] = {}
    for row in rows:
        proven = row.optimum is not None
        one = found.setdefault(row.key.instance, Listed(row.result.instance, row.family, proven))
        if is_exact(problem, row.key.method):
            continue
        label = labels[row.key]
        methods.setdefault(label, row.key.method)
        if row.excess is not None:
            one.excess[label] = max(row.excess, one.excess.get(label, 0.0))
    own = own_heuristic(problem, list(rows))
    first = next((label for label, method in methods.items() if own and method == own[0]), "")
    listed = sorted(found.values(), key=lambda one: -one.excess.get(first, -1.0))
    return Instances(list(methods), listed[:MOST_ROWS], max(0, len(listed) - MOST_ROWS))
