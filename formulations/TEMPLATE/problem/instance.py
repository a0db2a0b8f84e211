"""The data: experts with sizes and miss costs, a capacity, and how many must be kept at least."""

from typing import Annotated, ClassVar, Literal, Self

from numpy.typing import ArrayLike
from pydantic import Field

from moeopt.core.arrays import Table, by_name
from moeopt.core.envelope import Count, Data, InstanceEnvelope, Nanoseconds, SolutionEnvelope
from moeopt.core.json_files import JsonObject


class Expert(Data):
    """An expert's size, and what it costs not to keep it."""

    size_bytes: Count
    miss_ns: Nanoseconds


class Instance(InstanceEnvelope):
    """Every field is an integer with its unit in the name; see `moeopt.core.envelope`.

    `from_arrays` takes the fields of `Expert` as arrays of shape (experts,).

    Examples
    --------
    >>> from moeopt import TEMPLATE
    >>> TEMPLATE.Instance.from_arrays(
    ...     size_bytes=[5, 5, 3], miss_ns=[3, 4, 1], capacity_bytes=9, name="small"
    ... )
    <TEMPLATE instance 'small': 3 experts, 9 bytes; minimises missed_ns>
    """

    TABLES: ClassVar = (Table("experts", "size_bytes", "(experts,)"),)

    problem: Literal["TEMPLATE"] = "TEMPLATE"
    capacity_bytes: Count
    min_kept: Count
    experts: Annotated[tuple[Expert, ...], Field(min_length=1, max_length=4096)]

    @classmethod
    @by_name
    def from_arrays(
        cls,
        *,
        size_bytes: ArrayLike,
        miss_ns: ArrayLike,
        capacity_bytes: int,
        min_kept: int = 0,
        name: str | None = None,
        provenance: JsonObject | None = None,
        quantum_ns: int | None = None,
    ) -> Self:
        """Return the instance of arrays: NumPy's, or nested lists."""
        return cls._of_arrays(locals())

    def size(self) -> str:
        """Return how many experts there are, and the capacity, in words."""
        return f"{len(self.experts)} experts, {self.capacity_bytes} bytes"


class Solution(SolutionEnvelope):
    """One flag per expert."""

    problem: Literal["TEMPLATE"] = "TEMPLATE"
    kept: tuple[bool, ...]
