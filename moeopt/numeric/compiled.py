"""Loops over numbers, compiled by Numba where NumPy would need one pass per step."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., Any])


def compiled(function: F) -> F:
    """Compile a function of numbers and NumPy arrays at its first call.

    The machine code is kept on disk, so that only the first call ever on a machine pays for it.
    The function runs without Python's lock: other threads, and Ctrl-C, go on meanwhile. It cannot
    be stopped from outside, so let it return every 50 ms or so and call it again.
    """
    return cast(F, numba.njit(cache=True, nogil=True)(function))
