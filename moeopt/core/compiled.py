"""Loops over numbers, compiled by Numba where NumPy would need one pass per step."""

import gc
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core.compiler_lock import global_compiler_lock

from moeopt.core.clock import solving_clock
from moeopt.core.kernel_cache import KernelCache, writable_folder

try:
    from fcntl import LOCK_EX, flock
except ImportError:  # Windows, where each process compiles for itself
    flock = None  # type: ignore[assignment]

F = TypeVar("F", bound=Callable[..., Any])

KERNELS: list[Any] = []
"""All compiled functions of the modules that are imported, in the order of their definition."""


def compiled(function: F) -> F:
    """Compile a function of numbers and NumPy arrays at its first call.

    The machine code is kept on disk (`kernel_cache`), so that only the first call ever on a machine
    pays for it; no time limit does (`clock`). The function runs without Python's lock: other
    threads, and Ctrl-C, go on meanwhile. It cannot be stopped from outside, so let it return every
    50 ms or so and call it again.

    What costs compile time: each function is optimised once more in each one that calls it, and in
    those that call that one, so that plain Python is best at the top; each array among parameters
    or local variables; NumPy's functions, `argsort` most of all; assignments of arrays to slices,
    which bring the formatting of an error's text with them.
    """
    decorate: Any = numba.njit(nogil=True, no_cfunc_wrapper=True)  # type: ignore[call-overload]
    dispatcher = _for_any_constant(decorate(function))
    dispatcher._cache = KernelCache(dispatcher.py_func)
    KERNELS.append(dispatcher)
    return cast(F, _compiled_once(dispatcher))


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


def _compiled_once(dispatcher: Any) -> Any:
    """Let one process compile a function while others that need it wait for the result on disk.

    Numba's own lock comes first: threads of one process then never wait for each other with a file
    lock in hand. Processes cannot either, as callers are locked before what they call.
    """
    compile_now = dispatcher.compile

    def compile_once(types: Any) -> Any:
        lock = _locked(writable_folder(), dispatcher._cache.name)
        with solving_clock().standing(), global_compiler_lock, lock, _no_garbage():
            return compile_now(types)

    dispatcher.compile = compile_once
    return dispatcher


@contextmanager
def _locked(folder: Path | None, name: str) -> Iterator[None]:
    """Hold a file lock where the file system has any; without one the work is only done twice."""
    with ExitStack() as stack:
        if folder is not None:
            with suppress(OSError):
                file = stack.enter_context((folder / f"{name}.lock").open("w"))
                if flock is not None:
                    flock(file, LOCK_EX)
        yield


@contextmanager
def _no_garbage() -> Iterator[None]:
    """Let Python's garbage collector rest: of what a compiler makes it finds little, but often."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
