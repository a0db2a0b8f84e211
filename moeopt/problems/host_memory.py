"""The host's memory in the TriMoE problems: channels, shares of a striped read, the base load.

A host's striped read keeps every memory *channel* busy for its whole length, while the DIMMs of a
channel take turns: with two of them each supplies half. Where nothing is stated every DIMM is
charged in full and there are no channels.
"""

from typing import Annotated, Self

from pydantic import Field, field_validator, model_validator

from moeopt.core.envelope import Count, InstanceEnvelope, Nanoseconds, absent, field_error

MAX_SHARE = 1024


Positive = Annotated[int, Field(strict=True, ge=1, le=MAX_SHARE)]


class HostMemory(InstanceEnvelope):
    """The optional fields that instances of `tri_domain`, `layout` and `relayout` share.

    Parameters
    ----------
    channels
        The memory channel of each DIMM. A host's read of a striped expert keeps every channel busy,
        that of a localized one its DIMM's channel, for as long as the read takes; NDP work keeps
        none busy. Absent: channels are no limit.
    dimm_share
        Numerator and denominator: which part of a striped read's time each DIMM is busy, rounded up
        to whole ns for each read; ``[1, 2]`` where two DIMMs share a channel. Absent: all of it.
    gpu_base_ns
        How long the GPU is busy before any routed expert: attention's and shared experts' work that
        falls into the same makespan. Absent: 0.
    """

    schema_version: Annotated[int, Field(strict=True, ge=1, le=2)] = 1
    channels: Annotated[
        tuple[Count, ...] | None, Field(max_length=1024, fail_fast=True, exclude_if=absent)
    ] = None
    dimm_share: Annotated[tuple[Positive, Positive] | None, Field(exclude_if=absent)] = None
    gpu_base_ns: Annotated[Nanoseconds | None, Field(exclude_if=absent)] = None

    @field_validator("dimm_share")
    @classmethod
    def _share_at_most_one(cls, share: tuple[int, int] | None) -> tuple[int, int] | None:
        if share is not None and share[0] > share[1]:
            raise field_error([], f"must be at most 1, not {share[0]}/{share[1]}")
        return share

    @model_validator(mode="after")
    def _one_channel_per_dimm(self) -> Self:
        dimms = getattr(self, "dimms", None)
        if self.channels is not None and dimms is not None and len(self.channels) != dimms:
            reason = f"must have {dimms} entries, one per DIMM, not {len(self.channels)}"
            raise field_error(["channels"], reason)
        return self

    def striped_charge_ns(self, read_ns: int) -> int:
        """Return how long each DIMM is busy while a host reads a striped expert for `read_ns`."""
        if self.dimm_share is None:
            return read_ns
        part, whole = self.dimm_share
        return -(-read_ns * part // whole)

    @property
    def base_ns(self) -> int:
        """The GPU's base load in ns, 0 where the instance states none."""
        return self.gpu_base_ns or 0
