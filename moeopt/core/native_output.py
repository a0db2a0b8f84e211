"""Keep what native code prints out of a program's results.

HiGHS prints debug lines now and then, such as
``HighsMipSolverData::transformNewIntegerFeasibleSolution tmpSolver.run();``, on file descriptor 1
and whatever its log level is: they would end up in ``--json`` output. MILP engines run in a child
process (`moeopt.solvers.process`), but linear programs in methods and certificates do not.

A file descriptor belongs to the process. So only a program does something about it, once, as the
first thing it does; `moeopt.solve` leaves alone what its caller's threads print on.
"""

import ctypes
import os
import sys
from typing import Any, TextIO


def drop_native_stdout() -> None:
    """Point file descriptor 1 at nothing for good, and `sys.stdout` at where it led before.

    For a program that owns its process, before it has threads or has handed `sys.stdout` to
    anybody. A standard stream that is closed, as after ``>&-``, becomes one that leads to nothing:
    else the next file that is opened would be file descriptor 1, and be printed into.
    """
    open_closed_descriptors()
    if sys.stdout is None:
        sys.stdout = _to_nothing()
    if sys.stderr is None:
        sys.stderr = _to_nothing()
    python: Any = sys.stdout
    python.flush()
    if os.name == "posix":
        ctypes.CDLL(None).fflush(None)  # what the C library still holds was printed before
    try:
        is_native = python.fileno() == 1
    except (AttributeError, OSError, ValueError):  # e.g. a notebook's or a test's stdout
        is_native = False
    if is_native:
        at_once = getattr(python, "line_buffering", False) or getattr(
            python, "write_through", False
        )
        buffering = 1 if at_once else -1
        sys.stdout = os.fdopen(os.dup(1), "w", buffering, python.encoding, python.errors)
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.close(nothing)


def _to_nothing() -> TextIO:
    return os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")


def open_closed_descriptors() -> None:
    """Let 0, 1 and 2 lead to nothing where they are closed: the lowest free one is opened first."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
