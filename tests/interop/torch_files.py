"""Writing files as ``torch.save`` does, without torch, so that tests can make bad ones."""

import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

STORAGES = {"i4": "IntStorage", "i8": "LongStorage", "f4": "FloatStorage"}


class Raw(bytes):
    """Pickle instructions that stand for themselves."""


def text(value: str) -> bytes:
    content = value.encode()
    return b"X" + struct.pack("<I", len(content)) + content


def tensor(
    key: str,
    count: Any,
    size: tuple[Any, ...],
    stride: tuple[Any, ...],
    offset: Any = 0,
    storage: str = "torch\nIntStorage\n",
) -> Raw:
    """Return the instructions that rebuild a tensor from a storage."""
    outside = (
        b"(" + text("storage") + b"c" + storage.encode() + text(key) + text("cpu") + pickled(count)
    )
    arguments = pickled(offset) + pickled(size) + pickled(stride) + b"\x89" + ORDERED_DICT
    return Raw(b"ctorch._utils\n_rebuild_tensor_v2\n(" + outside + b"tQ" + arguments + b"tR")


ORDERED_DICT = Raw(b"ccollections\nOrderedDict\n)R")


def pickled(value: Any, arrays: list[NDArray[Any]] | None = None) -> bytes:
    """Return the instructions for plain values; arrays are put down as storages."""
    if isinstance(value, Raw):
        return bytes(value)
    if value is None or isinstance(value, bool):
        return {None: b"N", True: b"\x88", False: b"\x89"}[value]
    if isinstance(value, int):
        content = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
        return b"\x8b" + struct.pack("<I", len(content)) + content
    if isinstance(value, str):
        return text(value)
    if isinstance(value, np.ndarray):
        arrays.append(value)
        strides = tuple(step // value.itemsize for step in value.strides)
        name = STORAGES[value.dtype.str[1:]]
        key = str(len(arrays) - 1)
        return tensor(key, value.size, value.shape, strides, storage=f"torch\n{name}\n")
    if isinstance(value, dict):
        items = b"".join(pickled(k, arrays) + pickled(v, arrays) for k, v in value.items())
        return b"}(" + items + b"u"
    inside = b"".join(pickled(item, arrays) for item in value)
    return b"(" + inside + b"t" if isinstance(value, tuple) else b"](" + inside + b"e"


def saved(path: Path, value: Any, **members: bytes) -> Path:
    """Write a value as torch would."""
    arrays: list[NDArray[Any]] = []
    program = b"\x80\x02" + pickled(value, arrays) + b"."
    storages = {f"data/{key}": array.tobytes() for key, array in enumerate(arrays)}
    return zipped(path, {"data.pkl": program, "byteorder": b"little"} | storages | members)


def zipped(path: Path, members: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> Path:
    """Write members into an archive, below the folder that torch puts them into."""
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(f"{path.stem}/{name}", content)
    return path
