"""numpy's own files, ``.npy`` and ``.npz``, read without pickle and within bounds."""

import io
import math
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from moeopt.core.errors import InputError
from moeopt.core.untrusted import expanded_limit, reading
from moeopt.sim.traces.readers import limits

MAX_ARRAY_BYTES = 2 * 2**30
"""Most bytes that the arrays read may declare, together; checked before any is expanded."""

_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def read_npz(path: Path, keys: Sequence[str]) -> dict[str, NDArray[np.generic]]:
    """Return those arrays of an npz file that are called one of `keys`; others are left alone.

    Raises
    ------
    InputError
        If the file cannot be read, is no such file, or declares more than is read.
    """
    limits.check_size(path)
    try:
        with zipfile.ZipFile(path) as archive:
            _refuse_bombs(path, archive, keys)
        with np.load(path, allow_pickle=False) as file:
            return {key: file[key] for key in keys if key in file.files}
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None
    except InputError:
        raise
    except Exception as error:  # zipfile and numpy raise a dozen kinds on hostile bytes
        raise InputError(f"{path}: not a usable npz file: {_first_line(error)}") from None


def npz_names(path: Path) -> set[str]:
    """Return the names of the arrays in an npz file; empty if it is no zip file."""
    with reading(path):
        try:
            with zipfile.ZipFile(path) as archive:
                return {name.removesuffix(".npy") for name in archive.namelist()}
        except (zipfile.BadZipFile, ValueError, NotImplementedError):
            return set()


def read_npy(path: Path) -> NDArray[np.generic]:
    """Return the array of an npy file."""
    limits.check_size(path)
    with reading(path), path.open("rb") as stream:
        return _read_array(stream, path.stat().st_size, str(path))


def npy_from_bytes(payload: bytes, where: str) -> NDArray[np.generic]:
    """Return the array that stands in npy form in `payload`; `where` begins the error messages."""
    return _read_array(io.BytesIO(payload), len(payload), where)


def _read_array(stream: IO[bytes], size: int, where: str) -> NDArray[np.generic]:
    try:
        declared = _declared(stream, where)
        held = size - stream.tell()
        if declared > min(held, MAX_ARRAY_BYTES):
            raise InputError(f"{where}: declares {declared} bytes and holds {held}")
        stream.seek(0)
        array: NDArray[np.generic] = np.lib.format.read_array(stream, allow_pickle=False)
    except InputError:
        raise
    except OSError:
        raise
    except Exception as error:  # numpy raises several kinds on hostile bytes
        raise InputError(f"{where}: not a usable npy file: {_first_line(error)}") from None
    return array


def _refuse_bombs(path: Path, archive: zipfile.ZipFile, keys: Sequence[str]) -> None:
    """Bound what the members expand to and what the arrays declare, before reading any of them."""
    total, limit = 0, expanded_limit(path.stat().st_size, MAX_ARRAY_BYTES)
    for member in archive.infolist():
        if member.filename.removesuffix(".npy") not in keys:
            continue
        with archive.open(member) as stream:
            declared = _declared(stream, f"{path}: {member.filename}")
        total += max(declared, member.file_size)
        if total > limit:
            most = limit // 2**20
            raise InputError(f"{path}: {member.filename}: declares more than {most} MiB")


def _declared(stream: IO[bytes], where: str) -> int:
    """Return how many bytes the array at the start of a stream says that it has."""
    version = np.lib.format.read_magic(stream)
    if version not in _HEADERS:
        raise InputError(f"{where}: npy version {version} is not known")
    shape, _, dtype = _HEADERS[version](stream)
    return math.prod(shape) * dtype.itemsize


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
