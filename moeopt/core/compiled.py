"""Loops over numbers, compiled by Numba where NumPy would need one pass per step.

Importing Numba and loading the first kernel takes half a second: they wait until one is called, and
short loops (`short`) run in plain Python until that has taken half as long, or a second where they
would have to be compiled first.
"""

import gc
import hashlib
import os
import shutil
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cache, cached_property, partial
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from pickle import UnpicklingError
from time import sleep, thread_time
from typing import IO, Any, ClassVar, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from moeopt.core.clock import solving_clock
from moeopt.core.errors import MoeoptWarning
from moeopt.core.signals import signals_wait
from moeopt.core.wording import shortened

try:
    from fcntl import LOCK_EX, LOCK_NB, flock
except ImportError:  # Windows
    flock = None  # type: ignore[assignment]

F = TypeVar("F", bound=Callable[..., Any])

PACKAGE = Path(__file__).parents[1]

KEPT = 12
"""Folders of kernels that are kept: of several checkouts, say, or branches."""

KERNELS: list["Kernel"] = []
"""All compiled functions of the modules that are imported, in the order of their definition."""


def compiled(function: F) -> F:
    """Compile a function of numbers and NumPy arrays at its first call.

    The machine code is kept on disk (`kernel_folder`), so that only the first call ever on a
    machine pays for it; no time limit does (`clock`). The function runs without Python's lock:
    other threads, and Ctrl-C, go on meanwhile. It cannot be stopped from outside, so let it return
    every 50 ms or so and call it again.

    What costs compile time: each function is optimised once more in each one that calls it, and in
    those that call that one, so that plain Python is best at the top; each array among parameters
    or local variables; NumPy's functions, `argsort` most of all; assignments of arrays to slices,
    which bring the formatting of an error's text with them.
    """
    return cast(F, Kernel(function))


def inner(function: F) -> F:
    """Return `compiled` for a function that only kernels call: a call from Python is plain Python.

    It compiles sooner, since no way in from Python is made.
    """
    return cast(F, Kernel(function, None))


def step(function: F) -> F:
    """Return `inner` for a step of a loop that takes some 10 ns, and makes no array.

    It is put into its caller, and no references to arrays are counted: with a dozen arrays in a
    tuple that takes longer than the step.
    """
    return cast(F, Kernel(function, None, allocates=False))


def part(function: F) -> F:
    """Return a function for one kernel alone: its source is put where that calls it.

    No code of its own is compiled, linked and optimised twice. Where a second kernel calls it, or
    the same one in a second place, `inner` costs less.
    """
    return cast(F, InlinedFunction(function))


def short(entries: int) -> Callable[[F], F]:
    """Return `compiled` for a function that takes milliseconds in Python on arrays of so many.

    It is plain Python, and all that it calls, on no more entries in all, until such calls have
    taken `PLAIN_S`, or `AT_HAND_S` if it is on the disk: a process that has little to do loads no
    Numba, and compiles nothing.
    """
    decorate: Any = partial(Kernel, entries=entries)
    return cast(Callable[[F], F], decorate)


PLAIN_S = 1.0
"""CPU seconds of a process in plain Python: less than it takes to compile a few kernels."""

AT_HAND_S = 0.25
"""Those before kernels that are on the disk: half of what Numba and the first of them take."""


class _Plain(threading.local):
    """Whether a thread is in a kernel that runs in plain Python."""

    here = False


class Kernel:
    """A compiled function, which Python and other kernels call.

    Its first call in a process compiles, or loads from the disk: the clock stands still meanwhile.
    So it does for what that call computes, which is little; and it goes on where a kernel is
    compiled once more for arguments of other types.
    """

    plain = _Plain()
    plain_left_s = PLAIN_S

    def __init__(
        self,
        function: Callable[..., Any],
        entries: int | None = 0,
        allocates: bool = True,
        size: Callable[[Sequence[Any]], int] | None = None,
    ) -> None:
        self.py_func, self.entries, self.allocates = function, entries, allocates
        self._size = size or _entries
        self._made: Any = None
        self._call: Callable[..., Any] = function if entries is None else self._first
        KERNELS.append(self)

    def __call__(self, *arguments: Any) -> Any:
        """Return what the function returns."""
        return self._call(*arguments)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str, str]]:
        """Stand for itself by name: a kernel made of others is kept under their names."""
        return _kernel, (self.py_func.__module__, self.py_func.__qualname__)

    @property
    def dispatcher(self) -> Any:
        """What compiles the function, or loads it, for each combination of types."""
        with _LOADING:
            if self._made is None:
                self._made = _dispatcher(self.py_func, self.entries is None, self.allocates)
            return self._made

    def _first(self, *arguments: Any) -> Any:
        """Compile or load, and call. Cut short by Ctrl-C, LLVM would raise an error of its own."""
        if self.plain.here:
            return self.py_func(*arguments)
        if self.entries and self._waits and self._size(arguments) <= self.entries:
            return self._in_python(arguments)
        name = f"{self.py_func.__module__}.{self.py_func.__qualname__}"
        with signals_wait(), solving_clock().standing(), _alone(name), _no_garbage():
            found = self._compiled(arguments)
        self._call = self.dispatcher
        return found

    @property
    def _waits(self) -> bool:
        """Whether such calls may take longer before the function is compiled, or loaded."""
        left = self.plain_left_s
        return left > PLAIN_S - AT_HAND_S or (left > 0 and not self._at_hand)

    @cached_property
    def _at_hand(self) -> bool:
        """Whether there is a file of it."""
        folder, name = kernel_folder(), self.py_func.__qualname__
        return bool(folder) and any(Path(folder).rglob(f"*.{name}-*.nbi"))

    def _compiled(self, arguments: Sequence[Any]) -> Any:
        """Compile or load, and call; where the cache's files fail, without them."""
        for files in (self.py_func.__qualname__, "*"):  # "*": a kernel that it calls is broken
            try:
                return self.dispatcher(*arguments)
            except OSError as error:
                _Files.give_up(error)
            except (EOFError, UnpicklingError) as error:  # a file that was cut short
                _Files.forget(error, files)
        return self.dispatcher(*arguments)

    def open_anew(self) -> None:
        """Look for files again at the first call, if there was none yet."""
        if self._call is not self._made:
            self._made = None

    def _in_python(self, arguments: tuple[Any, ...]) -> Any:
        begin, self.plain.here = thread_time(), True
        try:
            return self.py_func(*arguments)
        finally:
            self.plain.here = False
            Kernel.plain_left_s -= thread_time() - begin


class InlinedFunction:
    """A function whose source Numba puts into the kernel that calls it."""

    targetoptions: ClassVar[dict[str, str]] = {"inline": "always"}
    """Numba looks here, as in its own dispatchers."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.py_func = function

    def __call__(self, *arguments: Any) -> Any:
        """Return what the function returns, in plain Python."""
        return self.py_func(*arguments)


def _entries(arguments: Sequence[Any]) -> int:
    """Return how many numbers there are in all arrays, those in tuples as well."""
    return sum(_entries(of) if isinstance(of, tuple) else np.size(of) for of in arguments)


def _kernel(module: str, name: str) -> Kernel:
    return cast(Kernel, getattr(import_module(module), name))


class _Files:
    """Kept kernels that cannot be read or written: the cache is lost, and no answer."""

    are_kept = True

    @classmethod
    def forget(cls, error: Exception, name: str) -> None:
        """Delete the files of one kernel, or of all ("*"), and say so."""
        folder = Path(kernel_folder())
        for file in (*folder.rglob(f"*.{name}-*.nbi"), *folder.rglob(f"*.{name}-*.nbc")):
            with suppress(OSError):
                file.unlink()
        cls._lost(f"broken file in {folder}, compiled again", error)

    @classmethod
    def give_up(cls, error: OSError) -> None:
        """Keep no kernels from now on, and say so."""
        cls.are_kept = False
        cls._lost(f"{kernel_folder()} cannot be used, nothing kept", error)

    @staticmethod
    def _lost(what: str, error: Exception) -> None:
        for kernel in KERNELS:
            kernel.open_anew()
        text = f"kernel cache: {what} ({shortened(str(error) or type(error).__name__)})"
        warnings.warn(MoeoptWarning(text), stacklevel=2)


def compile_all() -> None:
    """Compile every kernel at its first call from now on, instead of running it in plain Python."""
    Kernel.plain_left_s = 0.0


_LOADING = threading.RLock()


def _dispatcher(function: Callable[..., Any], inner: bool, allocates: bool) -> Any:
    config: Any = _numba().config
    before, config.CACHE_DIR = config.CACHE_DIR, kernel_folder()
    try:
        cache = bool(config.CACHE_DIR) and _Files.are_kept
        options = {} if allocates else {"_nrt": False, "forceinline": inner}
        return _numba().njit(cache=cache, nogil=True, no_cpython_wrapper=inner, **options)(function)
    finally:
        config.CACHE_DIR = before


@cache
def _numba() -> Any:
    """Return Numba, which knows from now on how kernels call kernels."""
    with signals_wait():
        import numba
        from numba.extending import models, register_model, typeof_impl

    class AnyConstant(numba.types.Dispatcher):
        """Lets calls with constants, as in ``f(x, 0)``, share the code of calls with variables.

        Left alone, Numba takes 0 for a type of its own, and compiles `f` and all that `f` calls
        again.
        """

        def get_call_type(self, context: Any, args: Any, kws: Any) -> Any:
            """Return the signature of a call."""
            without_value: Any = numba.types.unliteral
            plain = tuple(without_value(kind) for kind in args)
            named = {name: without_value(kind) for name, kind in kws.items()}
            return super().get_call_type(context, plain, named)

    register_model(AnyConstant)(models.OpaqueModel)
    typeof_impl.register(Kernel)(lambda kernel, _: AnyConstant(kernel.dispatcher))
    # An inlined function leaves its name behind, which needs a type.
    typeof_impl.register(InlinedFunction)(lambda *_: numba.types.Dummy("inlined"))
    return numba


@contextmanager
def _no_garbage() -> Iterator[None]:
    """Disable the garbage collector while Numba compiles; it takes a sixth of the time."""
    looking = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if looking:
            gc.enable()


PATIENCE_S = 5.0
"""Seconds that a process waits in all for others that compile; then it compiles by itself."""

LOOK_S = 0.02

_waited_s = 0.0


@contextmanager
def _alone(name: str) -> Iterator[None]:
    """Let other processes wait, and then take from the disk what this one compiles.

    Where there are no file locks, or another process holds one for longer than `PATIENCE_S`, the
    work is only done twice.
    """
    with ExitStack() as stack:
        if kernel_folder() and flock is not None:
            with suppress(OSError):
                file = stack.enter_context(Path(kernel_folder(), f"{name}.lock").open("w"))
                _wait_for(file)
        yield


def _wait_for(file: IO[str]) -> None:
    """Lock a file; do without where the process has waited long enough."""
    global _waited_s
    while True:
        try:
            flock(file, LOCK_EX | LOCK_NB)
        except BlockingIOError:
            if _waited_s >= PATIENCE_S:
                return
            sleep(LOOK_S)
            _waited_s += LOOK_S
        else:
            return


@cache
def kernel_folder() -> str:
    """Return the folder in which kernels of these sources are kept; empty if there is none.

    It lies in ``$MOEOPT_CACHE_DIR`` (or ``$NUMBA_CACHE_DIR``) where that is given and can be
    written to, otherwise in the user's cache folder, else in the package's. Numba looks at the file
    of a kernel alone, not at those of kernels that it calls: so the folder is named by all.
    """
    given = os.environ.get("MOEOPT_CACHE_DIR") or os.environ.get("NUMBA_CACHE_DIR")
    users = os.environ.get("LOCALAPPDATA") or os.environ.get("XDG_CACHE_HOME")
    for base in (given, Path(users or Path.home() / ".cache") / "moeopt", PACKAGE / "__pycache__"):
        if not base:
            continue
        kernels = Path(base) / "kernels"
        folder = kernels / sources()
        with suppress(OSError):
            if not folder.is_dir():
                folder.mkdir(parents=True, exist_ok=True)
                _forget_older(kernels)
            os.utime(folder)  # it is in use
            if os.access(folder, os.W_OK):
                return str(folder)
    return ""


@cache
def sources() -> str:
    """Return a name that changes with the files that have kernels, Python and Numba."""
    digest = hashlib.sha256(f"{sys.version} {version('numba')}".encode())
    for path in sorted(PACKAGE.rglob("*.py")):
        text = path.read_bytes()
        if b"core.compiled import" in text:
            digest.update(str(path).encode() + b"\0" + text)
    return digest.hexdigest()[:16]


def _forget_older(kernels: Path) -> None:
    """Delete the folders that have not been used for longest, all but `KEPT`."""
    folders = sorted(kernels.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
    for folder in folders[KEPT:]:
        shutil.rmtree(folder, ignore_errors=True)


@inner
def rising(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the positions of the keys by rising key, at ties by position (merge sort)."""
    size = len(keys)
    order, other = np.empty(size, np.int64), np.empty(size, np.int64)
    for n in range(size):
        order[n] = n
    width = 1
    while width < size:
        for begin in range(0, size, 2 * width):
            middle, end = min(begin + width, size), min(begin + 2 * width, size)
            a, b = begin, middle
            for n in range(begin, end):
                if a < middle and (b == end or keys[order[a]] <= keys[order[b]]):
                    other[n] = order[a]
                    a += 1
                else:
                    other[n] = order[b]
                    b += 1
        order, other = other, order
        width *= 2
    return order
