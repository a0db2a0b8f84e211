"""Profiles of runtimes: what a token takes beyond its bytes, as fitted to public measurements."""

from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from moeopt.core.envelope import Frozen
from moeopt.core.errors import InputError
from moeopt.core.wording import meant, suggested
from moeopt.sim.machines.cores import NumaMode
from moeopt.sim.machines.runtimes.terms import TERMS, Costs, Vector

Certainty = Literal["not calibrated", "calibrated on this model", "calibrated on another model"]


Kind = Literal["any", "all on the GPU", "GPU and CPU", "CPU only", "several sockets"]
"""What computes; errors differ by it."""


class Within(Frozen):
    """A cross-validated interval: 80 % of points held out lay within a factor of the prediction.

    `kind` says of which settings; "any" of all together.
    """

    certainty: Certainty
    kind: Kind = "any"
    factor: Annotated[float, Field(strict=True, ge=1, le=100, allow_inf_nan=False)]
    median_error: Annotated[float, Field(strict=True, ge=0, le=100, allow_inf_nan=False)]
    points: Annotated[int, Field(strict=True, ge=0)]


class RuntimeProfile(Frozen):
    """What a runtime takes for a token, term by term.

    Parameters
    ----------
    name
        As in ``--runtime``.
    costs
        Term -> cost: a ratio to bytes over bandwidth for reads, us for the others
        (`moeopt.sim.machines.runtimes.terms.PRIOR`).
    numa_aware
        Whether it places weights by socket.
    intervals
        What to expect of its predictions, by how much is known of the machine.
    source
        What it was fitted on.
    """

    name: Annotated[str, Field(min_length=1, max_length=60)]
    costs: Costs
    numa_aware: bool = False
    intervals: Annotated[tuple[Within, ...], Field(max_length=20)] = ()
    source: Annotated[str, Field(max_length=4000)]

    @property
    def numa(self) -> NumaMode:
        """How it places weights on several nodes by itself."""
        return "tensor-parallel" if self.numa_aware else "interleaved"

    def interval(self, certainty: Certainty, kind: Kind = "any") -> Within:
        """Return what is known of predictions of that certainty, of the kind where there is one.

        Raises
        ------
        InputError
            If nothing was ever measured.
        """
        known = [found for found in self.intervals if found.certainty == certainty]
        for wanted in (kind, "any"):
            for found in known:
                if found.kind == wanted:
                    return found
        raise InputError(f"runtime {self.name}: intervals: nothing is known of one {certainty}")


def as_costs(costs: Sequence[float] | Vector) -> Costs:
    """Return costs by term, rounded to six digits as files keep them."""
    return {term: float(f"{cost:.6g}") for term, cost in zip(TERMS, costs, strict=True)}


def as_vector(costs: Costs) -> Vector:
    """Return costs in the order of the terms."""
    return np.array([costs[term] for term in TERMS])


def runtimes() -> list[str]:
    """Return the names of the runtimes that have a profile."""
    from moeopt.sim.presets import names

    return names("runtimes")


def get_runtime(name: str) -> RuntimeProfile:
    """Return the profile of a runtime.

    Raises
    ------
    InputError
        If there is none of that name.
    """
    from moeopt.sim.presets import find

    known = runtimes()
    if name not in known:
        raise InputError(
            f"must be one of {', '.join(known)}, not {name!r:.60}{meant(name, known)}",
            field="runtime",
            suggestion=suggested(name, known),
        )
    return find("runtimes", RuntimeProfile, name)
