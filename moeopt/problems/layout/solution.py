"""The decision: the layout of every expert, and in each scenario the domain it runs in."""

from typing import Literal

from moeopt.problems.envelope import Count, Flag, SolutionEnvelope

Domain = Literal["gpu", "cpu", "ndp"]

DOMAINS: tuple[Domain, ...] = ("gpu", "cpu", "ndp")
"""The domains, in the order that breaks ties."""


class Solution(SolutionEnvelope):
    """One layout entry per expert and one assignment row per scenario, in the instance's order.

    Parameters
    ----------
    resident
        Whether the expert is kept in the GPU's memory. A resident expert keeps its host copy.
    dimm
        The DIMM that holds all of it (localized), or None if it is striped over all DIMMs. An
        expert without tokens in any scenario may lie anywhere; it matters in later windows.
    assignment
        Per scenario, the domain of each expert; None for an expert without tokens there.
    """

    problem: Literal["layout"] = "layout"
    resident: tuple[Flag, ...]
    dimm: tuple[Count | None, ...]
    assignment: tuple[tuple[Domain | None, ...], ...]
