"""One fused batch of experts on one socket, the grains that cut them, and what their parts take."""

from typing import Annotated, ClassVar, Literal, Self

from numpy.typing import ArrayLike
from pydantic import AfterValidator, Field, model_validator

from moeopt.core.arrays import Table, by_name
from moeopt.core.envelope import (
    Count,
    Data,
    InstanceEnvelope,
    Nanoseconds,
    SolutionEnvelope,
    Sum,
    distinct,
    field_error,
)
from moeopt.core.json_files import JsonObject

MAX_THREADS = 1024
MAX_EXPERTS = 4096
MAX_GRAINS = 64
MAX_PARTS = 4096

Grain = Annotated[int, Field(strict=True, ge=1, le=MAX_PARTS)]


class Expert(Data):
    """One active expert: what loading its input takes, and what one of its parts takes.

    Parameters
    ----------
    expert
        The expert's number in its layer.
    load_ns
        Time of loading its input, once on each thread that touches it.
    part_ns
        Time of one part at each of the instance's grains; None where a grain does not exist.
    """

    expert: Count
    load_ns: Nanoseconds
    part_ns: Annotated[tuple[Nanoseconds | None, ...], Field(min_length=1, max_length=MAX_GRAINS)]


class Instance(InstanceEnvelope):
    """Identical threads, and experts that are cut into parts for them.

    Parameters
    ----------
    threads
        How many threads there are.
    pull_ns
        Time of taking one part from the queue.
    grains
        Into how many equal parts each grain cuts an expert.

    Notes
    -----
    `from_arrays` takes `part_ns` of shape (experts, grains), with -1 where a grain does not exist,
    and the other fields of `Expert` of shape (experts,). By default the experts are numbered
    0, 1, ..., and neither loading nor pulling takes time.

    Examples
    --------
    >>> from moeopt import threads
    >>> threads.Instance.from_arrays(
    ...     part_ns=[[40, 21, 11], [9, 5, -1]], load_ns=[5, 2], grains=[1, 2, 4], threads=4,
    ...     pull_ns=1, name="small",
    ... )
    <threads instance 'small': 2 experts, 3 grains, 4 threads; minimises makespan_ns>
    """

    TABLES: ClassVar = (Table("experts", "part_ns", "(experts, grains)", "expert", {"load_ns": 0}),)
    SUMS: ClassVar = (Sum("experts", "all parts, each with a load of its own", "horizon_ns"),)

    problem: Literal["threads"] = "threads"
    threads: Annotated[Count, Field(ge=1, le=MAX_THREADS)]
    pull_ns: Nanoseconds
    grains: Annotated[tuple[Grain, ...], Field(min_length=1, max_length=MAX_GRAINS)]
    experts: Annotated[
        tuple[Expert, ...],
        Field(min_length=1, max_length=MAX_EXPERTS, fail_fast=True),
        AfterValidator(distinct),
    ]

    @model_validator(mode="after")
    def _parts_are_of_the_grains(self) -> Self:
        due = len(self.grains)
        for row, expert in enumerate(self.experts):
            at: list[str | int] = ["experts", row, "part_ns"]
            if len(expert.part_ns) != due:
                have = len(expert.part_ns)
                raise field_error(at, f"must have {due} entries, one for each grain, not {have}")
            if all(part is None for part in expert.part_ns):
                raise field_error(at, "must have a time for one grain at least")
        return self

    @classmethod
    @by_name
    def from_arrays(
        cls,
        *,
        part_ns: ArrayLike,
        threads: int,
        grains: ArrayLike,
        expert: ArrayLike | None = None,
        load_ns: ArrayLike | None = None,
        pull_ns: int = 0,
        name: str | None = None,
        provenance: JsonObject | None = None,
        quantum_ns: int | None = None,
    ) -> Self:
        """Return the instance of arrays: NumPy's, or nested lists."""
        return cls._of_arrays(locals())

    def size(self) -> str:
        """Return how many experts, grains and threads there are, in words."""
        return f"{len(self.experts)} experts, {len(self.grains)} grains, {self.threads} threads"

    def choices(self, row: int) -> list[int]:
        """Return the grains that an expert has, by index; those of fewer parts first."""
        parts = self.experts[row].part_ns
        there = [k for k in range(len(self.grains)) if parts[k] is not None]
        return sorted(there, key=lambda k: self.grains[k])

    def pulled_ns(self, row: int, grain: int) -> int:
        """Return the time of one part with its pull; the grain must exist for the expert."""
        part = self.experts[row].part_ns[grain]
        if part is None:
            raise ValueError(f"experts[{row}] does not have grain {grain}")
        return part + self.pull_ns

    @property
    def horizon_ns(self) -> int:
        """A makespan that no solution exceeds: all parts one after the other, each with a load."""
        return sum(
            max(
                self.grains[k] * (part + self.pull_ns + expert.load_ns)
                for k, part in enumerate(expert.part_ns)
                if part is not None
            )
            for expert in self.experts
        )


class Solution(SolutionEnvelope):
    """The index of each expert's grain, and the thread of each of its parts.

    Rows are in the order of the instance's experts.
    """

    problem: Literal["threads"] = "threads"
    grain: tuple[Count, ...]
    thread: tuple[tuple[Count, ...], ...]
