"""What a problem's ``view.py`` shows: schedules to look at, and decisions that differ.

``view.py`` has ``facts(instance, solution)``, which reports ask for, ``differences(instance, ours,
best)``, ``changes(instance, solution)`` and, where a solution is a schedule, ``lanes(instance,
solution)``.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Literal, TypeVar

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
    critical: bool = False
    """Whether it lies on a critical path: see `moeopt.problems.execute`."""


@dataclass(frozen=True)
class Lane:
    """A device and its bars in order of time."""

    device: str
    bars: tuple[Bar, ...]

    @property
    def end_ns(self) -> int:
        """When the last bar ends."""
        return self.bars[-1].end_ns if self.bars else 0


def longest_first(device: str, pieces: Iterable[tuple[int, str, Kind]]) -> Lane:
    """Return a lane of (length in ns, label, kind) whose order is free.

    Reads come before work, the longest first, and of equally long ones the lowest number.
    """
    return in_turn(device, sorted(pieces, key=_by_length))


def in_turn(device: str, pieces: Iterable[tuple[int, str, Kind]]) -> Lane:
    """Return a lane of (length in ns, label, kind), one after the other."""
    bars, clock = [], 0
    for length, label, kind in pieces:
        if length:
            bars.append(Bar(clock, clock + length, label, kind))
            clock += length
    return Lane(device, tuple(bars))


def _by_length(piece: tuple[int, str, Kind]) -> tuple[str, int, int, str]:
    length, label, kind = piece
    return kind, -length, int(label) if label.isdecimal() else -1, label


Difference = tuple[int, str, str, str]
"""A decision that two solutions take differently.

How much it matters (in tokens, slices, units of loss), what is decided, and what each one does.
"""

Value = TypeVar("Value")

Changes = Iterator[tuple[str, Any]]
"""Solutions in which one decision is another, each with what is changed, in words.

Where a budget is full the smallest change may be an exchange. Those that might help most come first
if they are many. They need not be valid: whoever asks has them checked.
"""


def replaced(values: Sequence[Value], at: int, value: Value) -> tuple[Value, ...]:
    """Return the values with another one in a place."""
    return (*values[:at], value, *values[at + 1 :])


def expert_words(number: int, tokens: int) -> str:
    """Return an expert with its tokens in words."""
    return f"expert {number} ({tokens} token{'s' if tokens != 1 else ''})"


def different_domains(
    experts: Sequence[Any], ours: Sequence[str | None], best: Sequence[str | None]
) -> Iterator[Difference]:
    """Yield the experts that run in different domains.

    Parameters
    ----------
    experts
        With their numbers, `expert`, and their `tokens`.
    ours, best
        A domain per expert; None for one that runs nowhere.
    """
    for expert, a, b in zip(experts, ours, best, strict=True):
        if a != b:
            what = expert_words(expert.expert, expert.tokens)
            yield expert.tokens, what, a or "nowhere", b or "nowhere"


def different_counts(
    ours: Sequence[int | None], best: Sequence[int | None], unit: str
) -> Iterator[Difference]:
    """Yield the layers that have different counts of something; None counts as 0."""
    for layer, (a, b) in enumerate(zip_longest(ours, best)):
        if a != b:
            yield abs((a or 0) - (b or 0)), f"layer {layer}", f"{a or 0} {unit}", f"{b or 0} {unit}"
