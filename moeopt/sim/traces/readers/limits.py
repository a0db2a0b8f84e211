"""How much of an untrusted file is read, and the reading itself.

Sizes are bounded before anything is parsed, also those of compressed files.
"""

from collections.abc import Iterator
from pathlib import Path

from moeopt.core.errors import InputError
from moeopt.core.untrusted import opened, read_bytes, reading

MAX_FILE_BYTES = 2 * 2**30
"""Largest file that is opened at all."""

MAX_TEXT_BYTES = 512 * 2**20
"""Most bytes of a text file, after decompression."""

MAX_LINE_BYTES = 32 * 2**20
"""Longest line of a text file that is read line by line."""

MAX_EXPERT = 2**16 - 1
MAX_LAYER = 2**12 - 1
MAX_TOKENS = 2**28
"""Highest numbers that are taken for an expert, a layer, and a number of tokens."""

MAX_FILES = 4096
"""Most files that are read from one folder."""


def check_size(path: Path) -> None:
    """Refuse a file that is larger than `MAX_FILE_BYTES`, or that is not there."""
    with reading(path):
        if path.stat().st_size > MAX_FILE_BYTES:
            raise InputError(f"{path}: larger than {MAX_FILE_BYTES // 2**20} MiB")


def read_text(path: Path) -> str:
    """Return a UTF-8 text file, decompressed if its name ends in ``.gz``."""
    with reading(path):
        return read_bytes(path, MAX_TEXT_BYTES).decode("utf-8-sig")


def read_head(path: Path, size: int = 4096) -> bytes:
    """Return the first bytes of a file, decompressed if its name ends in ``.gz``."""
    with reading(path), opened(path, MAX_TEXT_BYTES) as (stream, _):
        return stream.read(size)


def read_lines(path: Path, longest: int = MAX_LINE_BYTES) -> Iterator[tuple[int, str]]:
    """Yield number and text of every line that is not blank, without its end.

    A line of more than `longest` bytes is refused before it is split.
    """
    total = 0
    with reading(path), opened(path, MAX_TEXT_BYTES) as (stream, limit):
        number = 0
        while line := stream.readline(longest + 1):
            number += 1
            total += len(line)
            if len(line) > longest:
                raise InputError(f"{path}: line {number}: longer than {longest} bytes")
            if total > limit:
                raise InputError(f"{path}: larger than {limit // 2**20} MiB")
            text = line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
            if text.strip():
                yield number, text


def files_in(folder: Path, pattern: str) -> list[Path]:
    """Return the files of a folder whose names match, sorted by name.

    Raises
    ------
    InputError
        If there is none, or more than `MAX_FILES`.
    """
    found = sorted(path for path in folder.glob(pattern) if path.is_file())
    if not found:
        raise InputError(f"{folder}: holds no file called {pattern}")
    if len(found) > MAX_FILES:
        raise InputError(f"{folder}: holds more than {MAX_FILES} files called {pattern}")
    return found
