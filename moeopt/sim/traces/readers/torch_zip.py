"""Files of ``torch.save`` as arrays, without torch; pickles as plain data: nothing in them is run.

Such a file is a zip archive: ``data.pkl`` describes the value, each ``data/<key>`` holds the bytes
of one tensor storage, ``byteorder`` says which way round they are. Tensors become numpy arrays.

A pickle is a program. Its instructions are looked through first, and only those that build plain
data are let to `pickle.Unpickler`, which imports nothing here: of the names in a file two stand for
functions of this module, all others for themselves, as text.
"""

import math
import pickle
import zipfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from moeopt.core.errors import InputError
from moeopt.core.untrusted import FREE_BYTES, reading
from moeopt.core.wording import shortened, shown
from moeopt.sim.traces.readers.checked import check_size

MAX_PICKLE_BYTES = 64 * 2**20
"""Longest pickle that is read."""

MAX_INSTRUCTIONS = 2**23
"""Most instructions that are carried out, so that time and memory stay bounded."""

INSTRUCTIONS = {
    *("PROTO", "FRAME", "STOP", "NONE", "NEWTRUE", "NEWFALSE", "BININT", "BININT1", "BININT2"),
    *("LONG1", "LONG4", "BINFLOAT", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
    *("EMPTY_DICT", "EMPTY_LIST", "EMPTY_TUPLE", "MARK", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3"),
    *("APPEND", "APPENDS", "SETITEM", "SETITEMS", "BINPUT", "LONG_BINPUT", "PUT", "MEMOIZE"),
    *("BINGET", "LONG_BINGET", "GET", "GLOBAL", "STACK_GLOBAL", "REDUCE", "BINPERSID"),
}
"""Those that build plain data, name something, call what they named, or refer to a storage."""

PUTS = ("BINPUT", "LONG_BINPUT", "PUT")
"""Those that keep something under a number; no file needs more numbers than instructions."""

Unpickled = Any
"""What a pickle holds: plain data, arrays, and what its calls give."""


class Name(str):
    """A module and a name in it, as text: what a pickle wants to be imported."""

    where = ""

    def __call__(self, *_: Unpickled) -> Unpickled:
        """Refuse to be called."""
        raise InputError(f"{self.where}: refused: it wants to call {shown(str(self))}")


MAX_STORAGE_BYTES = 2 * 2**30
"""Most bytes of all tensors of a file together."""

_KINDS = {
    "torch.DoubleStorage": "f8", "torch.FloatStorage": "f4", "torch.HalfStorage": "f2",
    "torch.BFloat16Storage": "u2", "torch.LongStorage": "i8", "torch.IntStorage": "i4",
    "torch.ShortStorage": "i2", "torch.CharStorage": "i1", "torch.ByteStorage": "u1",
    "torch.BoolStorage": "?",
}  # fmt: skip


def read_torch(path: Path) -> Unpickled:
    """Return the value of a file: dicts, lists, tuples, numbers, texts, and numpy arrays.

    Raises
    ------
    InputError
        If the file is none of torch's zip files, contains anything that is not plain data, or is
        larger than the limits.
    """
    check_size(path)
    try:
        with reading(path), zipfile.ZipFile(path) as archive:
            return _TorchZip(path, archive).value()
    except InputError:
        raise
    except zipfile.BadZipFile as error:
        raise InputError(f"{path}: not a zip file of torch.save: {shortened(str(error))}") from None
    except Exception as error:  # zipfile raises many kinds on hostile bytes
        raise InputError(f"{path}: not usable: {type(error).__name__}") from None


class _TorchZip(pickle.Unpickler):
    """One archive, its members by their name without the folder that torch puts them into."""

    def __init__(self, path: Path, archive: zipfile.ZipFile) -> None:
        self._path, self._archive = path, archive
        self._members = {m.filename.partition("/")[2]: m for m in archive.infolist()}
        self._storages: dict[str, NDArray[np.generic]] = {}
        self._copied = total = 0
        for member in archive.infolist():
            if member.compress_type != zipfile.ZIP_STORED:
                reason = "is compressed, which torch never does"
                raise self._error(f"{shown(member.filename)}: {reason}")
            total += member.file_size
        if total > MAX_STORAGE_BYTES:
            raise self._error(f"declares more than {MAX_STORAGE_BYTES // 2**20} MiB")
        order = self._bytes("byteorder", 16) if "byteorder" in self._members else b"little"
        if order not in (b"little", b"big"):
            raise self._error("byteorder: must be little or big")
        self._order: Literal["<", ">"] = "<" if order == b"little" else ">"
        self._payload = self._bytes("data.pkl", MAX_PICKLE_BYTES)
        super().__init__(BytesIO(self._payload))

    def value(self) -> Unpickled:
        """Return the value, if the pickle does nothing else than building plain data."""
        import pickletools  # takes longer than all other readers together

        try:
            for number, (opcode, argument, _) in enumerate(pickletools.genops(self._payload)):
                if number == MAX_INSTRUCTIONS:
                    raise self._error(f"data.pkl: more than {MAX_INSTRUCTIONS} instructions")
                if opcode.name not in INSTRUCTIONS:
                    reason = f"instruction {opcode.name} is no plain data"
                    raise self._error(f"data.pkl: refused: {reason}")
                if opcode.name in PUTS and int(str(argument)) > number:
                    break  # there would be room for so many
            else:
                return self.load()
        except (pickle.UnpicklingError, EOFError, MemoryError, RecursionError):
            pass
        except (ValueError, IndexError, KeyError, TypeError, AttributeError, OverflowError):
            pass
        raise self._error("data.pkl: damaged")

    def find_class(self, module: str, name: str) -> Unpickled:
        """Return what stands for a name: nothing is imported."""
        full = Name(f"{module}.{name}")
        full.where = f"{self._path}: data.pkl"
        calls: dict[str, Callable[..., Unpickled]] = {
            "collections.OrderedDict": self._ordered_dict,
            "torch._utils._rebuild_tensor_v2": self._tensor,
        }
        return calls.get(full, full)

    def _ordered_dict(self, *arguments: Unpickled) -> dict[Unpickled, Unpickled]:
        if arguments:
            raise self._error("data.pkl: refused: an ordered dict made of something")
        return {}

    def persistent_load(self, identification: Unpickled) -> tuple[NDArray[np.generic], str]:
        """Return the numbers of a storage, and what kind of numbers torch calls them."""
        if not (isinstance(identification, tuple) and len(identification) == 5):
            raise self._error("data.pkl: refused: an unknown kind of object outside")
        tag, kind, key, _, count = identification
        if tag != "storage" or not isinstance(kind, Name) or type(key) is not str:
            raise self._error("data.pkl: refused: an unknown kind of object outside")
        if kind not in _KINDS:
            raise self._error(f"data.pkl: tensors of {shown(str(kind))} are not known")
        dtype = np.dtype(_KINDS[kind]).newbyteorder(self._order)
        if key not in self._storages:
            payload = self._bytes(f"data/{key}", MAX_STORAGE_BYTES)
            self._storages[key] = np.frombuffer(payload, dtype=np.uint8)
        held = self._storages[key]
        if type(count) is not int or count < 0 or count * dtype.itemsize != held.size:
            raise self._error(f"data/{key}: holds {held.size} bytes, not {shown(count)} numbers")
        return held.view(dtype), kind

    def _tensor(
        self,
        storage: Unpickled,
        offset: Unpickled,
        size: Unpickled,
        stride: Unpickled,
        *_: Unpickled,
    ) -> NDArray[np.generic]:
        """Return a tensor as an array of its own, if it lies within its storage."""
        numbers, kind = storage
        lists = [size, stride]
        if type(offset) is not int or not all(_plain(x) for x in lists) or len(size) != len(stride):
            raise self._error("data.pkl: a tensor has no usable shape")
        steps = sum((length - 1) * step for length, step in zip(size, stride, strict=True))
        empty = 0 in size
        if not empty and (math.prod(size) > numbers.size or offset + steps >= numbers.size):
            shape = shown(" x ".join(map(str, size[:6])))
            raise self._error(f"data.pkl: a tensor of shape {shape} is larger than its data")
        if len(size) > 16 or offset < 0:
            raise self._error("data.pkl: a tensor has no usable shape")
        if empty:
            array = np.empty(size if max(size) < 2**32 else (0,), dtype=numbers.dtype)
        else:
            width = numbers.itemsize
            strides = [step * width for step in stride]
            self._copied += math.prod(size) * width
            if self._copied > max(FREE_BYTES, 4 * self._path.stat().st_size):
                raise self._error("data.pkl: tensors share a storage too often")
            array = np.lib.stride_tricks.as_strided(numbers[offset:], size, strides).copy()
        if kind == "torch.BFloat16Storage":
            return (array.astype(np.uint32) << 16).view(np.float32)
        return array.astype(array.dtype.newbyteorder("="))

    def _bytes(self, name: str, limit: int) -> bytes:
        if name not in self._members:
            raise self._error(f"{shown(name)}: is missing")
        member = self._members[name]
        if member.file_size > limit:
            raise self._error(f"{shown(name)}: declares {member.file_size} bytes")
        return self._archive.read(member)

    def _error(self, reason: str) -> InputError:
        return InputError(f"{self._path}: {reason}")


def _plain(numbers: Unpickled) -> bool:
    return isinstance(numbers, tuple) and all(type(n) is int and 0 <= n < 2**62 for n in numbers)
