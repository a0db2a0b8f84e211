"""The data: experts with sizes and miss costs, a capacity, and how many must be kept at least."""

from typing import Annotated, Literal

from pydantic import Field

from moeopt.problems.envelope import Count, Data, InstanceEnvelope, Nanoseconds


class Expert(Data):
    """An expert's size, and what it costs not to keep it."""

    size_bytes: Count
    miss_ns: Nanoseconds


class Instance(InstanceEnvelope):
    """Every field is an integer with its unit in the name; see `moeopt.problems.envelope`."""

    problem: Literal["TEMPLATE"] = "TEMPLATE"
    capacity_bytes: Count
    min_kept: Count
    experts: Annotated[tuple[Expert, ...], Field(min_length=1, max_length=4096)]
