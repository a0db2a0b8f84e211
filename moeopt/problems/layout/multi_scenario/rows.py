"""The instance as the algorithms for several scenarios see it: one row per expert ever active."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from moeopt.problems.layout.instance import Instance
from moeopt.problems.layout.paths import IDLE as IDLE
from moeopt.problems.layout.paths import STRIPED as STRIPED
from moeopt.problems.layout.paths import Device, Path
from moeopt.problems.layout.solution import DOMAINS, Solution

HIT, GPU_STRIPED, GPU_LOCAL, CPU_STRIPED, CPU_LOCAL, NDP_COST = Path
GPU, CPU, NDP = Device

Times = NDArray[np.int64]


@dataclass(frozen=True)
class Rows:
    """All times in ns.

    Attributes
    ----------
    experts
        The experts that have tokens in some scenario, as rows of the instance.
    cost
        Shape (6, rows, scenarios): what each way costs the device that computes.
    active
        Shape (rows, scenarios): whether the expert has tokens.
    weight
        Shape (scenarios,).
    """

    experts: NDArray[np.int64]
    cost: Times
    active: NDArray[np.bool_]
    weight: NDArray[np.int64]

    @classmethod
    def of(cls, instance: Instance) -> "Rows":
        """Return the rows of an instance."""
        times = instance.path_times
        experts = np.flatnonzero(times.active.any(axis=0))
        cost = np.ascontiguousarray(times.cost[:, :, experts].transpose(0, 2, 1))
        active = np.ascontiguousarray(times.active[:, experts].T)
        return cls(experts, cost, active, times.weight.copy())


@dataclass
class Layout:
    """A layout of the rows: residents, and each one's DIMM (`STRIPED` if on all of them)."""

    resident: NDArray[np.bool_]
    dimm: NDArray[np.int64]


def as_solution(
    instance: Instance, rows: Rows, layout: Layout, domain: NDArray[np.int8]
) -> Solution:
    """Return a layout and the domains, of shape (rows, scenarios), as a solution."""
    resident = np.zeros(instance.experts, dtype=np.bool_)
    dimm = np.full(instance.experts, STRIPED, dtype=np.int64)
    chosen = np.full((len(instance.scenarios), instance.experts), IDLE)
    resident[rows.experts] = layout.resident
    dimm[rows.experts] = layout.dimm
    chosen[:, rows.experts] = domain.T
    return Solution(
        instance=instance.name,
        resident=tuple(resident.tolist()),
        dimm=tuple(None if d == STRIPED else d for d in dimm.tolist()),
        assignment=tuple(
            tuple(None if d == IDLE else DOMAINS[d] for d in row) for row in chosen.tolist()
        ),
    )
