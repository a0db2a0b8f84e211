"""Profiles of runtimes: what a token takes beyond its bytes, as fitted to public measurements."""

from collections.abc import Sequence
from functools import cache
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from moeopt.core.envelope import Frozen
from moeopt.core.errors import InputError
from moeopt.core.wording import meant, suggested
from moeopt.sim.costs.terms import TERMS, Costs, Vector
from moeopt.sim.machines.cores import NumaMode
from moeopt.sim.machines.runtimes.setting import Setting

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

    def in_words(self) -> str:
        """Return the interval in words, for pages."""
        low, high = 100 * (1 / self.factor - 1), 100 * (self.factor - 1)
        return f"{self.certainty}: expect {low:+.0f} to {high:+.0f} % (80 % of held-out points)"


class RuntimeProfile(Frozen):
    """What a runtime takes for a token, term by term.

    Parameters
    ----------
    name
        As in ``--runtime``.
    costs
        Term -> cost: a ratio to bytes over bandwidth for reads, us for the others
        (`moeopt.sim.costs.terms.PRIOR`).
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


def costs_of(setting: Setting) -> tuple[Vector, Certainty]:
    """Return the costs of the runtime's terms in a setting, and how certain they are.

    Calibrated on the machine, or else as the runtime's profile says.
    """
    model = setting.model
    for found in setting.machine.runtimes:
        if found.runtime == setting.runtime:
            for own in found.models:
                if own.model == model.name and abs(own.bits / model.bits - 1.0) < 0.02:
                    return as_vector(own.costs), "calibrated on this model"
            return as_vector(found.costs), "calibrated on another model"
    return as_vector(get_runtime(setting.runtime).costs), "not calibrated"


def kind_of_setting(setting: Setting, host_calls: Sequence[float]) -> Kind:
    """Return what computes in a setting, by the share of calls to experts on the host."""
    calls = sum(host_calls)
    if calls and len(setting.machine.nodes) > 1 and setting.numa != "isolate":
        return "several sockets"
    if not setting.machine.gpus:
        return "CPU only"
    return "GPU and CPU" if calls else "all on the GPU"


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
    known = runtimes()
    if name not in known:
        raise InputError(
            f"must be one of {', '.join(known)}, not {name!r:.60}{meant(name, known)}",
            field="runtime",
            suggestion=suggested(name, known),
        )
    return _runtime(name)


@cache
def _runtime(name: str) -> RuntimeProfile:
    from moeopt.sim.presets import find

    return find("runtimes", RuntimeProfile, name)
