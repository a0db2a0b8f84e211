"""Reading files from strangers: nothing costs more than it weighs.

A compressed file is expanded in chunks, up to a hundred times its own size, and never beyond what
its kind may have. What goes wrong with a file itself is one line that names it.
"""

import gzip
import hashlib
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import BinaryIO, cast

from moeopt.core.errors import InputError
from moeopt.core.wording import closest, meant

MIB = 2**20

MAX_RATIO = 100
"""A file may expand to so many times its size: real traces reach 40."""

FREE_BYTES = 16 * MIB
"""Up to here a file may expand whatever its size."""

MAX_TOML_BYTES, MAX_TOML_DEPTH = MIB, 32
"""Largest TOML file, and most parts of a dotted key, of which each costs as much as all before."""

MOST_NAMES = 1000
"""How many files of a folder are compared with a name that is missing."""

LONGEST_PLACE = 255
"""Longest place that a file may name, in bytes: what systems take for one name."""

CHUNK_BYTES = MIB
"""How much is read at a time, as asking for more sets memory aside."""


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn a failure to open, decompress or decode a file into an InputError.

    What is neither file nor folder is refused at once: a pipe would be waited for without end.
    """
    try:
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise InputError("cannot be read: is no regular file", where=path)
        yield
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise InputError("not a complete gzip file", where=path) from None
    except FileNotFoundError as error:
        raise InputError(f"cannot be read: {error.strerror}{_like(path)}", where=path) from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", where=path) from None
    except UnicodeDecodeError as error:
        raise InputError(f"not UTF-8 text at byte {error.start}", where=path) from None
    except MemoryError:
        raise InputError("too large for this machine's memory", where=path) from None
    except ValueError as error:  # a NUL in the path
        raise InputError(f"cannot be read: {error}", where=path) from None


def _like(path: Path) -> str:
    """Return which files of the folder are called much like a missing one, or that it has none."""
    if not path.parent.is_dir():
        return f"; there is no folder {path.parent}"
    names = islice((one.name for one in path.parent.iterdir()), MOST_NAMES)
    others = (one for one in names if one.isprintable() and one != path.name)
    return meant(path.name, (one for one in others if closest(path.stem, [Path(one).stem])))


def inside(folder: Path, name: str) -> Path | None:
    """Return the place below a folder that a file from strangers names; None if it leads out."""
    parts = PurePosixPath(name).parts
    usable = parts and name.isprintable() and len(name.encode()) <= LONGEST_PLACE
    return folder / name if usable and not {"/", ".."} & {*parts} else None


def expanded_limit(size: int, most: int) -> int:
    """Return to how many bytes `size` compressed ones may expand."""
    return min(most, max(FREE_BYTES, MAX_RATIO * size))


@contextmanager
def opened(path: Path, most: int) -> Iterator[tuple[BinaryIO, int]]:
    """Open a file, decompressed if its name ends in ``.gz``; give the stream and its limit.

    Raises
    ------
    InputError
        If it is no regular file, or cannot be read.
    """
    with reading(path):
        if path.is_dir():
            raise InputError("is a folder; name a file in it", where=path)
        is_packed, size = path.suffix == ".gz", path.stat().st_size
        if size > most:
            raise InputError(f"larger than {max(1, most // MIB)} MiB", where=path)
        with cast(BinaryIO, gzip.open(path)) if is_packed else path.open("rb") as stream:
            yield stream, expanded_limit(size, most) if is_packed else most


def read_bytes(path: Path, most: int) -> bytes:
    """Return a file's bytes, at most `most`, decompressed if its name ends in ``.gz``."""
    with opened(path, most) as (stream, limit):
        return _bounded(stream, limit, str(path))


def digest(path: Path, most: int) -> str:
    """Return the SHA-256 of a file of at most `most` bytes, in hexadecimal."""
    with reading(path):
        if path.stat().st_size > most:
            raise InputError(f"larger than {max(1, most // MIB)} MiB", where=path)
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()


def expanded(blob: bytes, most: int, where: str) -> bytes:
    """Return what a gzip blob holds, at most `most` bytes; `where` begins the error's line."""
    try:
        with gzip.open(BytesIO(blob)) as stream:
            return _bounded(cast(BinaryIO, stream), expanded_limit(len(blob), most), where)
    except (OSError, EOFError, zlib.error):
        raise InputError("not a complete gzip stream", where=where) from None


LIST_BYTES, OBJECT_BYTES, MAX_GROWTH = 96, 232, 16
"""What a short list and an object take, and how many times its size a text may take in them."""


def check_growth(text: str, where: str) -> None:
    """Refuse a JSON text whose lists and objects take many times what the text does."""
    grown = LIST_BYTES * text.count("[") + OBJECT_BYTES * text.count("{")
    if grown > max(FREE_BYTES, MAX_GROWTH * len(text)):
        raise InputError("has too many lists and objects for its size", where=where)


def check_toml(text: str, where: str) -> None:
    """Refuse a TOML text whose keys have many parts."""
    for number, line in enumerate(text.splitlines(), 1):
        if line.partition("=")[0].count(".") > MAX_TOML_DEPTH:
            raise InputError(
                f"line {number}: a key of more than {MAX_TOML_DEPTH} parts", where=where
            )


def _bounded(stream: BinaryIO, limit: int, where: str) -> bytes:
    payload = bytearray()
    while part := stream.read(min(CHUNK_BYTES, limit + 1 - len(payload))):
        payload += part
        if len(payload) > limit:
            raise InputError(f"larger than {max(1, limit // MIB)} MiB", where=where)
    return bytes(payload)
