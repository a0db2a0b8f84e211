"""Loops over numbers, compiled by Numba where NumPy would need one pass per step."""

import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

import moeopt

F = TypeVar("F", bound=Callable[..., Any])

DAY_S = 86_400


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
    with _code_folder():
        return cast(F, _for_any_constant(decorate(function)))


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


@contextmanager
def _code_folder() -> Iterator[None]:
    """Let Numba keep what is decorated here in a folder of this version of the sources.

    Numba looks at a function's own file only: after an edit of a function that it calls it would
    go on with the old code. Numba chooses the folder when it decorates, so that the setting can be
    put back for whoever else uses it.
    """
    config: Any = numba.config
    before = config.CACHE_DIR
    config.CACHE_DIR = _folder() or before
    try:
        yield
    finally:
        config.CACHE_DIR = before


@cache
def _folder() -> str | None:
    """Return the folder, made if need be; None where it cannot be written, to leave it to Numba."""
    package = Path(moeopt.__file__).parent
    config: Any = numba.config
    base = Path(config.CACHE_DIR or package / "__pycache__")
    folder = base / f"moeopt-{_stamp(package)}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        os.utime(folder)
        _forget_older(folder)
    except OSError:
        return None
    return str(folder)


def _stamp(package: Path) -> str:
    """Return a name that changes with any source file that has compiled functions."""
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        source = path.read_bytes()
        if b"numeric.compiled" in source:
            digest.update(str(path.relative_to(package)).encode() + b"\0" + source)
    return digest.hexdigest()[:16]


def _forget_older(folder: Path) -> None:
    """Delete the code of other versions that nothing has used for a day."""
    for other in folder.parent.glob("moeopt-*"):
        if other != folder and other.stat().st_mtime < time.time() - DAY_S:
            shutil.rmtree(other, ignore_errors=True)
