"""The decision: which experts migrate, and the domain in which each expert then runs."""

from typing import Annotated, Literal

from pydantic import Field

from moeopt.core.envelope import Count, Data, SolutionEnvelope

Domain = Literal["gpu", "cpu", "ndp"]

DOMAINS: tuple[Domain, ...] = ("gpu", "cpu", "ndp")
"""The domains, in the order that breaks ties."""

Kind = Literal["prefetch", "localize", "stripe", "rebalance"]

KINDS: tuple[Kind, ...] = ("prefetch", "localize", "stripe", "rebalance")

MAX_MIGRATIONS = 4096


class Migration(Data):
    """One expert's migration.

    Parameters
    ----------
    expert
        The expert's number, as in the instance.
    kind
        "prefetch": into the GPU's memory, its host copy stays. "localize": from all DIMMs to one.
        "stripe": from one DIMM to all. "rebalance": from one DIMM to another.
    dimm
        The new DIMM of "localize" and "rebalance"; None for the others.
    """

    expert: Count
    kind: Kind
    dimm: Count | None = None


class Solution(SolutionEnvelope):
    """The migrations, in any order, and one domain per expert in the order of the instance.

    None stands for an expert that runs nowhere: one without tokens. The checker reports any other.
    """

    problem: Literal["relayout"] = "relayout"
    migrations: Annotated[tuple[Migration, ...], Field(max_length=MAX_MIGRATIONS)]
    assignment: tuple[Domain | None, ...]
