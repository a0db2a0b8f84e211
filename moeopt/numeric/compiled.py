"""Loops over numbers, compiled by Numba where NumPy would need one pass per step."""

import hashlib
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core.compiler_lock import global_compiler_lock

from moeopt.numeric.clock import solving_clock

try:
    from fcntl import LOCK_EX, flock
except ImportError:  # Windows, where each process compiles for itself
    flock = None  # type: ignore[assignment]

F = TypeVar("F", bound=Callable[..., Any])

DAY_S = 86_400

PACKAGE = Path(__file__).parents[1]

IMPORT = re.compile(r"^from +(\.*)([\w.]*) +import +(\([^)]*\)|.*)", re.MULTILINE)
"""An import at the top of a module: what a compiled function can refer to. Others are local."""


def compiled(function: F) -> F:
    """Compile a function of numbers and NumPy arrays at its first call.

    The machine code is kept on disk, so that only the first call ever on a machine pays for it.
    The function runs without Python's lock: other threads, and Ctrl-C, go on meanwhile. It cannot
    be stopped from outside, so let it return every 50 ms or so and call it again.

    What costs compile time: each function is optimised once more in each one that calls it, and in
    those that call that one, so that plain Python is best at the top; each array among parameters
    or local variables; NumPy's functions, `argsort` most of all.
    """
    decorate: Any = numba.njit(cache=True, nogil=True, no_cfunc_wrapper=True)  # type: ignore[call-overload]
    with _code_folder(Path(function.__code__.co_filename)) as folder:
        return cast(F, _compiled_once(_for_any_constant(decorate(function)), folder))


def _for_any_constant(dispatcher: Any) -> Any:
    """Let calls with constants, as in ``f(x, 0)``, share the code of calls with variables.

    Left alone, Numba takes 0 for a type of its own, and compiles `f` and all that `f` calls again.
    """
    compile_for = dispatcher.compile
    without_value: Any = numba.types.unliteral

    def compile_for_any(types: Any) -> Any:
        return compile_for(tuple(without_value(kind) for kind in types))

    dispatcher.compile = compile_for_any
    return dispatcher


def _compiled_once(dispatcher: Any, folder: Path | None) -> Any:
    """Let one process compile a function while others that need it wait for the result on disk.

    Numba's own lock comes first: threads of one process then never wait for each other with a file
    lock in hand. Processes cannot either, as callers are locked before what they call.
    """
    if folder is None:
        return dispatcher
    compile_now = dispatcher.compile
    name = f"{dispatcher.__module__}.{dispatcher.__qualname__}".replace("<locals>", "_")

    def compile_once(types: Any) -> Any:
        with solving_clock().standing(), global_compiler_lock, _locked(folder / f"{name}.lock"):
            return compile_now(types)

    dispatcher.compile = compile_once
    return dispatcher


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a file lock where the file system has any; without one the work is only done twice."""
    with ExitStack() as stack:
        with suppress(OSError):
            file = stack.enter_context(path.open("w"))
            if flock is not None:
                flock(file, LOCK_EX)
        yield


@contextmanager
def _code_folder(source: Path) -> Iterator[Path | None]:
    """Let Numba keep what is decorated here in a folder of this version of the sources.

    Numba looks at a function's own file only: after an edit of a function that it calls, or of a
    constant from another file, it would go on with the old code. Numba chooses the folder when it
    decorates, so that the setting can be put back for whoever else uses it.
    """
    config: Any = numba.config
    before = config.CACHE_DIR
    folder = _folder(source)
    config.CACHE_DIR = before if folder is None else str(folder)
    try:
        yield folder
    finally:
        config.CACHE_DIR = before


@cache
def _folder(source: Path) -> Path | None:
    """Return the folder, made if need be; None where it cannot be written, to leave it to Numba."""
    config: Any = numba.config
    base = Path(config.CACHE_DIR or PACKAGE / "__pycache__")
    folder = base / f"moeopt-{_stamp(source)}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        os.utime(folder)
        _forget_older(folder)
    except OSError:
        return None
    return folder


def _stamp(source: Path) -> str:
    """Return a name that changes with a source file and with any that it imports, and so on."""
    found, rest = set(), [source]
    while rest:
        path = rest.pop()
        if path not in found:
            found.add(path)
            rest += _imported(path)
    digest = hashlib.sha256(sys.version.encode())
    for path in sorted(found):
        place = path.relative_to(PACKAGE) if path.is_relative_to(PACKAGE) else path
        digest.update(str(place).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def kernels_stamp() -> str:
    """Return a name that changes with whatever the machine code of any kernel depends on."""
    uses = (path for path in PACKAGE.rglob("*.py") if b"numeric.compiled" in path.read_bytes())
    return hashlib.sha256(" ".join(map(_stamp, sorted(uses))).encode()).hexdigest()[:16]


@cache
def _imported(source: Path) -> list[Path]:
    """Return the files of this package that a file imports from at its top."""
    files = []
    for dots, module, names in IMPORT.findall(source.read_text(encoding="utf-8")):
        if dots:
            base = source.parents[len(dots) - 1].joinpath(*module.split(".") if module else ())
        elif module.startswith(f"{PACKAGE.name}."):
            base = PACKAGE.joinpath(*module.split(".")[1:])
        else:
            continue
        places = [base.with_suffix(".py"), base / "__init__.py"]
        for name in re.findall(r"\w+", names):
            places += [base / f"{name}.py", base / name / "__init__.py"]
        files += [place for place in places if place.is_file()]
    return files


def _forget_older(folder: Path) -> None:
    """Delete the code of other versions that nothing has used for a day."""
    for other in folder.parent.glob("moeopt-*"):
        if other != folder and other.stat().st_mtime < time.time() - DAY_S:
            shutil.rmtree(other, ignore_errors=True)
