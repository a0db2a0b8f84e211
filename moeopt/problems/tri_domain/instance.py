"""One MoE layer of one decode step: active experts, where they lie, what each path costs."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from operator import attrgetter
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import AfterValidator, Field, ValidationInfo, field_validator, model_validator

from moeopt.core.arrays import Table, by_name
from moeopt.core.envelope import Count, SolutionEnvelope, Sum, absent, distinct, field_error
from moeopt.core.json_files import JsonObject
from moeopt.problems.device_loads import table_for
from moeopt.problems.host_memory import HostMemory

from .expert import MAX_DIMMS, columns_of
from .expert import STRIPED as STRIPED
from .expert import Columns as Columns
from .expert import Copy as Copy
from .expert import Expert as Expert

MAX_EXPERTS = 4096


class Instance(HostMemory):
    """One GPU, one CPU, `dimms` identical NDP-DIMMs, and the active experts of one layer.

    Fields of schema 2, here and in `Expert`, are absent in files of schema 1: see
    `moeopt.problems.host_memory`.

    `from_arrays` takes the fields of `Expert` as arrays of shape (experts,). By default the experts
    are numbered 0, 1, ..., have one token each, and none is resident; `dimm` and `ndp_ns` are -1
    where an expert is striped. `gpu_dram_ns` and `cpu_dram_ns` are the most that the costs allow:
    Eq. 2 and 3 are maxima of which one term is this read, the same in both, so that it is at most
    the shorter of `gpu_ns` and `cpu_ns`, and for a resident expert at most `cpu_ns`, while the GPU
    reads nothing. Pass 0 for hosts that leave the DIMMs free. `copies` has a list per expert, empty
    where there are none.

    Examples
    --------
    >>> from moeopt import tri_domain
    >>> tri_domain.Instance.from_arrays(
    ...     gpu_ns=[30, 40, 20], cpu_ns=[50, 20, 60], ndp_ns=[-1, 30, 25], dimm=[-1, 0, 1],
    ...     dimms=2, name="small",
    ... )
    <tri_domain instance 'small': 3 experts, 1 striped, 0 resident, 2 DIMMs;
    minimises makespan_ns>
    """

    TABLES: ClassVar = (
        Table(
            *("experts", "gpu_ns", "(experts,)", "expert"),
            {"tokens": 1, "resident": False, "gpu_dram_ns": None, "cpu_dram_ns": None},
        ),
    )

    SUMS: ClassVar = (Sum("experts", "the times of all further copies, in ns,", "copies_ns"),)

    problem: Literal["tri_domain"] = "tri_domain"
    dimms: Annotated[Count, Field(ge=1, le=MAX_DIMMS)]
    experts: Annotated[
        tuple[Expert, ...],
        Field(min_length=1, max_length=MAX_EXPERTS, fail_fast=True),
        AfterValidator(distinct),
    ]

    @field_validator("experts")
    @classmethod
    def _dimms_exist(cls, experts: tuple[Expert, ...], info: ValidationInfo) -> tuple[Expert, ...]:
        dimms = info.data.get("dimms")
        for row, expert in enumerate(experts):
            for number, lie in enumerate(expert.lies):
                if dimms is not None and lie.dimm is not None and lie.dimm >= dimms:
                    reason = f"must be below dimms = {dimms}, not {lie.dimm}"
                    copy: list[str | int] = ["copies", number - 1] if number else []
                    raise field_error([row, *copy, "dimm"], reason)
        return experts

    @model_validator(mode="after")
    def _parts_of_all_or_none(self) -> Self:
        for row, expert in enumerate(self.experts if self.two_parts else ()):
            for name in ("gpu_calc_ns", "pcie_ns"):
                if any(getattr(lie, name) is None for lie in expert.lies):
                    reason = "is missing: gpu_calc_ns and pcie_ns are given for all experts or none"
                    raise field_error(["experts", row, name], reason)
        _ = self.has_copies, self.device_table  # made here, so that no solve waits for them
        return self

    @cached_property
    def two_parts(self) -> bool:
        """Whether runs on the GPU consist of computation and transfer."""
        lies = [lie for expert in self.experts for lie in expert.lies]
        return any(lie.gpu_calc_ns is not None or lie.pcie_ns is not None for lie in lies)

    @property
    def copies_ns(self) -> int:
        """The longest time of each further copy, summed: models have a variable for each."""
        copies = (copy for expert in self.experts for copy in expert.copies or ())
        return sum(max(c.gpu_ns, c.cpu_ns, c.ndp_ns, c.gpu_dram_ns, c.cpu_dram_ns) for c in copies)

    @cached_property
    def has_copies(self) -> bool:
        """Whether some expert lies in several places."""
        return any(map(attrgetter("copies"), self.experts))

    def charge_ns(self, lie: Expert | Copy, read_ns: int) -> int:
        """Return how long each DIMM that a copy lies on is busy while a host reads it."""
        return self.striped_charge_ns(read_ns) if lie.dimm is None else read_ns

    def times_ns(self, expert: Expert) -> list[int]:
        """Return every duration with which an expert may keep some device busy, zeros aside."""
        times: list[int | None] = []
        for lie in expert.lies:
            reads = (lie.gpu_dram_ns, lie.cpu_dram_ns)
            times += [lie.gpu_work_ns, lie.cpu_ns, lie.ndp_ns, lie.pcie_ns]
            times += [self.charge_ns(lie, read) for read in reads]
            times += reads if self.channels is not None else ()
        return [time for time in times if time]

    @classmethod
    def _arranged(cls, given: dict[str, object]) -> dict[str, object]:
        [table] = cls.TABLES
        mine = {name: given.pop(name) for name in Expert.model_fields if name in given}
        columns = table.columns(Expert, mine)
        held, gpu, cpu = (np.asarray(columns[name]) for name in ("resident", "gpu_ns", "cpu_ns"))
        read = np.where(held, cpu, np.minimum(gpu, cpu))
        columns.setdefault("gpu_dram_ns", np.where(held, 0, read))
        columns.setdefault("cpu_dram_ns", read)
        given[table.name] = table.rows(Expert, columns)
        return given

    @classmethod
    @by_name
    def from_arrays(
        cls,
        *,
        dimm: ArrayLike,
        gpu_ns: ArrayLike,
        cpu_ns: ArrayLike,
        ndp_ns: ArrayLike,
        dimms: int,
        expert: ArrayLike | None = None,
        tokens: ArrayLike | None = None,
        resident: ArrayLike | None = None,
        gpu_dram_ns: ArrayLike | None = None,
        cpu_dram_ns: ArrayLike | None = None,
        gpu_calc_ns: ArrayLike | None = None,
        pcie_ns: ArrayLike | None = None,
        copies: Sequence[object] | None = None,
        channels: ArrayLike | None = None,
        dimm_share: ArrayLike | None = None,
        gpu_base_ns: int | None = None,
        name: str | None = None,
        provenance: JsonObject | None = None,
        quantum_ns: int | None = None,
    ) -> Self:
        """Return the instance of arrays: NumPy's, or nested lists."""
        return cls._of_arrays(locals())

    def size(self) -> str:
        """Return how many experts there are, how they lie, and the DIMMs, in words."""
        striped = int((self.columns.dimm == STRIPED).sum())
        held = int(self.columns.resident.sum())
        experts = f"{len(self.experts)} experts, {striped} striped, {held} resident"
        return f"{experts}, {self.dimms} DIMMs"

    @cached_property
    def columns(self) -> Columns:
        """The experts as arrays, each with its first copy."""
        return columns_of(list(map(vars, self.experts)))

    @cached_property
    def copy_columns(self) -> tuple[NDArray[np.int64], Columns]:
        """All copies as arrays, expert by expert: each one's row in `experts`, and its columns."""
        if not self.has_copies:
            return np.arange(len(self.experts)), self.columns
        counts = [len(expert.lies) for expert in self.experts]
        rows = [vars(expert) | vars(lie) for expert in self.experts for lie in expert.lies]
        return np.repeat(np.arange(len(counts)), counts), columns_of(rows)

    @cached_property
    def device_table(self) -> NDArray[np.int64]:
        """The experts with their first copies as `moeopt.problems.device_loads` takes them."""
        return self.table_of(self.columns)

    def table_of(self, c: Columns) -> NDArray[np.int64]:
        """Return some columns as `moeopt.problems.device_loads` takes them."""
        parts = (c.gpu_work_ns, c.pcie_ns) if self.two_parts else ()
        columns = (c.gpu_ns, c.cpu_ns, c.ndp_ns, c.gpu_dram_ns, c.cpu_dram_ns, c.dimm)
        return table_for(self, *columns, *parts)


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
    instance: Instance, runs: Sequence[Mapping[Run, object]], value: Callable[[object], int]
) -> Solution:
    """Return the solution in which each expert runs the first way whose variable is 1.

    With a constraint left out there may be several, or none: then the expert runs nowhere.
    """
    chosen = [next((run for run, at in of.items() if value(at)), None) for of in runs]
    return solution_of(instance, chosen)
