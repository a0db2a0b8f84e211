"""An expert of one layer: where it lies, and what each path costs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from operator import itemgetter
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationInfo, field_validator

from moeopt.core.envelope import Count, Data, Flag, Nanoseconds, absent, field_error

STRIPED = -1
"""In the place of a DIMM: the expert lies on all of them."""


class Layout(NamedTuple):
    """Which experts are resident, and each expert's DIMM (`STRIPED` if on all); (experts,) each.

    `copies` has the DIMMs of each expert's further copies, and is empty where there are none.
    """

    resident: NDArray[np.bool_]
    dimm: NDArray[np.int64]
    copies: Sequence[Sequence[int]] = ()


@dataclass(frozen=True)
class Columns:
    """The experts as arrays of shape (experts,), for vectorised algorithms.

    `dimm` is `STRIPED` and `ndp_ns` is 0 where the expert is striped. `gpu_work_ns` is `gpu_ns` and
    `pcie_ns` 0 where a run on the GPU is one piece of work.
    """

    rows: Sequence[Mapping[str, int | None]]
    dimm: NDArray[np.int64]
    gpu_ns: NDArray[np.int64]
    cpu_ns: NDArray[np.int64]
    ndp_ns: NDArray[np.int64]
    gpu_dram_ns: NDArray[np.int64]
    cpu_dram_ns: NDArray[np.int64]
    gpu_work_ns: NDArray[np.int64]
    pcie_ns: NDArray[np.int64]

    @cached_property
    def _facts(self) -> tuple[NDArray[np.int64], ...]:
        return tuple(np.array(fact, np.int64) for fact in zip(*map(FACTS, self.rows), strict=True))

    @property
    def expert(self) -> NDArray[np.int64]:
        """The experts' numbers; like the next two, no search for a schedule looks at them."""
        return self._facts[0]

    @property
    def tokens(self) -> NDArray[np.int64]:
        """The tokens of each."""
        return self._facts[1]

    @property
    def resident(self) -> NDArray[np.bool_]:
        """Whether each is in the GPU's memory."""
        return np.asarray(self._facts[2] > 0)


FACTS = itemgetter("expert", "tokens", "resident")
WHOLE = ("gpu_ns", "cpu_ns", "gpu_dram_ns", "cpu_dram_ns")
FIELDS = itemgetter(*WHOLE, "dimm", "ndp_ns", "gpu_calc_ns", "pcie_ns")


def columns_of(rows: Sequence[Mapping[str, int | None]]) -> Columns:
    """Return the arrays of some experts, from the fields of each with the copy that counts."""
    *whole, dimm, ndp, calc, pcie = zip(*map(FIELDS, rows), strict=True)
    size = len(dimm)
    numbers = np.fromiter(chain.from_iterable(whole), np.int64, len(WHOLE) * size)
    gpu, cpu, gpu_dram, cpu_dram = numbers.reshape(-1, size)
    work, link = gpu, np.zeros_like(gpu)
    if None not in calc:  # all have two parts, or none
        work, link = _filled(calc, 0), _filled(pcie, 0)
    return Columns(
        *(rows, _filled(dimm, STRIPED), gpu, cpu, _filled(ndp, 0)),
        *(gpu_dram, cpu_dram, work, link),
    )


def _filled(values: Sequence[int | None], null: int) -> NDArray[np.int64]:
    """Return numbers, and `null` where there is none."""
    if None in values:
        values = [null if value is None else value for value in values]
    return np.array(values, np.int64)


MAX_DIMMS = 1024


class Copy(Data):
    """Schema 2: one more copy of an expert, localized, with the complete cost of its paths.

    Parameters
    ----------
    dimm
        The DIMM that holds it; no two copies of an expert lie on the same one.
    gpu_ns, cpu_ns, ndp_ns
        Time it occupies the GPU, the CPU or its DIMM's NDP unit if this copy is used.
    gpu_dram_ns, cpu_dram_ns
        Time its DIMM is busy if GPU or CPU reads this copy; `gpu_dram_ns` is 0 if resident.
    gpu_calc_ns, pcie_ns
        The two parts of a run on the GPU; given exactly where the expert's own are.
    """

    dimm: Count
    gpu_ns: Nanoseconds
    cpu_ns: Nanoseconds
    ndp_ns: Nanoseconds
    gpu_dram_ns: Nanoseconds
    cpu_dram_ns: Nanoseconds
    gpu_calc_ns: Annotated[Nanoseconds | None, Field(exclude_if=absent)] = None
    pcie_ns: Annotated[Nanoseconds | None, Field(exclude_if=absent)] = None

    @property
    def gpu_work_ns(self) -> int:
        """How long the GPU itself is busy with it, in ns: `gpu_calc_ns`, or all of `gpu_ns`."""
        return self.gpu_ns if self.gpu_calc_ns is None else self.gpu_calc_ns

    @field_validator("gpu_calc_ns", "pcie_ns")
    @classmethod
    def _part_of_the_path(cls, value: int | None, info: ValidationInfo) -> int | None:
        return _part_of(value, info.data.get("gpu_ns"))


class Expert(Data):
    """One active expert: its tokens, its layout and the complete cost of each path it may take.

    Parameters
    ----------
    expert
        The expert's number in its layer.
    tokens
        Tokens routed to it in this step, at least 1.
    resident
        Whether its weights are in the GPU's memory already.
    dimm
        The DIMM that holds all of it (localized), or None if it is striped over all DIMMs.
    gpu_ns, cpu_ns, ndp_ns
        Time it occupies the GPU (Eq. 1 or 2), the CPU (Eq. 3) or its DIMM's NDP unit (Eq. 4).
        `ndp_ns` is given exactly where `dimm` is.
    gpu_dram_ns, cpu_dram_ns
        Time each DIMM it lies on is busy if the GPU or the CPU reads it; for a resident expert
        `gpu_dram_ns` is 0.
    gpu_calc_ns, pcie_ns
        Schema 2: the two parts of a run on the GPU, its computation and its transfer over PCIe, 0
        if resident, each at most `gpu_ns`. Parts of different experts overlap. Absent, for all
        experts: a run is one piece of work of `gpu_ns`.
    copies
        Schema 2: further copies, each on a DIMM by itself. The fields above are of the first one.
    """

    expert: Count
    tokens: Annotated[Count, Field(ge=1)]
    resident: Flag
    dimm: Count | None
    gpu_ns: Nanoseconds
    cpu_ns: Nanoseconds
    ndp_ns: Nanoseconds | None
    gpu_dram_ns: Nanoseconds
    cpu_dram_ns: Nanoseconds
    gpu_calc_ns: Annotated[Nanoseconds | None, Field(exclude_if=absent)] = None
    pcie_ns: Annotated[Nanoseconds | None, Field(exclude_if=absent)] = None
    copies: Annotated[
        tuple[Copy, ...] | None, Field(max_length=MAX_DIMMS, fail_fast=True, exclude_if=absent)
    ] = None

    @property
    def gpu_work_ns(self) -> int:
        """How long the GPU itself is busy with it, in ns: `gpu_calc_ns`, or all of `gpu_ns`."""
        return self.gpu_ns if self.gpu_calc_ns is None else self.gpu_calc_ns

    @property
    def lies(self) -> tuple["Expert | Copy", ...]:
        """All copies of it: the first one, whose fields are the expert's own, and the others."""
        return (self, *(self.copies or ()))

    @field_validator("copies")
    @classmethod
    def _copies_differ(
        cls, copies: tuple[Copy, ...] | None, info: ValidationInfo
    ) -> tuple[Copy, ...] | None:
        taken = {info.data.get("dimm")} - {None}
        for row, copy in enumerate(copies or ()):
            if copy.dimm in taken:
                raise field_error([row, "dimm"], f"{copy.dimm} holds a copy of it already")
            taken.add(copy.dimm)
            for name in ("gpu_dram_ns", "pcie_ns"):
                if info.data.get("resident") and getattr(copy, name):
                    reason = f"must be 0 because resident is true, not {getattr(copy, name)}"
                    raise field_error([row, name], reason)
        return copies

    @field_validator("gpu_calc_ns", "pcie_ns")
    @classmethod
    def _part_of_the_path(cls, value: int | None, info: ValidationInfo) -> int | None:
        value = _part_of(value, info.data.get("gpu_ns"))
        if value and info.field_name == "pcie_ns" and info.data.get("resident"):
            raise field_error([], f"must be 0 because resident is true, not {value}")
        return value

    @field_validator("ndp_ns")
    @classmethod
    def _ndp_exactly_where_localized(cls, value: int | None, info: ValidationInfo) -> int | None:
        if "dimm" in info.data and (value is None) != (info.data["dimm"] is None):
            if value is None:
                raise field_error([], "must be an integer because dimm is not null")
            raise field_error([], f"must be null because dimm is null (striped), not {value}")
        return value

    @field_validator("gpu_dram_ns")
    @classmethod
    def _no_host_read_if_resident(cls, value: int, info: ValidationInfo) -> int:
        if info.data.get("resident") and value != 0:
            raise field_error([], f"must be 0 because resident is true, not {value}")
        return value


def _part_of(value: int | None, path_ns: int | None) -> int | None:
    """Return one of the two parts of a path to the GPU, which is no longer than the path."""
    if value is not None and path_ns is not None and value > path_ns:
        raise field_error([], f"must be at most gpu_ns = {path_ns}, not {value}")
    return value
