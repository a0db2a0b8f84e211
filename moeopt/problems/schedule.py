"""A schedule to look at: what runs where and when, in whatever problem."""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["work", "deferred", "transfer", "read"]


@dataclass(frozen=True)
class Bar:
    """Something that keeps a device busy from `start_ns` to `end_ns`.

    `kind`: "work" is computation, "deferred" computation put off to the next layer, "transfer" data
    on a link, "read" a host's read that keeps a DIMM busy.
    """

    start_ns: int
    end_ns: int
    label: str
    kind: Kind


@dataclass(frozen=True)
class Lane:
    """A device and its bars in order of time."""

    device: str
    bars: tuple[Bar, ...]

    @property
    def end_ns(self) -> int:
        """When the last bar ends."""
        return self.bars[-1].end_ns if self.bars else 0
