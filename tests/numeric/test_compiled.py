"""Compiled functions give what Python gives."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import moeopt
from moeopt.numeric.compiled import _forget_older, compiled


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


def test_old_code_is_not_used_after_an_edit(tmp_path: Path) -> None:
    """Also where only a function that the called one calls has changed, in another file."""
    package = tmp_path / "moeopt"
    shutil.copytree(Path(moeopt.__file__).parent / "numeric", package / "numeric")
    (package / "__init__.py").write_text("")
    (package / "outer.py").write_text(OUTER)
    inner = package / "inner.py"
    (package / "constants.py").write_text("ADDED = 0\n")
    (package / "unrelated.py").write_text("")
    results = []
    for value in ("1", "20", "20"):
        inner.write_text(INNER.format(value=value))
        (package / "unrelated.py").write_text(
            f"# {len(results)}: not imported, no reason to compile"
        )
        results.append(_outer_of_three(tmp_path))
    assert results == ["4", "23", "23"]
    kept = list((package / "__pycache__").glob("moeopt-*"))
    assert len(kept) == 4  # inner's and outer's, before and after the edit
    assert all(list(folder.rglob("*.nbi")) for folder in kept)
    (package / "constants.py").write_text("ADDED = 100\n")
    assert _outer_of_three(tmp_path) == "123"


def _outer_of_three(folder: Path) -> str:
    call = [sys.executable, "-c", "from moeopt.outer import outer; print(outer(3))"]
    run = subprocess.run(call, cwd=folder, capture_output=True, text=True, check=True)
    return run.stdout.strip()


def test_two_processes_compile_a_function_once(tmp_path: Path) -> None:
    """The second waits for the first and takes its code from the disk."""
    package = tmp_path / "moeopt"
    shutil.copytree(Path(moeopt.__file__).parent / "numeric", package / "numeric")
    (package / "__init__.py").write_text("")
    (package / "constants.py").write_text("ADDED = 0\n")
    (package / "inner.py").write_text(INNER.format(value=1))
    calls = [sys.executable, "-c", SLOW_COMPILE]
    both = [
        subprocess.Popen(calls, cwd=tmp_path, stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    hits = sorted(int(process.communicate(timeout=120)[0]) for process in both)
    assert hits == [0, 1]


SLOW_COMPILE = """
import time
from numba.core import compiler
usual = compiler.compile_extra
def slow(*arguments, **options):
    time.sleep(2)
    return usual(*arguments, **options)
compiler.compile_extra = slow
from moeopt.inner import inner
inner(1)
print(sum(inner.stats.cache_hits.values()))
"""


OUTER = """from moeopt.inner import inner
from moeopt.numeric.compiled import compiled

@compiled
def outer(number):
    return inner(number)
"""

INNER = """from moeopt.constants import ADDED
from moeopt.numeric.compiled import compiled

@compiled
def inner(number):
    return number + {value} + ADDED
"""


def test_code_unused_for_a_day_is_deleted(tmp_path: Path) -> None:
    """Other versions' folders go, newer ones and other files stay."""
    for name, age_days in (("moeopt-a", 2), ("moeopt-b", 0.5), ("other", 9)):
        (tmp_path / name).mkdir()
        seconds = time.time() - 86_400 * age_days
        os.utime(tmp_path / name, (seconds, seconds))
    _forget_older(tmp_path / "moeopt-c")
    assert {path.name for path in tmp_path.iterdir()} == {"moeopt-b", "other"}
