"""Tensors from safetensors files: eight bytes of length, a JSON header, then raw data.

Nothing is executed. The header is bounded, and every tensor must lie within the file and be as long
as its shape says. Only the tensors that are asked for are read.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.core.errors import InputError
from moeopt.core.untrusted import reading
from moeopt.core.wording import shown
from moeopt.sim.traces.readers.json_values import parse
from moeopt.sim.traces.readers.npy import MAX_ARRAY_BYTES

MAX_HEADER_BYTES = 64 * 2**20

MAX_AXES = 8

TYPES: dict[str, str] = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}
"""Types that are read, with how they are stored; BF16 is the upper half of an F32."""


def tensor_names(path: str | Path) -> list[str]:
    """Return the names of the tensors in a file, in the order of its header.

    Raises
    ------
    InputError
        If the file cannot be read or its header is none.
    """
    return list(_header(Path(path))[0])


def read_tensors(path: str | Path, names: Sequence[str]) -> dict[str, NDArray[np.generic]]:
    """Return some tensors of a file as arrays of floats, BF16 as 32 bits.

    Raises
    ------
    InputError
        If a tensor is not there, not of floats or not where the header says, or all of them
        together are more than 2 GiB.
    """
    path = Path(path)
    header, begin, size = _header(path)
    found: dict[str, NDArray[np.generic]] = {}
    total = 0
    with reading(path), path.open("rb") as stream:
        for name in names:
            if name not in header:
                raise InputError(f"{path}: {shown(name)}: is not there")
            kind, shape, first, last = _entry(f"{path}: {shown(name)}", header[name], size - begin)
            total += last - first
            if total > MAX_ARRAY_BYTES:
                limit = MAX_ARRAY_BYTES // 2**30
                raise InputError(f"{path}: {shown(name)}: more than {limit} GiB in all")
            stream.seek(begin + first)
            payload = stream.read(last - first)
            if len(payload) < last - first:
                raise InputError(f"{path}: {shown(name)}: the file ends within it")
            array = np.frombuffer(payload, dtype=TYPES[kind]).reshape(shape)
            if kind == "BF16":
                array = (array.astype(np.uint32) << 16).view(np.float32)
            found[name] = array
    return found


def _header(path: Path) -> tuple[dict[str, Any], int, int]:
    """Return the header's tensors, where the data begins, and the size of the file."""
    with reading(path), path.open("rb") as stream:
        size = path.stat().st_size
        length = int.from_bytes(stream.read(8), "little")
        if size < 8 or length > min(MAX_HEADER_BYTES, size - 8):
            raise InputError(f"{path}: not a safetensors file: a header of {length} bytes")
        try:
            text = stream.read(length).decode()
        except UnicodeDecodeError:
            raise InputError(f"{path}: not a safetensors file: the header is no text") from None
    header = parse(text, f"{path}: header")
    if not isinstance(header, dict):
        raise InputError(f"{path}: header: must be an object")
    header.pop("__metadata__", None)
    return header, 8 + length, size


def _entry(where: str, entry: Any, held: int) -> tuple[str, tuple[int, ...], int, int]:
    """Return type, shape and place of a tensor, checked against each other and the file."""
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise InputError(f"{where}: must have dtype, shape and data_offsets")
    kind, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(kind, str) or kind not in TYPES:
        raise InputError(f"{where}: dtype: must be one of {', '.join(TYPES)}, not {shown(kind)}")
    for name, numbers in (("shape", shape), ("data_offsets", offsets)):
        if not isinstance(numbers, list) or not all(
            type(number) is int and 0 <= number < 2**48 for number in numbers
        ):
            raise InputError(f"{where}: {name}: must be whole numbers")
    if len(shape) > MAX_AXES:
        raise InputError(f"{where}: shape: has more than {MAX_AXES} axes")
    needed = math.prod(shape) * np.dtype(TYPES[kind]).itemsize
    if len(offsets) != 2 or offsets[1] - offsets[0] != needed or offsets[1] > held:
        raise InputError(f"{where}: data_offsets: do not fit {needed} bytes within {held}")
    return kind, tuple(shape), offsets[0], offsets[1]
