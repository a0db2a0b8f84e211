"""Objectives: one integer, or several in lexicographic order, written as a tuple."""

from dataclasses import dataclass

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

    def pack_bound(self, bound: Objective) -> int:
        """Return the packed number of a lower bound, whose second entry may be out of range."""
        if isinstance(bound, int) or self.radix is None:
            return self.pack(bound)
        first, second = bound
        return self.pack((first, min(max(second, 0), self.radix - 1)))

    def unpack(self, packed: int) -> Objective:
        """Return what was packed."""
        return packed if self.radix is None else divmod(packed, self.radix)
