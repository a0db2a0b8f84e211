"""The decision: the domain in which each active expert runs."""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from moeopt.core.envelope import Count, SolutionEnvelope
from moeopt.core.host_memory import absent

from .instance import Instance

Domain = Literal["gpu", "cpu", "ndp"]

DOMAINS: tuple[Domain, ...] = ("gpu", "cpu", "ndp")
"""The domains, in the order that breaks ties."""


class Solution(SolutionEnvelope):
    """One domain per expert, in the order of the instance's experts.

    None stands for an expert that runs nowhere: such a file can be read; the checker reports it.

    Parameters
    ----------
    assignment
        The domains.
    source
        Schema 2: the DIMM of the copy that each expert is run from, None for its first copy.
        Absent: all run from their first copies.
    """

    problem: Literal["tri_domain"] = "tri_domain"
    assignment: tuple[Domain | None, ...]
    source: Annotated[tuple[Count | None, ...] | None, Field(exclude_if=absent)] = None

    def source_of(self, row: int) -> int | None:
        """Return the DIMM of the copy that an expert is run from, None for its first copy."""
        return self.source[row] if self.source is not None and row < len(self.source) else None


Run = tuple[Domain, int]
"""How an expert runs: its domain, and which of `Expert.lies` it is run from."""


def runs_of(instance: Instance) -> list[list[Run]]:
    """Return every way to run each expert, whatever TD-C2 allows; the first copy comes first."""
    return [
        [(domain, copy) for copy in range(len(expert.lies)) for domain in DOMAINS]
        for expert in instance.experts
    ]


def solution_of(instance: Instance, runs: Sequence[Run | None]) -> Solution:
    """Return the solution in which each expert runs so; None: it runs nowhere."""
    source = None
    if instance.has_copies:
        source = tuple(
            expert.lies[run[1]].dimm if run is not None and run[1] else None
            for expert, run in zip(instance.experts, runs, strict=True)
        )
    assignment = tuple(None if run is None else run[0] for run in runs)
    # The pieces are valid by construction; skipping validation makes brute force much faster.
    return Solution.model_construct(
        problem="tri_domain", instance=instance.name, assignment=assignment, source=source
    )


def read_off(
    instance: Instance, runs: Sequence[Mapping[Run, Any]], value: Callable[[Any], int]
) -> Solution:
    """Return the solution in which each expert runs the first way whose variable is 1.

    With a constraint left out there may be several, or none: then the expert runs nowhere.
    """
    chosen = [next((run for run, at in of.items() if value(at)), None) for of in runs]
    return solution_of(instance, chosen)
