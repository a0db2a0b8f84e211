"""GGUF files, written by their description: a small writer of the format's version 3."""

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

F32, F16, Q8_0, Q4_K, Q6_K, MXFP4 = 0, 1, 8, 12, 14, 39

BLOCKS = {F32: (1, 4), F16: (1, 2), Q8_0: (32, 34), Q4_K: (256, 144), Q6_K: (256, 210)}
BLOCKS[MXFP4] = (32, 17)

Tensors = Mapping[str, tuple[Sequence[int], int]]
"""Name -> shape, the fastest axis first, and type."""


def text(value: str | bytes) -> bytes:
    """Return a string with its length before it."""
    raw = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(raw)) + raw


def value(item: Any) -> bytes:
    """Return a value with its type before it."""
    if isinstance(item, bytes):  # as it is, type and all
        return item
    if isinstance(item, str):
        return struct.pack("<I", 8) + text(item)
    if isinstance(item, bool):
        return struct.pack("<I?", 7, item)
    if isinstance(item, float):
        return struct.pack("<If", 6, item)
    if isinstance(item, int):
        return struct.pack("<II", 4, item)
    if all(isinstance(entry, str) for entry in item):
        return struct.pack("<IIQ", 9, 8, len(item)) + b"".join(text(entry) for entry in item)
    return struct.pack("<IIQ", 9, 5, len(item)) + struct.pack(f"<{len(item)}i", *item)


def size_of(shape: Sequence[int], kind: int) -> int:
    """Return the bytes of a tensor."""
    weights, size = BLOCKS[kind]
    return int(np.prod(shape, dtype=object)) // weights * size


def header(metadata: Mapping[str, Any], tensors: Tensors) -> bytes:
    """Return everything before the data, padded to 32 bytes."""
    raw = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    raw += b"".join(text(key) + value(item) for key, item in metadata.items())
    offset = 0
    for name, (shape, kind) in tensors.items():
        raw += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset)
        offset += -(-size_of(shape, kind) // 32) * 32
    return raw + b"\0" * (-len(raw) % 32)


def write_gguf(
    path: Path,
    metadata: Mapping[str, Any],
    tensors: Tensors,
    data: Mapping[str, np.ndarray[Any, Any]] | None = None,
) -> Path:
    """Write a file whose data are zeros (a hole on the disk) but for those that are given."""
    raw = header(metadata, tensors)
    with path.open("wb") as stream:
        stream.write(raw)
        offset = len(raw)
        for name, (shape, kind) in tensors.items():
            if data and name in data:
                stream.seek(offset)
                stream.write(data[name].astype("<f4").tobytes())
            offset += -(-size_of(shape, kind) // 32) * 32
        stream.truncate(offset)
    return path
