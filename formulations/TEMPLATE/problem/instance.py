"""The data: experts with sizes and miss costs, a capacity, and how many must be kept at least."""

from typing import Annotated, Literal, Self

from numpy.typing import ArrayLike
from pydantic import Field

from moeopt.core.arrays import each, integers, made, rows_of
from moeopt.core.envelope import Count, Data, InstanceEnvelope, Nanoseconds, SolutionEnvelope


class Expert(Data):
    """An expert's size, and what it costs not to keep it."""

    size_bytes: Count
    miss_ns: Nanoseconds


class Instance(InstanceEnvelope):
    """Every field is an integer with its unit in the name; see `moeopt.core.envelope`."""

    problem: Literal["TEMPLATE"] = "TEMPLATE"
    capacity_bytes: Count
    min_kept: Count
    experts: Annotated[tuple[Expert, ...], Field(min_length=1, max_length=4096)]

    @classmethod
    def from_arrays(
        cls,
        *,
        size_bytes: ArrayLike,
        miss_ns: ArrayLike,
        capacity_bytes: int,
        min_kept: int = 0,
        name: str | None = None,
        quantum_ns: int | None = None,
    ) -> Self:
        """Return the instance of arrays with one entry per expert.

        Parameters
        ----------
        size_bytes
            Size of each expert in bytes, shape (experts,).
        miss_ns
            What it costs not to keep it, in ns, shape (experts,).
        capacity_bytes, min_kept
            Memory for kept experts in bytes, and the least number of them.
        name, quantum_ns
            What the instance is called, and the unit that all times are multiples of, if any.

        Raises
        ------
        InputError
            If an argument is not an array of integers of this shape and range; one line with the
            argument, the index and the value.

        Examples
        --------
        >>> from moeopt import TEMPLATE
        >>> TEMPLATE.Instance.from_arrays(
        ...     size_bytes=[5, 5, 3], miss_ns=[3, 4, 1], capacity_bytes=9, name="small"
        ... )
        <TEMPLATE instance 'small': 3 experts, 9 bytes; minimises missed_ns>
        """
        sizes = integers("size_bytes", size_bytes, (None,), axes="(experts,)")
        costs = each("miss_ns", miss_ns, len(sizes), 0)
        return made(
            cls,
            name=name,
            quantum_ns=quantum_ns,
            capacity_bytes=capacity_bytes,
            min_kept=min_kept,
            experts=rows_of({"size_bytes": sizes.tolist(), "miss_ns": costs.tolist()}),
        )

    def size(self) -> str:
        """Return how many experts there are, and the capacity, in words."""
        return f"{len(self.experts)} experts, {self.capacity_bytes} bytes"


class Solution(SolutionEnvelope):
    """One flag per expert."""

    problem: Literal["TEMPLATE"] = "TEMPLATE"
    kept: tuple[bool, ...]
