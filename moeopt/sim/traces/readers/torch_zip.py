"""Files of ``torch.save`` as arrays, and pickles as plain data: nothing in them is run.

Files of ``torch.save``, read without torch and without running what is pickled in them.

Such a file is a zip archive: ``data.pkl`` describes the value, each ``data/<key>`` holds the bytes
of one tensor storage, ``byteorder`` says which way round they are. Tensors become numpy arrays.

Reading data out of a pickle without running it.

A pickle is a program. This machine knows only those of its instructions that build plain data, and
carries them out itself: no module is imported, nothing that the file names is called, no object of
a class gets made. What it does not know ends the reading.
"""

import math
import pickletools
import zipfile
from collections.abc import Callable
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

_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_LITERALS = {
    "BININT", "BININT1", "BININT2", "LONG1", "LONG4", "BINFLOAT",
    "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8",
}  # fmt: skip
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_PUTS = {"BINPUT", "LONG_BINPUT", "PUT", "MEMOIZE"}
_GETS = {"BINGET", "LONG_BINGET", "GET"}

Unpickled = Any
"""What a pickle holds: plain data, arrays, and what its calls give."""


class Name(str):
    """A module and a name in it, as text: what a pickle wants to be imported."""


class _Mark:
    """Where on the stack the items of a container begin."""


class PickleData:
    """A stack machine that carries out the data instructions of one pickle.

    Parameters
    ----------
    payload
        The pickle.
    calls
        Full name -> function that is called with the arguments found, for the few callables whose
        results are wanted.
    persistent
        Called with the identification of an object that lies outside of the pickle.
    where
        Begins every error message.
    """

    def __init__(
        self,
        payload: bytes,
        calls: dict[str, Callable[..., Unpickled]],
        persistent: Callable[[Unpickled], Unpickled],
        where: str,
    ) -> None:
        self._payload, self._where = payload, where
        self._calls, self._persistent = calls, persistent
        self._stack: list[Unpickled] = []
        self._memo: dict[int, Unpickled] = {}

    def read(self) -> Unpickled:
        """Return the value.

        Raises
        ------
        InputError
            If the pickle does anything else than building plain data, or is damaged.
        """
        if len(self._payload) > MAX_PICKLE_BYTES:
            raise self._error(f"longer than {MAX_PICKLE_BYTES // 2**20} MiB")
        try:
            for number, (opcode, argument, _) in enumerate(pickletools.genops(self._payload)):
                if number == MAX_INSTRUCTIONS:
                    raise self._error(f"more than {MAX_INSTRUCTIONS} instructions")
                if opcode.name == "STOP":
                    return self._stack.pop()
                self._do(opcode.name, argument)
        except InputError:
            raise
        except (ValueError, IndexError, KeyError, TypeError, AttributeError, OverflowError):
            pass
        raise self._error("damaged")

    def _do(self, name: str, argument: Unpickled) -> None:
        if name in _LITERALS:
            self._stack.append(argument)
        elif name in _PUTS:
            place = len(self._memo) if name == "MEMOIZE" else int(argument)
            self._memo[place] = self._stack[-1]
        elif name in _GETS:
            self._stack.append(self._memo[int(argument)])
        elif name in _CONSTANTS:
            self._stack.append(_CONSTANTS[name])
        elif name in _TUPLES:
            self._stack.append(tuple(self._popped(_TUPLES[name])))
        elif hasattr(self, f"_do_{name.lower()}"):
            getattr(self, f"_do_{name.lower()}")(argument)
        else:
            raise self._error(f"refused: instruction {name} is no plain data")

    def _do_proto(self, version: int) -> None:
        if version > 5:
            raise self._error(f"pickle protocol {version} is not known")

    def _do_frame(self, _: int) -> None:
        """Frames only group bytes."""

    def _do_empty_dict(self, _: None) -> None:
        self._stack.append({})

    def _do_empty_list(self, _: None) -> None:
        self._stack.append([])

    def _do_empty_tuple(self, _: None) -> None:
        self._stack.append(())

    def _do_mark(self, _: None) -> None:
        self._stack.append(_Mark())

    def _do_tuple(self, _: None) -> None:
        self._stack.append(tuple(self._since_mark()))

    def _do_append(self, _: None) -> None:
        (item,) = self._popped(1)
        self._top(list).append(item)

    def _do_appends(self, _: None) -> None:
        items = self._since_mark()
        self._top(list).extend(items)

    def _do_setitem(self, _: None) -> None:
        self._set(self._popped(2))

    def _do_setitems(self, _: None) -> None:
        self._set(self._since_mark())

    def _do_global(self, argument: str) -> None:
        self._stack.append(Name(argument.replace(" ", ".", 1)))

    def _do_stack_global(self, _: None) -> None:
        module, name = self._popped(2)
        if type(module) is not str or type(name) is not str:
            raise self._error("damaged")
        self._stack.append(Name(f"{module}.{name}"))

    def _do_reduce(self, _: None) -> None:
        function, arguments = self._popped(2)
        if not isinstance(function, Name) or function not in self._calls:
            named = shown(str(function)) if isinstance(function, Name) else "something unnamed"
            raise self._error(f"refused: it wants to call {named}")
        if not isinstance(arguments, tuple):
            raise self._error("damaged")
        self._stack.append(self._calls[function](*arguments))

    def _do_binpersid(self, _: None) -> None:
        (identification,) = self._popped(1)
        self._stack.append(self._persistent(identification))

    def _set(self, items: list[Unpickled]) -> None:
        target = self._top(dict)
        for key, value in zip(items[::2], items[1::2], strict=True):
            if type(key) not in (str, int):
                raise self._error("refused: a key is neither text nor an integer")
            target[key] = value

    def _top(self, kind: type) -> Unpickled:
        if type(self._stack[-1]) is not kind:
            raise self._error("damaged")
        return self._stack[-1]

    def _popped(self, count: int) -> list[Unpickled]:
        if len(self._stack) < count:
            raise self._error("damaged")
        items = self._stack[-count:]
        del self._stack[-count:]
        if any(isinstance(item, _Mark) for item in items):
            raise self._error("damaged")
        return items

    def _since_mark(self) -> list[Unpickled]:
        start = next(
            place
            for place in range(len(self._stack) - 1, -2, -1)
            if place < 0 or isinstance(self._stack[place], _Mark)
        )
        if start < 0:
            raise self._error("damaged")
        items = self._stack[start + 1 :]
        del self._stack[start:]
        return items

    def _error(self, reason: str) -> InputError:
        return InputError(f"{self._where}: {reason}")


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
            return _TorchZip(path, archive).read()
    except InputError:
        raise
    except zipfile.BadZipFile as error:
        raise InputError(f"{path}: not a zip file of torch.save: {shortened(str(error))}") from None
    except Exception as error:  # zipfile raises many kinds on hostile bytes
        raise InputError(f"{path}: not usable: {type(error).__name__}") from None


class _TorchZip:
    """One archive, its members by their name without the folder that torch puts them into."""

    def __init__(self, path: Path, archive: zipfile.ZipFile) -> None:
        self._path, self._archive = path, archive
        self._members = {m.filename.partition("/")[2]: m for m in archive.infolist()}
        self._storages: dict[str, NDArray[np.generic]] = {}
        self._copied = total = 0
        for member in archive.infolist():
            if member.compress_type != zipfile.ZIP_STORED:
                raise self._error(
                    f"{shown(member.filename)}: is compressed, which torch never does"
                )
            total += member.file_size
        if total > MAX_STORAGE_BYTES:
            raise self._error(f"declares more than {MAX_STORAGE_BYTES // 2**20} MiB")

    def read(self) -> Unpickled:
        """Return the value."""
        calls: dict[str, Callable[..., Unpickled]] = {
            "collections.OrderedDict": self._ordered_dict,
            "torch._utils._rebuild_tensor_v2": self._tensor,
        }
        order = self._bytes("byteorder", 16) if "byteorder" in self._members else b"little"
        if order not in (b"little", b"big"):
            raise self._error("byteorder: must be little or big")
        self._order: Literal["<", ">"] = "<" if order == b"little" else ">"
        where = f"{self._path}: data.pkl"
        payload = self._bytes("data.pkl", MAX_PICKLE_BYTES)
        return PickleData(payload, calls, self._storage, where).read()

    def _ordered_dict(self, *arguments: Unpickled) -> dict[Unpickled, Unpickled]:
        if arguments:
            raise self._error("data.pkl: refused: an ordered dict made of something")
        return {}

    def _storage(self, identification: Unpickled) -> tuple[NDArray[np.generic], str]:
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
            raise self._error(f"data.pkl: a tensor of shape {_shape(size)} is larger than its data")
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


def _shape(size: tuple[int, ...]) -> str:
    return shown(" x ".join(map(str, size[:6])))
