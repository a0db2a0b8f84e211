"""Compiled functions give what Python gives."""

import json
import os
import shutil
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numba
import pytest

import moeopt
from moeopt.core.compiled import compiled
from moeopt.core.kernel_cache import KEPT, _fields, fingerprint, forget_older


def collatz_steps(number: int) -> int:
    """Count the steps to 1."""
    steps = 0
    while number != 1:
        number = number // 2 if number % 2 == 0 else 3 * number + 1
        steps += 1
    return steps


def test_the_same_as_plain_python() -> None:
    """For every start below 200."""
    fast = compiled(collatz_steps)
    assert [fast(n) for n in range(1, 200)] == [collatz_steps(n) for n in range(1, 200)]


def test_constants_compile_nothing_anew() -> None:
    """Calls with constants, variables of the same types and from Python share one compiled form."""

    @compiled
    def scaled(number: int, factor: int, doubled: bool) -> int:
        return number * factor * (2 if doubled else 1)

    @compiled
    def total(number: int) -> int:
        return scaled(number, 0, False) + scaled(number, 3, True) + scaled(number, number, False)

    assert total(5) == 55
    assert scaled(5, 1, True) == 10
    assert len(scaled.signatures) == 1  # type: ignore[attr-defined]


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """Return a package of that name with a kernel, one that it calls, and a folder for code."""
    folder = tmp_path / "moeopt"
    shutil.copytree(Path(moeopt.__file__).parent / "numeric", folder / "numeric")
    (folder / "__init__.py").write_text("")
    (folder / "outer.py").write_text(OUTER)
    (folder / "inner.py").write_text(INNER.format(value=1))
    (folder / "constants.py").write_text("ADDED = 0\n")
    return folder


class Processes:
    """Makes new processes, each a copy of one that has Numba: importing it takes longest."""

    def __init__(self) -> None:
        self.first = subprocess.Popen(
            [sys.executable, "-c", COPIES],
            env={name: text for name, text in os.environ.items() if name != "PYTHONPATH"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, folder: Path, source: str, count: int, **variables: str) -> list[list[int]]:
        """Return the numbers that each of `count` processes prints that run at once."""
        assert self.first.stdin is not None
        assert self.first.stdout is not None
        order = json.dumps([str(folder), source, count, variables])
        print(order, file=self.first.stdin, flush=True)
        return [list(map(int, self.first.stdout.readline().split())) for _ in range(count)]


COPIES = """
import json, numba, os, sys
numba.njit(lambda: 1)()
for line in sys.stdin:
    folder, source, count, variables = json.loads(line)
    for _ in range(count):
        if os.fork() == 0:
            os.chdir(folder)
            os.environ.update(variables)
            exec(source, {})
            sys.stdout.flush()
            os._exit(0)
    for _ in range(count):
        os.wait()
"""


@pytest.fixture(scope="module")
def processes() -> Iterator[Processes]:
    """Return what starts processes; they import what lies in the folder that they run in."""
    made = Processes()
    yield made
    made.first.communicate(timeout=60)


def outer_of_three(
    processes: Processes, package: Path, cache: Path | None = None, **variables: str
) -> tuple[int, int]:
    """Return what a new process computes, and how many kernels it compiles for it."""
    variables["MOEOPT_CACHE_DIR"] = str(cache or package.parent / "cache")
    [(value, compiled_now)] = processes.run(package.parent, OUTER_OF_THREE, 1, **variables)
    return value, compiled_now


OUTER_OF_THREE = """
from moeopt.outer import outer
from moeopt.core.compiled import KERNELS
print(outer(3), sum(sum(kernel.stats.cache_misses.values()) for kernel in KERNELS))
"""


def fingerprint_of(tmp_path: Path, inner: str, outer: str, constants: str, number: int) -> str:
    """Return the fingerprint of a kernel whose modules have these sources."""
    folder = tmp_path / f"checkout{number}"
    folder.mkdir()
    found = None
    for name, text in (("constants", constants), ("inner", inner), ("outer", outer)):
        (folder / f"{name}.py").write_text(text)
        found = types.ModuleType(f"moeopt.{name}")
        sys.modules[f"moeopt.{name}"] = found
        exec(compile(text, str(folder / f"{name}.py"), "exec"), found.__dict__)
    for name in ("constants", "inner", "outer"):
        del sys.modules[f"moeopt.{name}"]
    assert found is not None
    return fingerprint(found.outer.py_func)


CONSTANTS = "ADDED = 0\nSIZES = (1, 2)\n"


def test_code_is_known_by_what_it_depends_on(tmp_path: Path) -> None:
    """Not by files: comments, docstrings, other functions and places do not change it."""
    inner = INNER.format(value=1)
    described = inner.replace("(number):\n", "(number):\n    'Add.'\n")
    same = [
        (inner, OUTER, CONSTANTS),
        ("# A comment.\nMORE = 3\n\n" + inner + "\ndef new(): ...\n", OUTER, CONSTANTS),
        (described, OUTER, CONSTANTS),
        (inner, OUTER, CONSTANTS + "UNUSED = 3\n"),
    ]
    other = [
        (INNER.format(value=20), OUTER, CONSTANTS),
        (inner, OUTER.replace("(number)\n", "(number) + 1\n"), CONSTANTS),
        (inner, OUTER, CONSTANTS.replace("0", "100")),
        (inner, OUTER, CONSTANTS.replace("0", "0.0")),
        (
            inner,
            OUTER,
            "import numpy\n" + CONSTANTS.replace("0", "numpy.arange(3)"),
        ),
        (
            inner,
            OUTER,
            "import numpy\n" + CONSTANTS.replace("0", "numpy.arange(4)"),
        ),
    ]
    found = [fingerprint_of(tmp_path, *one, n) for n, one in enumerate(same + other)]
    assert len(set(found[: len(same)])) == 1
    assert len(set(found)) == 1 + len(other)


def test_a_folder_that_cannot_be_written_is_read(package: Path, processes: Processes) -> None:
    """What is missing there is kept in the user's own folder, in which it is found."""
    shared, own = package.parent / "cache", package.parent / "own"
    assert outer_of_three(processes, package) == (4, 2)
    # Root could write anywhere.
    fake = "import os; os.access = lambda path, mode: 'own' in str(path)\n"
    (package / "__init__.py").write_text(fake)
    variables = {"HOME": str(own), "XDG_CACHE_HOME": str(own)}
    assert outer_of_three(processes, package, shared, **variables) == (4, 0)
    (package / "inner.py").write_text(INNER.format(value=20))
    assert outer_of_three(processes, package, shared, **variables) == (23, 2)
    assert outer_of_three(processes, package, shared, **variables) == (23, 0)
    assert list(own.rglob("*.nbi"))


def test_two_processes_compile_a_function_once(package: Path, processes: Processes) -> None:
    """The second waits for the first and takes its code from the disk."""
    cache = str(package.parent / "cache")
    hits = processes.run(package.parent, SLOW_COMPILE, 2, MOEOPT_CACHE_DIR=cache)
    assert sorted(hits) == [[0], [1]]


SLOW_COMPILE = """
import time
from numba.core import compiler
usual = compiler.compile_extra
def slow(*arguments, **options):
    time.sleep(1)
    return usual(*arguments, **options)
compiler.compile_extra = slow
from moeopt.inner import inner
inner(1)
print(sum(inner.stats.cache_hits.values()))
"""


OUTER = """from moeopt.inner import inner
from moeopt.core.compiled import compiled

@compiled
def outer(number):
    return inner(number)
"""

INNER = """from moeopt.constants import ADDED
from moeopt.core.compiled import compiled

@compiled
def inner(number):
    return number + {value} + ADDED
"""


def test_of_a_kernel_the_latest_versions_are_kept(tmp_path: Path) -> None:
    """Others' stay; and where one is deleted, nobody says any longer that all are there."""
    (tmp_path / "warm-1").touch()
    for age in range(KEPT + 2):
        for ending in ("py.nbi", "py.1.nbc"):
            file = tmp_path / f"a.f-{age}.{ending}"
            file.touch()
            os.utime(file, (1e9 - age, 1e9 - age))
    (tmp_path / "a.g-1.py.nbi").touch()
    forget_older(tmp_path, "a.f-0")
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {f"a.f-{n}.py.{e}" for n in range(KEPT) for e in ("nbi", "1.nbc")} | {
        "a.g-1.py.nbi"
    }


class Pair(NamedTuple):
    """Two numbers."""

    first: int
    second: int


class Turned(NamedTuple):
    """The same the other way round, of the same types."""

    second: int
    first: int


def test_fields_are_part_of_a_kernels_types() -> None:
    """Machine code knows them by position."""
    kinds = [numba.typeof(pair(1, 2)) for pair in (Pair, Turned)]
    assert list(_fields((kinds[0], numba.int64))) == [("first", "second")]
    assert list(_fields(numba.types.Tuple((numba.int64, kinds[1])))) == [("second", "first")]
