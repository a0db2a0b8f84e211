"""A fact that stands in a text; texts come from strangers and are cut to size first."""

from collections.abc import Iterator
from dataclasses import dataclass

from moeopt.core.errors import InputError

MOST_BYTES = 4 * 2**20
MOST_LINES, LONGEST_LINE = 100_000, 8000
LONGEST_NAME = 200
MOST_DEVICES = 64
"""GPUs and memory nodes that are read of a text."""


@dataclass(frozen=True)
class Fact:
    """What was read.

    Attributes
    ----------
    name
        As ``dram.speed_mt_s`` or ``gpu0.name``.
    value, unit
        The unit of a text is empty.
    source
        The tool, and the words of its text.
    """

    name: str
    value: int | float | str
    unit: str
    source: str


def decoded(payload: bytes, where: str) -> str:
    """Return text that was pasted, each line cut to size.

    Raises
    ------
    InputError
        If it is no text.
    """
    if len(payload) > MOST_BYTES:
        raise InputError(f"larger than {MOST_BYTES // 2**20} MiB", where=where)
    if payload[:2] in (b"\xff\xfe", b"\xfe\xff"):  # what PowerShell writes
        text = payload.decode("utf-16", errors="replace")
    else:
        text = payload.decode("utf-8-sig", errors="replace")
    if "\0" in text:
        raise InputError("is no text", where=where)
    lines = text.split("\n")[:MOST_LINES]
    return "\n".join(line.rstrip("\r")[:LONGEST_LINE] for line in lines)


def clean(text: str) -> str:
    """Return a name of a text without what a terminal would act on."""
    return " ".join("".join(c for c in text[:LONGEST_NAME] if c.isprintable()).split())


def lines_of(text: str) -> Iterator[str]:
    """Yield the lines of a text without spaces around."""
    return (line.strip() for line in text.split("\n"))
