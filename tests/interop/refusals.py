"""What the tests of importers share: asking for a refusal, and what it may cost."""

import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from moeopt import InputError, load_trace

MEBIBYTE = 2**20


class Bomb:
    """Unpickling this makes a folder."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.mkdir, (str(self.marker),)


def refusal(path: Path, load: Callable[..., Any] = load_trace, **options: Any) -> str:
    """Return what the InputError says after the path; it must be one printable line."""
    with pytest.raises(InputError) as caught:
        load(path, **options)
    message = str(caught.value)
    assert message.isprintable()
    assert message.startswith(str(path))
    return message.removeprefix(str(path)).removeprefix(": ")


def frugal_refusal(path: Path, most: int, load: Callable[..., Any] = load_trace) -> str:
    """Return what `refusal` does, if Python's own memory stays below `most` bytes."""
    tracemalloc.start()
    try:
        message = refusal(path, load)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < most
    return message
