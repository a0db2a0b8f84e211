"""Compiled functions give what Python gives; they are compiled once for all processes."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import moeopt
from tests.problems.deferral.random_schedules import random_instance as random_schedule
from tests.problems.tri_domain.random_instances import random_instance as random_layer
from tests.rooms.core import KEPT, KERNELS, Kernel, compiled, inner, short, solving_clock


def collatz_steps(number: int) -> int:
    """Count the steps to 1."""
    steps = 0
    while number != 1:
        number = number // 2 if number % 2 == 0 else 3 * number + 1
        steps += 1
    return steps


def test_the_same_as_plain_python() -> None:
    """For every start below 200; the clock stands still while it is compiled."""
    fast, before = compiled(collatz_steps), solving_clock().compile_s
    assert [fast(n) for n in range(1, 200)] == [collatz_steps(n) for n in range(1, 200)]
    assert solving_clock().compile_s > before


def test_constants_compile_nothing_anew() -> None:
    """Calls with constants and with variables of the same types share one compiled form."""

    @compiled
    def scaled(number: int, factor: int, doubled: bool) -> int:
        return number * factor * (2 if doubled else 1)

    @compiled
    def total(number: int) -> int:
        return scaled(number, 0, False) + scaled(number, 3, True) + scaled(number, number, False)

    assert total(5) == 55
    assert scaled(5, 1, True) == 10
    assert len(scaled.dispatcher.signatures) == 1  # type: ignore[attr-defined]


def test_inner_ones_are_compiled_for_kernels_alone() -> None:
    """Python's calls are Python's."""
    steps = inner(collatz_steps)

    @compiled
    def total(number: int) -> int:
        return steps(number) + steps(7)

    assert total(7) == 32
    [kernel] = (one for one in KERNELS if one is steps)
    before = [*kernel.dispatcher.signatures]  # none where the caller was kept by another process
    assert (steps(7), steps(7.0)) == (16, 16)  # type: ignore[arg-type]
    assert kernel.dispatcher.signatures == before


def test_short_ones_wait_in_plain_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """On few entries, and until that has taken its time."""
    fast: Kernel = short(9)(collatz_steps)  # type: ignore[assignment]
    monkeypatch.setattr(Kernel, "plain_left_s", 1.0)
    assert fast(7) == 16
    assert not fast.dispatcher.signatures
    assert Kernel.plain_left_s < 1
    monkeypatch.setattr(Kernel, "plain_left_s", 0.0)
    assert fast(7) == 16
    assert len(fast.dispatcher.signatures) == 1


def answers(seed: int) -> list[object]:
    """Return what methods with short kernels answer."""
    layer, schedule = random_layer(seed, experts=9), random_schedule(seed)
    found = [moeopt.solve(layer, method) for method in ("trimoe", "monde", "threshold")]
    found += [moeopt.solve(schedule, method) for method in ("dp", "saturate")]
    return [(one.solution, one.objective, one.bound, one.raw_status) for one in found]


def test_short_ones_answer_as_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every kernel of their modules, in plain Python and compiled."""
    monkeypatch.setattr(Kernel, "plain_left_s", 0.0)
    due = [answers(seed) for seed in range(12)]
    modules = {kernel.py_func.__module__ for kernel in KERNELS if kernel.entries}
    called: set[str] = set()
    for kernel in [kernel for kernel in KERNELS if kernel.py_func.__module__ in modules]:

        def plainly(*arguments: object, kernel: Kernel = kernel) -> object:
            called.add(kernel.py_func.__name__)
            return kernel.py_func(*arguments)

        monkeypatch.setattr(kernel, "_call", plainly)
    assert [answers(seed) for seed in range(12)] == due
    assert called > {"refine", "loads_of", "makespan_of", "first_schedule", "simple_bound"}
    assert "_stairs" in called


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """Return a package of that name with a kernel, and one that it calls."""
    folder = tmp_path / "moeopt"
    shutil.copytree(Path(moeopt.__file__).parent / "core", folder / "core")
    (folder / "__init__.py").write_text("")
    (folder / "outer.py").write_text(OUTER)
    (folder / "inner.py").write_text(INNER.format(value=1))
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

    def run(self, folder: Path, count: int, **variables: str) -> list[list[int]]:
        """Return what each of `count` processes computes and compiles that run at once."""
        assert self.first.stdin is not None
        assert self.first.stdout is not None
        order = json.dumps([str(folder), OUTER_OF_THREE, count, variables])
        print(order, file=self.first.stdin, flush=True)
        return [list(map(int, self.first.stdout.readline().split())) for _ in range(count)]


COPIES = """
import json, numba, os, resource, sys
numba.njit(lambda: 1)()
for line in sys.stdin:
    folder, source, count, variables = json.loads(line)
    for _ in range(count):
        if os.fork() == 0:
            os.chdir(folder)
            os.environ.update(variables)
            if "MOST_BYTES" in variables:
                sys.dont_write_bytecode = True  # Python does not notice that its own is cut short
                resource.setrlimit(resource.RLIMIT_FSIZE, (int(variables["MOST_BYTES"]),) * 2)
            exec(source, {})
            sys.stdout.flush()
            os._exit(0)
    for _ in range(count):
        os.wait()
"""

OUTER_OF_THREE = (
    f"from {compiled.__module__} import KERNELS\n"
    + """
from moeopt.outer import outer
import os
home = __import__(KERNELS[0].__module__, fromlist=["PATIENCE_S"])
home.PATIENCE_S = float(os.environ.get("PATIENCE", home.PATIENCE_S))
value = outer(3)
missed = sum(sum(kernel.dispatcher.stats.cache_misses.values()) for kernel in KERNELS)
sys = __import__("sys")
sys.stdout.write(f"{value} {missed}\\n")
"""
)

OUTER = (
    f"from {compiled.__module__} import compiled\n"
    + """
from moeopt.inner import inner

@compiled
def outer(number):
    return inner(number)
"""
)

INNER = (
    f"from {compiled.__module__} import compiled\n"
    + """
@compiled
def inner(number):
    return number + {value}
"""
)


@pytest.fixture(scope="module")
def processes() -> Iterator[Processes]:
    """Return what starts processes; they import what lies in the folder that they run in."""
    made = Processes()
    yield made
    made.first.communicate(timeout=600)


def test_an_edit_of_what_a_kernel_calls_is_noticed(package: Path, processes: Processes) -> None:
    """Four processes at once compile two kernels once; an edit has both compiled anew."""
    cache = package.parent / "cache"
    found = processes.run(package.parent, 4, MOEOPT_CACHE_DIR=str(cache))
    assert [value for value, _ in found] == [4] * 4
    assert sum(compiled_here for _, compiled_here in found) == 2
    (package / "inner.py").write_text(INNER.format(value=20))
    assert processes.run(package.parent, 1, MOEOPT_CACHE_DIR=str(cache)) == [[23, 2]]
    assert processes.run(package.parent, 1, MOEOPT_CACHE_DIR=str(cache)) == [[23, 0]]
    for number in range(KEPT):
        (cache / "kernels" / str(number)).mkdir()
        os.utime(cache / "kernels" / str(number), (number, number))
    (package / "inner.py").write_text(INNER.format(value=2))
    assert processes.run(package.parent, 1, MOEOPT_CACHE_DIR=str(cache)) == [[5, 2]]
    left = {path.name for path in (cache / "kernels").iterdir()}
    assert len(left) == KEPT
    assert not left & {"0", "1", "2"}


def test_where_a_folder_cannot_be_written_the_users_is(package: Path, processes: Processes) -> None:
    """And where that cannot be, the package's."""
    (package.parent / "file").write_text("")
    wrong = str(package.parent / "file")
    own = package.parent / "own"
    variables = {"MOEOPT_CACHE_DIR": wrong, "HOME": str(own), "XDG_CACHE_HOME": str(own)}
    assert processes.run(package.parent, 1, **variables) == [[4, 2]]
    assert list(own.rglob("*.nbi"))
    assert processes.run(package.parent, 1, **variables) == [[4, 0]]
    variables |= {"HOME": wrong, "XDG_CACHE_HOME": wrong}
    assert processes.run(package.parent, 1, **variables) == [[4, 2]]
    assert list((package / "__pycache__").rglob("*.nbi"))


def kernels_of(package: Path, kind: str) -> list[Path]:
    """Return the kept files of the two kernels."""
    return sorted((package.parent / "cache").rglob(f"*.{kind}"))


@pytest.mark.parametrize(
    ("kind", "length"),
    [
        *(("nbi", 0), ("nbc", 20)),
        *(pytest.param(*one, marks=pytest.mark.slow) for one in (("nbi", 20), ("nbc", 0))),
    ],
)
def test_a_broken_file_is_made_anew(
    package: Path, processes: Processes, kind: str, length: int
) -> None:
    """Empty or cut short, index or code: the answer is right, and the next process loads it."""
    cache = str(package.parent / "cache")
    assert processes.run(package.parent, 1, MOEOPT_CACHE_DIR=cache) == [[4, 2]]
    for file in kernels_of(package, kind):
        file.write_bytes(file.read_bytes()[:length])
    ((value, compiled_here),) = processes.run(package.parent, 1, MOEOPT_CACHE_DIR=cache)
    assert (value, compiled_here > 0) == (4, True)
    assert processes.run(package.parent, 1, MOEOPT_CACHE_DIR=cache) == [[4, 0]]
    assert all(file.stat().st_size > length for file in kernels_of(package, kind))


def test_a_full_disk_costs_the_cache_alone(package: Path, processes: Processes) -> None:
    """No file may grow beyond a size that no kernel's code has."""
    cache = str(package.parent / "cache")
    assert processes.run(package.parent, 1, MOEOPT_CACHE_DIR=cache, MOST_BYTES="3000")[0][0] == 4
    assert not kernels_of(package, "nbc")
    assert processes.run(package.parent, 1, MOEOPT_CACHE_DIR=cache) == [[4, 2]]


def test_nobody_waits_long_for_a_lock(package: Path, processes: Processes) -> None:
    """Another process holds it for ever: the kernel is compiled all the same."""
    fcntl = pytest.importorskip("fcntl")
    cache = str(package.parent / "cache")
    assert processes.run(package.parent, 1, MOEOPT_CACHE_DIR=cache) == [[4, 2]]
    (lock,) = (package.parent / "cache").rglob("*.lock")
    for file in [*kernels_of(package, "nbi"), *kernels_of(package, "nbc")]:
        file.unlink()
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert processes.run(package.parent, 1, MOEOPT_CACHE_DIR=cache, PATIENCE="0.1") == [[4, 2]]
