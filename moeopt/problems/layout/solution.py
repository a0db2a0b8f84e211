"""The decision: the layout of every expert, and in each scenario the domain it runs in."""

from typing import Annotated, Literal

from pydantic import Field

from moeopt.core.envelope import Count, Flag, SolutionEnvelope
from moeopt.core.host_memory import absent

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
    copies
        Schema 2: the DIMMs that hold a further, localized copy of each expert. The first copy is
        that of `dimm`, and a striped one is always the first. Absent: there are none.
    source
        Schema 2: per scenario, the DIMM of the copy that each expert is run from; None for the
        first copy, and where nothing is read. Absent: all run from their first copies.
    """

    problem: Literal["layout"] = "layout"
    resident: tuple[Flag, ...]
    dimm: tuple[Count | None, ...]
    assignment: tuple[tuple[Domain | None, ...], ...]
    copies: Annotated[tuple[tuple[Count, ...], ...] | None, Field(exclude_if=absent)] = None
    source: Annotated[tuple[tuple[Count | None, ...], ...] | None, Field(exclude_if=absent)] = None

    def sources(self, number: int) -> tuple[int | None, ...]:
        """Return the row of `source` for a scenario, empty if there is none."""
        return self.source[number] if self.source and number < len(self.source) else ()

    def run_from(self, number: int, row: int) -> int | None:
        """Return the DIMM of the copy that an expert is run from, None for the striped one."""
        sources = self.sources(number)
        return self.dimm[row] if not sources or sources[row] is None else sources[row]
