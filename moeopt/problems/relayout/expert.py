"""One expert of a layer: where it lies, what each of its paths costs, and what these keep busy."""

from dataclasses import dataclass
from typing import Annotated, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from moeopt.core.envelope import Count, Data, Flag, Nanoseconds, field_error
from moeopt.core.host_memory import absent
from moeopt.problems.tri_domain.columns import STRIPED as STRIPED

COSTS = (
    "gpu_hit_ns",
    "gpu_miss_striped_ns",
    "gpu_miss_localized_ns",
    "cpu_striped_ns",
    "cpu_localized_ns",
    "ndp_ns",
)
"""The costs of an expert's paths, as its fields are called."""

TWO_PARTS = ("gpu_calc_ns", "pcie_striped_ns", "pcie_localized_ns")
"""The fields of an expert whose run on the GPU has two parts that may overlap (schema 2)."""


class Expert(Data):
    """One expert: its predicted tokens, where it lies now and what each path would cost.

    Every cost is given whatever the layout is, because a migration can change the layout.

    Parameters
    ----------
    expert
        The expert's number in its layer.
    tokens
        Predicted tokens. An expert without any runs nowhere and must not migrate.
    resident
        Whether its weights are in the GPU's memory already.
    dimm
        The DIMM that holds all of it (localized), or None if it is striped over all DIMMs.
    gpu_hit_ns, gpu_miss_striped_ns, gpu_miss_localized_ns
        GPU time if resident (Eq. 1), or read from all DIMMs or from one (Eq. 2).
    cpu_striped_ns, cpu_localized_ns
        CPU time (Eq. 3).
    ndp_ns
        Time on the NDP unit of the DIMM it lies on (Eq. 4).
    gpu_calc_ns, pcie_striped_ns, pcie_localized_ns
        Schema 2: how long a run on the GPU keeps the GPU itself busy, and, unless the expert is in
        the GPU's memory, how long its transfer from all DIMMs or from one keeps PCIe busy. One
        expert's transfer may then overlap another's computation. All three or none; none is longer
        than the paths it is a part of. Absent: the path is one piece of the GPU's time.
    """

    expert: Count
    tokens: Count
    resident: Flag
    dimm: Count | None
    gpu_hit_ns: Nanoseconds
    gpu_miss_striped_ns: Nanoseconds
    gpu_miss_localized_ns: Nanoseconds
    cpu_striped_ns: Nanoseconds
    cpu_localized_ns: Nanoseconds
    ndp_ns: Nanoseconds
    gpu_calc_ns: Annotated[Nanoseconds | None, Field(exclude_if=absent)] = None
    pcie_striped_ns: Annotated[Nanoseconds | None, Field(exclude_if=absent)] = None
    pcie_localized_ns: Annotated[Nanoseconds | None, Field(exclude_if=absent)] = None

    @model_validator(mode="after")
    def _parts_of_paths(self) -> Self:
        given = [name for name in TWO_PARTS if getattr(self, name) is not None]
        for name in TWO_PARTS:
            if given and name not in given:
                raise field_error([name], f"is missing: {given[0]} is given")
        for part, paths in (
            ("gpu_calc_ns", ("gpu_hit_ns", "gpu_miss_striped_ns", "gpu_miss_localized_ns")),
            ("pcie_striped_ns", ("gpu_miss_striped_ns",)),
            ("pcie_localized_ns", ("gpu_miss_localized_ns",)),
        ):
            for path in paths if given else ():
                if getattr(self, part) > getattr(self, path):
                    reason = f"must be at most {path} = {getattr(self, path)}"
                    raise field_error([part], f"{reason}, not {getattr(self, part)}")
        return self

    def gpu_work_ns(self, *, in_memory: bool, striped: bool) -> int:
        """Return how long a run on the GPU keeps the GPU busy.

        Parameters
        ----------
        in_memory, striped
            Whether the GPU's memory holds the expert then, and if not, whether its host copy is
            striped.
        """
        if self.gpu_calc_ns is not None:
            return self.gpu_calc_ns
        if in_memory:
            return self.gpu_hit_ns
        return self.gpu_miss_striped_ns if striped else self.gpu_miss_localized_ns

    def pcie_ns(self, *, striped: bool) -> int:
        """Return how long a run on the GPU keeps PCIe busy where its memory lacks the expert."""
        return (self.pcie_striped_ns if striped else self.pcie_localized_ns) or 0


@dataclass(frozen=True)
class Columns:
    """The experts as arrays of shape (experts,); `dimm` is `STRIPED` where the expert is.

    What a run on the GPU keeps busy, GPU or PCIe, is as `Expert.gpu_work_ns` and `Expert.pcie_ns`
    have it.
    """

    expert: NDArray[np.int64]
    tokens: NDArray[np.int64]
    resident: NDArray[np.bool_]
    dimm: NDArray[np.int64]
    gpu_hit_ns: NDArray[np.int64]
    gpu_miss_striped_ns: NDArray[np.int64]
    gpu_miss_localized_ns: NDArray[np.int64]
    pcie_striped_ns: NDArray[np.int64]
    pcie_localized_ns: NDArray[np.int64]
    cpu_striped_ns: NDArray[np.int64]
    cpu_localized_ns: NDArray[np.int64]
    ndp_ns: NDArray[np.int64]


def costs_ns(expert: Expert) -> tuple[int, ...]:
    """Return how long every path that the expert may ever take keeps a host or NDP unit busy."""
    costs = [expert.gpu_work_ns(in_memory=True, striped=True)]
    costs += [expert.cpu_striped_ns, expert.cpu_localized_ns, expert.ndp_ns]
    for striped in () if expert.resident else (True, False):
        costs += [expert.gpu_work_ns(in_memory=False, striped=striped)]
        costs += [expert.pcie_ns(striped=striped)]
    return tuple(costs)
