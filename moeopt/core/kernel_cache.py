"""Where compiled kernels are kept: by what their code depends on, and by nothing else.

Numba's own cache goes by the file that a function stands in: an edit of a function that it calls
goes unnoticed, and one of any other function there, or a new installation, has it compiled anew.
Here a kernel's place on the disk is named by a fingerprint of its own bytecode, of the kernels it
calls and of the constants they use. So it survives whatever does not change its code: edits of
comments and of other functions, a new installation, another checkout.
"""

import hashlib
import inspect
import os
import pickle
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from enum import Enum
from functools import cache, cached_property
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numba

caching: Any = import_module("numba.core.caching")  # untyped
appdirs: Any = import_module("numba.misc.appdirs")

PACKAGE = Path(__file__).parents[1]

KEPT = 4
"""Versions of a kernel that are kept: of several checkouts, say, or branches."""

VERSIONS = [sys.version, *(f"{name} {version(name)}" for name in ("numba", "llvmlite", "numpy"))]


def kernel_folders() -> list[Path]:
    """Return where kernels are looked for, best first; new ones go to the first that is writable.

    That is ``$MOEOPT_CACHE_DIR`` (or ``$NUMBA_CACHE_DIR``) and nothing else where it is given and
    can be written to; otherwise the user's cache folder and, for users without one, the package's.
    """
    config: Any = numba.config
    given = os.environ.get("MOEOPT_CACHE_DIR") or config.CACHE_DIR
    usual = Path(appdirs.AppDirs("moeopt", appauthor=False).user_cache_dir)
    return _made(given, usual, PACKAGE / "__pycache__")


@cache
def _made(given: str, usual: Path, last: Path) -> list[Path]:
    folders: list[Path] = []
    for base in (*([Path(given)] if given else []), usual, last):
        folder = base / "kernels"
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            return [*folders, folder]
        if folder.is_dir():
            folders.append(folder)
    return folders


def writable_folder() -> Path | None:
    """Return where new kernels go; None if they cannot be kept anywhere."""
    folders = kernel_folders()
    return folders[-1] if folders and os.access(folders[-1], os.W_OK) else None


class KernelCache(caching._Cache):  # type: ignore[misc]
    """The cache of one function, as Numba's dispatcher wants it.

    What it depends on is looked at when it is first used: only then are all functions defined.
    """

    def __init__(self, function: FunctionType) -> None:
        self._function = function
        self._found: list[_InFolder] | None = None

    @property
    def cache_path(self) -> str | None:
        """The folder that new code goes to; None if there is none."""
        folder = writable_folder()
        return None if folder is None else str(folder)

    @cached_property
    def name(self) -> str:
        """What its files are called, without an ending."""
        function = self._function
        name = f"{function.__module__}.{function.__qualname__}".replace("<locals>", "_")
        return f"{name}-{fingerprint(function)}"

    def _caches(self) -> "list[_InFolder]":
        if self._found is None:
            self._found = [_InFolder(self._function, f, self.name) for f in kernel_folders()]
        return self._found

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the code for some types of arguments; None if there is none, or it is broken."""
        for found in self._caches():
            with suppress(OSError, EOFError, pickle.UnpicklingError):
                code = found.load_overload(sig, target_context)
                if code is not None:
                    return code
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep new code, and forget what has not been used for longest; a full disk keeps none."""
        folder = writable_folder()
        if folder is None:
            return
        with suppress(OSError):
            self._caches()[-1].save_overload(sig, data)
            forget_older(folder, self.name)

    def enable(self) -> None:
        """Do nothing: it is always in use."""

    disable = flush = enable


class _Place(caching._CacheLocator):  # type: ignore[misc]
    """Tells Numba a folder, and that a file's name says all about what its code depends on."""

    def __init__(self, function: FunctionType, folder: Path, name: str) -> None:
        self.folder, self.name = folder, name
        self._py_file = function.__code__.co_filename

    def get_cache_path(self) -> str:
        return str(self.folder)

    def get_source_stamp(self) -> str:
        return self.name

    def get_disambiguator(self) -> str:
        return ""


class _Files(caching.CompileResultCacheImpl):  # type: ignore[misc]
    def __init__(self, function: FunctionType, folder: Path, name: str) -> None:
        self._lineno = function.__code__.co_firstlineno
        self._locator = _Place(function, folder, name)
        self._filename_base = f"{name}.{sys.implementation.cache_tag}"


class _InFolder(caching.FunctionCache):  # type: ignore[misc]
    """Numba's cache of a function, in a folder of ours and under a name of ours."""

    def __init__(self, function: FunctionType, folder: Path, name: str) -> None:
        self._impl_class = lambda of: _Files(of, folder, name)
        super().__init__(function)
        self._index = folder / f"{self._impl.filename_base}.nbi"

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        code = super().load_overload(sig, target_context)
        if code is not None:
            with suppress(OSError):
                os.utime(self._index)  # it is in use
        return code

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        """Return what tells versions of one function apart: types, with their fields, and CPU."""
        return sig, codegen.magic_tuple(), tuple(_fields(sig))


def _fields(kind: Any) -> Iterator[tuple[str, ...]]:
    """Yield the names of fields of named tuples among types: code knows fields by position."""
    for part in kind if isinstance(kind, tuple) else getattr(kind, "types", ()):
        yield from _fields(part)
    if hasattr(kind, "fields"):
        yield tuple(kind.fields)


def forget_older(folder: Path, name: str) -> None:
    """Delete the versions of a kernel that have not been used for longest, all but `KEPT`."""
    kernel, _, _ = name.rpartition("-")
    indexes = list(folder.glob(f"{kernel}-*.nbi"))
    for index in sorted(indexes, key=lambda path: path.stat().st_mtime, reverse=True)[KEPT:]:
        stem = index.name.removesuffix(".nbi")
        for file in [index, *folder.glob(f"{stem}.*.nbc")]:
            file.unlink(missing_ok=True)
        for mark in folder.glob(f"{WARM}*"):  # no longer all is there
            mark.unlink(missing_ok=True)


WARM = "warm-"
"""What files begin with that say for which sources all kernels have been compiled."""


def fingerprint(function: FunctionType) -> str:
    """Return a name that changes with whatever a function's machine code depends on.

    Those are its bytecode and that of all kernels it calls, however deep, and the values of the
    constants that they name: numbers, arrays, enumerations, fields of named tuples. Of anything
    else of this package the whole file counts. Docstrings, comments and line numbers do not.
    """
    digest = hashlib.sha256("\n".join(VERSIONS).encode())
    done: set[Any] = set()
    rest = [function]
    while rest:
        one = rest.pop()
        if one in done:
            continue
        done.add(one)
        digest.update(f"{one.__module__}.{one.__qualname__}".encode())
        for text, called in _dependencies(one):
            digest.update(b"\0" + text.encode())
            rest += called
    return digest.hexdigest()[:16]


def _dependencies(function: FunctionType) -> Iterator[tuple[str, list[FunctionType]]]:
    code = function.__code__
    yield _bytecode(code, function.__doc__), []
    names = sorted(_names(code))
    for name in names:
        if name in function.__globals__:
            yield _described(name, function.__globals__[name], names)
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        yield _described(name, cell.cell_contents, names)
    for name, kind in inspect.get_annotations(function).items():
        if isinstance(kind, type):
            yield _described(name, kind, names)
    yield repr(function.__defaults__), []


def _bytecode(code: CodeType, doc: str | None = None) -> str:
    """Return all of a code object that says what it does."""
    constants = [None if doc is not None and one == doc else one for one in code.co_consts]
    own = [_bytecode(one) if isinstance(one, CodeType) else repr(one) for one in constants]
    names = code.co_names, code.co_varnames, code.co_freevars, code.co_argcount
    return repr((code.co_code, own, names))


def _names(code: CodeType) -> set[str]:
    inner = [_names(one) for one in code.co_consts if isinstance(one, CodeType)]
    return set(code.co_names).union(*inner)


def _described(name: str, value: Any, names: list[str]) -> tuple[str, list[FunctionType]]:
    """Return what a name stands for, and the kernels among it."""
    if hasattr(value, "py_func"):
        return f"{name}: a kernel", [value.py_func]
    if isinstance(value, ModuleType):
        if not _ours(value.__name__):
            return f"{name}: {value.__name__}", []
        found = [_described(n, getattr(value, n), names) for n in names if hasattr(value, n)]
        return f"{name}: {[text for text, _ in found]}", [one for _, of in found for one in of]
    if isinstance(value, Enum):
        return f"{name}: {value!r}", []
    if isinstance(value, type) and issubclass(value, Enum):
        return f"{name}: {list(value)}", []
    if isinstance(value, type) and hasattr(value, "_fields"):
        fields = inspect.get_annotations(value)
        inner = [_described(n, of, names)[0] for n, of in fields.items() if isinstance(of, type)]
        return f"{name}: {value._fields} {inner}", []
    module: str = getattr(value, "__module__", None) or ""
    if _ours(module) and (source := inspect.getsourcefile(sys.modules[module])):
        return f"{name}: {hashlib.sha256(Path(source).read_bytes()).hexdigest()}", []
    if isinstance(value, type | FunctionType) or callable(value):
        return f"{name}: {module}.{getattr(value, '__qualname__', value)}", []
    text = value.tobytes().hex() if hasattr(value, "tobytes") else repr(value)
    return f"{name}: {type(value).__name__} {re.sub(r'0x[0-9a-f]+', '', text)}", []


def _ours(module: str) -> bool:
    return module.partition(".")[0] == PACKAGE.name
