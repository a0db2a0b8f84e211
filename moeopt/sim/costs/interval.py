"""Intervals of predictions: how uncertain costs are, and how machines differ beyond them."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from moeopt.sim.costs.terms import ON_HOST, Vector, sensitivity
from moeopt.sim.costs.token import amounts
from moeopt.sim.costs.vendors import vendor_of
from moeopt.sim.machines.runtimes.profile import (
    Kind,
    Within,
    costs_of,
    get_runtime,
    kind_of_setting,
)
from moeopt.sim.machines.runtimes.setting import Setting

LEAST_MACHINES = 3
"""Of a class with fewer machines that were measured an interval says so."""

VENDORS = {"amd": "AMD", "apple": "Apple", "intel": "Intel"}


def expected_sd(
    slopes: NDArray[np.float64],
    covariance: NDArray[np.float64],
    machines: tuple[float, float],
    noise: float,
) -> Vector:
    """Return how far off predictions on machines that no fit has seen should be.

    Parameters
    ----------
    slopes
        (..., terms): by how much the logarithm of a token's time follows each cost's.
    covariance
        (..., terms, terms): of the logarithms of costs.
    machines
        Standard deviations of what a machine does to the times on GPU and on host.
    noise
        Of a point by itself.

    Returns
    -------
    (...,) array
        Standard deviations of the logarithm of the time.
    """
    costs = np.einsum("...i,...ij,...j->...", slopes, covariance, slopes)
    host = slopes[..., ON_HOST].sum(axis=-1)
    machine = ((1.0 - host) * machines[0]) ** 2 + (host * machines[1]) ** 2
    return np.asarray(np.sqrt(costs + machine + noise**2))


def within(setting: Setting, host_calls: Sequence[float]) -> Within:
    """Return what to expect of a predicted speed: the 80 % interval of this setting.

    Calibrated settings have the interval of held-out points that were calibrated alike; others the
    expected size of the error in this setting, times what held 80 % of the errors of its kind.
    """
    costs, certainty = costs_of(setting)
    profile, kind = get_runtime(setting.runtime), kind_of_setting(setting, host_calls)
    if certainty != "not calibrated":
        return profile.interval(certainty)
    known = profile.uncertainty
    _, slopes = sensitivity(amounts(setting, host_calls), costs)
    sd = expected_sd(slopes, known.matrix, known.machines, known.noise)
    factor = float(np.exp(known.scale[kind] * sd))
    return profile.interval(certainty, kind).model_copy(
        update={"kind": kind, "factor": round(factor, 3), "few": _few(setting, kind)}
    )


def few_measured(setting: Setting, host_calls: Sequence[float]) -> tuple[str, ...]:
    """Return as a note of which class of a setting hardly a machine was measured."""
    few = within(setting, host_calls).few
    return (f"the interval is wide: {few}",) if few else ()


def _few(setting: Setting, kind: Kind) -> str:
    """Return of which class of a setting hardly a machine was measured; empty if of none."""
    classes: dict[str, str] = {kind: kind}
    gpus = setting.machine.gpus
    if gpus and (vendor := vendor_of(gpus[0].only("gpu").name)) is not None:
        classes[vendor] = f"{VENDORS[vendor]} GPU"
    measured = get_runtime(setting.runtime).uncertainty.measured
    counts = {words: measured.get(name, 0) for name, words in classes.items()}
    return "; ".join(
        f"{count or 'no'} machine{'s' if count > 1 else ''} of its class measured ({words})"
        for words, count in counts.items()
        if count < LEAST_MACHINES
    )
