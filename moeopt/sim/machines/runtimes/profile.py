"""Profiles of runtimes: what a token takes beyond its bytes, as fitted to public measurements."""

from collections.abc import Sequence
from functools import cache, cached_property
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from moeopt.core.envelope import Frozen
from moeopt.core.errors import InputError
from moeopt.core.wording import meant, suggested
from moeopt.sim.costs.terms import TERMS, Costs, Vector
from moeopt.sim.machines.cores import NumaMode
from moeopt.sim.machines.runtimes.setting import Setting

Certainty = Literal["not calibrated", "calibrated on this model", "calibrated on another model"]


Kind = Literal[
    "any",
    "all on the GPU",
    "GPU and CPU",
    "CPU only",
    "several sockets",
    "several GPUs",
    "unified memory",
]
"""What computes; errors differ by it."""


class Within(Frozen):
    """A cross-validated interval: 80 % of points held out lay within a factor of the prediction.

    `kind` says of which settings; "any" of all together. `few` says of which class of the setting
    fewer than three machines were measured.
    """

    certainty: Certainty
    kind: Kind = "any"
    factor: Annotated[float, Field(strict=True, ge=1, le=100, allow_inf_nan=False)]
    median_error: Annotated[float, Field(strict=True, ge=0, le=100, allow_inf_nan=False)]
    points: Annotated[int, Field(strict=True, ge=0)]
    few: Annotated[str, Field(max_length=200)] = ""

    def in_words(self) -> str:
        """Return the interval in words, for pages."""
        low, high = 100 * (1 / self.factor - 1), 100 * (self.factor - 1)
        said = f"{self.certainty}: expect {low:+.0f} to {high:+.0f} % (80 % of held-out points)"
        return f"{said}; {self.few}" if self.few else said


Triangle = tuple[tuple[Annotated[float, Field(allow_inf_nan=False)], ...], ...]
"""Rows of the lower triangle of a symmetric matrix."""

Sd = Annotated[float, Field(strict=True, ge=0, le=100, allow_inf_nan=False)]


class Uncertainty(Frozen):
    """How far off predictions of settings that were not calibrated should be.

    Attributes
    ----------
    covariance
        Of the logarithms of the terms' costs: rows of the lower triangle.
    machines, noise
        Standard deviations of logarithms: of what a machine does to the times on GPU and on host,
        and of a point by itself.
    scale
        Kind of setting -> how many standard deviations held 80 % of the held-out points.
    measured
        Kind of setting, or vendor of a GPU -> machines that were measured.
    """

    covariance: Annotated[Triangle, Field(min_length=len(TERMS), max_length=len(TERMS))]
    machines: tuple[Sd, Sd]
    noise: Sd
    scale: dict[Kind, Sd]
    measured: dict[str, int]

    @cached_property
    def matrix(self) -> NDArray[np.float64]:
        """The covariance, (terms, terms)."""
        return _symmetric(self.covariance)


class PromptCosts(Frozen):
    """What a ubatch of a prompt takes, and how uncertain that is.

    Attributes
    ----------
    costs
        Term of `moeopt.sim.costs.prompt` -> cost.
    covariance
        Of their logarithms: rows of the lower triangle.
    machine, noise
        Standard deviations of logarithms: of a machine, and of a point by itself.
    scale
        How many standard deviations held 80 % of the held-out points.
    points
        How many there were.
    """

    costs: dict[str, Annotated[float, Field(strict=True, gt=0, le=1e9, allow_inf_nan=False)]]
    covariance: Annotated[Triangle, Field(max_length=40)]
    machine: Sd
    noise: Sd
    scale: Sd
    points: Annotated[int, Field(strict=True, ge=0)]

    @cached_property
    def vector(self) -> Vector:
        """The costs in the order of their terms."""
        return np.array(list(self.costs.values()))

    @cached_property
    def matrix(self) -> NDArray[np.float64]:
        """The covariance, (terms, terms)."""
        return _symmetric(self.covariance)


def _symmetric(rows: Triangle) -> NDArray[np.float64]:
    """Return a symmetric matrix from the rows of its lower triangle."""
    found = np.zeros((len(rows), len(rows)))
    for number, row in enumerate(rows):
        found[number, : len(row)] = found[: len(row), number] = row
    return found


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
    uncertainty
        Of predictions that are not calibrated.
    prompt
        Of reading a prompt.
    source
        What it was fitted on.
    """

    name: Annotated[str, Field(min_length=1, max_length=60)]
    costs: Costs
    numa_aware: bool = False
    intervals: Annotated[tuple[Within, ...], Field(max_length=20)] = ()
    uncertainty: Uncertainty
    prompt: PromptCosts
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
    calls, machine = sum(host_calls), setting.machine
    if calls and len(machine.nodes) > 1 and setting.numa != "isolate":
        return "several sockets"
    if machine.gpus and machine.unified:
        return "unified memory"
    if len(machine.gpus) > 1:
        return "several GPUs"
    if not machine.gpus:
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
