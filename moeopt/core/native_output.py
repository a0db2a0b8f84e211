"""Drop what native code prints on stdout, which belongs to results.

HiGHS inside scipy prints debug lines now and then, such as
``HighsMipSolverData::transformNewIntegerFeasibleSolution tmpSolver.run();``, on file descriptor 1
and whatever its log level is: they would end up in ``--json`` output.
"""

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread
from typing import Any


@contextmanager
def native_stdout_dropped() -> Iterator[None]:
    """Drop what native code prints on file descriptor 1, in any thread; Python's prints go on.

    In other threads it does nothing: one that outlives the solve that began it would put back a
    stdout of that time, and close today's. A solver that a time limit leaves behind prints again
    once this has been left: a command line calls `drop_native_stdout` and never leaves.
    """
    if current_thread() is not main_thread():
        yield
        return
    before, native = sys.stdout, os.dup(1)
    drop_native_stdout()
    try:
        yield
    finally:
        _flush()
        now, sys.stdout = sys.stdout, before
        if now is not before:
            now.close()
        os.dup2(native, 1)
        os.close(native)


def drop_native_stdout() -> None:
    """Point file descriptor 1 at nothing for good, and Python's stdout at where it led before."""
    _flush()
    python: Any = sys.stdout
    try:
        is_native = python.fileno() == 1
    except (AttributeError, OSError, ValueError):  # e.g. a notebook's or a test's stdout
        is_native = False
    if is_native:
        buffering = 1 if python.line_buffering else -1
        sys.stdout = os.fdopen(os.dup(1), "w", buffering, python.encoding, python.errors)
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.close(nothing)


def _flush() -> None:
    """Write out what Python and the C library still hold, before file descriptor 1 changes."""
    sys.stdout.flush()
    if os.name == "posix":
        ctypes.CDLL(None).fflush(None)
