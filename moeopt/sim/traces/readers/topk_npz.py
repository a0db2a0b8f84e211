"""The ``topk_ids`` npz trace, the project's own form: arrays only."""

import io
import json
import math
import warnings
import zipfile
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from moeopt.core.errors import InputError, expect
from moeopt.core.json_files import write_bytes
from moeopt.core.untrusted import expanded_limit, reading
from moeopt.core.wording import shown
from moeopt.sim.traces.readers.checked import check_size, checked_trace, smallest
from moeopt.sim.traces.trace import Trace

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
    check_size(path)
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


def npz_arrays(path: Path) -> dict[str, tuple[tuple[int, ...], np.dtype[np.generic]]]:
    """Return shape and type of the arrays of an npz file by name; none of them is read.

    Raises
    ------
    InputError
        If the file cannot be read, is no such file, or has more than `MOST_ARRAYS`.
    """
    check_size(path)
    found = {}
    try:
        with zipfile.ZipFile(path) as archive:
            members = [m for m in archive.infolist() if m.filename.endswith(".npy")]
            if len(members) > MOST_ARRAYS:
                raise InputError(f"{path}: has {len(members)} arrays, more than {MOST_ARRAYS}")
            for member in members:
                with archive.open(member) as stream:
                    shape, _, dtype = _read_header(stream, f"{path}: {shown(member.filename)}")
                found[member.filename.removesuffix(".npy")] = (shape, dtype)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None
    except InputError:
        raise
    except Exception as error:  # zipfile and numpy raise a dozen kinds on hostile bytes
        raise InputError(f"{path}: not a usable npz file: {_first_line(error)}") from None
    return found


MOST_ARRAYS = 256
"""Most arrays of a file whose names are not known beforehand."""


def read_npy(path: Path) -> NDArray[np.generic]:
    """Return the array of an npy file; it must be as long as it declares.

    Raises
    ------
    InputError
        If the file cannot be read or is no such file.
    """
    check_size(path)
    with reading(path), path.open("rb") as stream:
        try:
            shape, _, dtype = _read_header(stream, str(path))
            declared = math.prod(shape) * dtype.itemsize
            held = path.stat().st_size - stream.tell()
            if declared != held:
                raise InputError(f"declares {declared} bytes and holds {held}", where=path)
            stream.seek(0)
            array: NDArray[np.generic] = np.load(stream, allow_pickle=False)
        except (InputError, MemoryError):
            raise
        except Exception as error:  # numpy raises several kinds on hostile bytes
            raise InputError(f"not a usable npy file: {_first_line(error)}", where=path) from None
    return array


def npy_from_bytes(payload: bytes, where: str) -> NDArray[np.generic]:
    """Return the array that stands in npy form in `payload`; `where` begins the error messages.

    Answers come by the hundred thousand, with few headers, of which each takes longer to read than
    the array does.
    """
    try:
        begin = 10 + int.from_bytes(payload[8:10], "little")
        shape, in_columns, dtype = _header(payload[:begin])
        declared, held = math.prod(shape) * dtype.itemsize, len(payload) - begin
        if declared > held:
            raise InputError(f"{where}: declares {declared} bytes and holds {held}")
        array = np.frombuffer(payload, dtype, math.prod(shape), begin)
        return array.reshape(shape, order="F" if in_columns else "C")
    except InputError:
        raise
    except Exception as error:  # numpy raises several kinds on hostile bytes
        raise InputError(f"{where}: not a usable npy file: {_first_line(error)}") from None


@lru_cache(maxsize=64)
def _header(head: bytes) -> tuple[tuple[int, ...], bool, np.dtype[np.generic]]:
    """Return shape, whether columns come first, and type by an npy array's first bytes."""
    stream = io.BytesIO(head)
    if np.lib.format.read_magic(stream) != (1, 0):
        raise ValueError("its npy version is not 1.0")
    return _parsed(stream, (1, 0))


def _refuse_bombs(path: Path, archive: zipfile.ZipFile, keys: Sequence[str]) -> None:
    """Bound what the members expand to and what the arrays declare, before reading any of them."""
    members = [m for m in archive.infolist() if m.filename.removesuffix(".npy") in keys]
    total, limit = 0, expanded_limit(sum(m.compress_size for m in members), MAX_ARRAY_BYTES)
    for member in members:
        with archive.open(member) as stream:
            declared = _declared(stream, f"{path}: {member.filename}")
        total += max(declared, member.file_size)
        if total > limit:
            most = limit // 2**20
            raise InputError(f"{path}: {member.filename}: declares more than {most} MiB")


def _declared(stream: IO[bytes], where: str) -> int:
    """Return how many bytes the array at the start of a stream says that it has."""
    shape, _, dtype = _read_header(stream, where)
    return math.prod(shape) * dtype.itemsize


def _read_header(
    stream: IO[bytes], where: str
) -> tuple[tuple[int, ...], bool, np.dtype[np.generic]]:
    """Return shape, whether columns come first, and type of the array at the start of a stream."""
    version = np.lib.format.read_magic(stream)
    if version not in _HEADERS:
        raise InputError(f"{where}: npy version {version} is not known")
    return _parsed(stream, version)


def _parsed(
    stream: IO[bytes], version: tuple[int, int]
) -> tuple[tuple[int, ...], bool, np.dtype[np.generic]]:
    """Return what the header of an array says; it is a Python literal, of which Python may warn."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", SyntaxWarning)
        shape, in_columns, dtype = _HEADERS[version](stream)
    return shape, in_columns, dtype


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0][:200]  # it quotes the file


KEYS = ("topk_ids", "topk_weights", "seq_len", "decode", "provenance")

MAX_PROVENANCE_BYTES = 2**20
"""Longest provenance, as JSON text."""

EPOCH = (1980, 1, 1, 0, 0, 0)
"""The time of every member, so that the same trace gives the same bytes."""


def read_topk_npz(path: Path, top_k: int | None = None) -> Trace:
    """Read a trace; see `moeopt.load_trace`."""
    arrays = read_npz(path, KEYS)
    if "topk_ids" not in arrays:
        names = ", ".join(sorted(map(shown, npz_names(path)))[:5])
        raise InputError(f"{path}: topk_ids: is missing: integers [token, layer, k]; has {names}")
    facts: dict[str, object] = {}
    if "provenance" in arrays:
        facts["converted"] = _read_provenance(path, arrays["provenance"])
    return checked_trace(
        path,
        arrays["topk_ids"],
        arrays.get("topk_weights"),
        arrays.get("seq_len"),
        arrays.get("decode"),
        facts,
    )


def save_trace(trace: Trace, path: str | Path) -> None:
    """Write a trace as npz, whole or not at all; the same trace gives the same bytes.

    Ids are stored as the smallest integer type that holds them. Name and facts are stored as JSON
    text; a trace that is read back has them under "converted" in its facts.

    Parameters
    ----------
    trace
        Routing with `topk_ids` of shape (tokens, layers, top_k).
    path
        The file to write, usually with the suffix ``.npz``.

    Raises
    ------
    InputError
        If the file cannot be written or the facts are not JSON.

    Examples
    --------
    >>> import moeopt, numpy as np
    >>> from moeopt.sim.traces.trace import Trace
    >>> trace = Trace("two tokens, one layer, top-2", np.array([[[0, 1]], [[1, 3]]]))
    >>> moeopt.save_trace(trace, "trace.npz")
    >>> moeopt.load_trace("trace.npz").topk_ids.tolist()
    [[[0, 1]], [[1, 3]]]
    """
    expect("trace", trace, Trace, what="a trace")
    expect("path", path, str, Path, what="a path")
    path = Path(path)
    arrays = {
        "topk_ids": smallest(trace.topk_ids),
        "topk_weights": trace.topk_weights,
        "seq_len": trace.seq_len,
        "decode": trace.decode,
        "provenance": _provenance(trace, path),
    }
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for key, array in arrays.items():
            if array is not None:
                member = zipfile.ZipInfo(f"{key}.npy", EPOCH)
                member.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(member, _npy(array))
    write_bytes(stream.getvalue(), path)


def _npy(array: NDArray[np.generic]) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.ascontiguousarray(array), allow_pickle=False)
    return stream.getvalue()


def _provenance(trace: Trace, path: Path) -> NDArray[np.uint8]:
    try:
        known = {"name": trace.name} | (trace.facts or {})
        text = json.dumps(known, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: cannot be written: facts: {error}") from None
    return np.frombuffer(text.encode(), dtype=np.uint8)


def _read_provenance(path: Path, array: NDArray[np.generic]) -> dict[str, object]:
    if array.dtype != np.uint8 or array.ndim != 1 or array.size > MAX_PROVENANCE_BYTES:
        raise InputError(f"{path}: provenance: must be bytes of a JSON text")
    try:
        known = json.loads(array.tobytes())
    except (ValueError, RecursionError):
        raise InputError(f"{path}: provenance: is not valid JSON") from None
    if not isinstance(known, dict):
        raise InputError(f"{path}: provenance: must be a JSON object")
    return known
