"""Objectives: one integer, or several in lexicographic order, written as a tuple."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

Objective = int | tuple[int, ...]
"""Smaller is better; tuples are compared entry by entry, as Python does."""


def of_json(value: int | list[int]) -> Objective:
    """Return an objective as it was before it was JSON."""
    return tuple(value) if isinstance(value, list) else value


def below(first: Objective, second: Objective) -> bool:
    """Tell whether the first objective is strictly better; both are of one kind."""
    return entries(first) < entries(second)


def entries(objective: Objective) -> tuple[int, ...]:
    """Return the entries of an objective, also of one that is a single integer."""
    return (objective,) if isinstance(objective, int) else objective


def first_key(objective: Objective) -> int:
    """Return the entry that counts first: what ratios such as gap and excess are about."""
    return objective if isinstance(objective, int) else objective[0]


def difference(objective: Objective, reference: Objective) -> Objective:
    """Return how much more the objective is, entry by entry."""
    if isinstance(objective, int) and isinstance(reference, int):
        return objective - reference
    pairs = zip(entries(objective), entries(reference), strict=True)
    return tuple(ours - theirs for ours, theirs in pairs)


def relative(objective: Objective, reference: Objective, base: Objective) -> float | None:
    """Return (objective - reference) / base by the first keys; 0/0 is 0, and x/0 is unknown."""
    difference = first_key(objective) - first_key(reference)
    if first_key(base):
        return difference / first_key(base)
    return None if difference else 0.0


@dataclass(frozen=True)
class Packing:
    """One integer for a pair (first, second), so that solvers need not know of pairs.

    The order of packed numbers is the lexicographic order of the pairs, because the second entry
    stays below `radix`: a lower bound on the one is a lower bound on the other. Without a radix the
    objective is an integer already.
    """

    radix: int | None = None

    def pack(self, objective: Objective) -> int:
        """Return the packed number."""
        if isinstance(objective, int):
            return objective
        first, second = objective
        if self.radix is None or not 0 <= second < self.radix:
            raise ValueError(f"{objective} does not pack with radix {self.radix}")
        return first * self.radix + second

    def unpack(self, packed: int) -> Objective:
        """Return what was packed."""
        return packed if self.radix is None else divmod(packed, self.radix)


def left_out(
    rules: Sequence[str], claim: int, without: Callable[[Sequence[str]], int]
) -> Sequence[str]:
    """Return the fewest rules without which a sum meets a claim below it; all if none are enough.

    A claim is one sum and says nothing of its parts. Of several such sets of rules it is the one
    whose sum is nearest to the claim, of equals the first.

    Parameters
    ----------
    without
        The sum that is left if some of the rules do not hold.
    """
    for size in range(1, len(rules) + 1):
        sums = {left: without(left) for left in combinations(rules, size)}
        met = [left for left in sums if sums[left] <= claim]
        if met:
            return max(met, key=lambda left: sums[left])
    return rules
