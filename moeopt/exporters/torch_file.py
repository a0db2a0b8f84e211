"""Files that ``torch.load(weights_only=True)`` reads, written without torch.

The counterpart of `moeopt.sim.traces.readers.torch_zip`: a zip archive without compression, in it
the pickle ``data.pkl`` and the bytes of each tensor. The pickle is put together from a handful of
instructions, which build a dict of tensors and nothing else.
"""

import io
import math
import struct
import zipfile
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

_START, _STOP = b"\x80\x02", b"."
_DICT, _MARK, _SET_ITEMS = b"}", b"(", b"u"
_TUPLE, _EMPTY_TUPLE, _FALSE, _CALL, _OUTSIDE = b"t", b")", b"\x89", b"R", b"Q"
_REBUILD = b"ctorch._utils\n_rebuild_tensor_v2\n"
_STORAGE = b"ctorch\nIntStorage\n"
_ORDERED_DICT = b"ccollections\nOrderedDict\n" + _EMPTY_TUPLE + _CALL
_FIRST_DAY = (1980, 1, 1, 0, 0, 0)
"""The earliest date of a zip file: the same content gives the same bytes."""


def torch_file(tensors: Mapping[str, NDArray[np.int32]], folder: str = "archive") -> bytes:
    """Return the content of a file that holds a dict of tensors.

    Parameters
    ----------
    tensors
        Name -> integers of 32 bits, of any shape.
    folder
        Of the members in the archive; torch names it after the file, and reads any.
    """
    items = [
        _text(name) + _tensor(str(key), array) for key, (name, array) in enumerate(tensors.items())
    ]
    program = _START + _DICT + _MARK + b"".join(items) + _SET_ITEMS + _STOP
    members = {"data.pkl": program, "byteorder": b"little"}
    for key, array in enumerate(tensors.values()):
        members[f"data/{key}"] = np.ascontiguousarray(array).astype("<i4").tobytes()
    members["version"] = b"3\n"
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(f"{folder}/{name}", _FIRST_DAY), content)
    return stream.getvalue()


def _tensor(key: str, array: NDArray[np.int32]) -> bytes:
    """Return the instructions that rebuild a tensor of contiguous numbers from a storage."""
    strides = [math.prod(array.shape[axis + 1 :]) for axis in range(array.ndim)]
    place = _MARK + _text("storage") + _STORAGE + _text(key) + _text("cpu") + _number(array.size)
    arguments = _number(0) + _numbers(array.shape) + _numbers(strides) + _FALSE + _ORDERED_DICT
    return _REBUILD + _MARK + place + _TUPLE + _OUTSIDE + arguments + _TUPLE + _CALL


def _text(value: str) -> bytes:
    content = value.encode()
    return b"X" + struct.pack("<I", len(content)) + content


def _number(value: int) -> bytes:
    return b"J" + struct.pack("<i", value)


def _numbers(values: tuple[int, ...] | list[int]) -> bytes:
    return _MARK + b"".join(map(_number, values)) + _TUPLE
