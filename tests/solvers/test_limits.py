"""Limits hold, also where the code that runs knows no clock."""

from contextlib import suppress
from pathlib import Path
from threading import Event
from time import process_time, sleep
from typing import Any

import pytest

import moeopt
from moeopt.core.clock import TimeLimitError, out_of_time, solving_clock
from moeopt.problems.registry import PROBLEMS
from moeopt.solvers.limits import Deadline, within
from moeopt.solvers.warm import warm


def test_python_that_knows_no_clock_is_left_behind() -> None:
    """An endless loop costs no more than the limit; nothing is thrown into it."""
    ended = Event()
    with pytest.raises(TimeLimitError):
        within(Deadline(0.1), ended.wait)
    ended.set()


def test_what_ends_in_time_is_handed_over() -> None:
    """Also errors; compiling does not count."""
    assert within(Deadline(60.0), lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        within(Deadline(60.0), lambda: 1 // 0)

    def compile_first() -> int:
        with solving_clock().standing():
            sleep(0.3)
        return 7

    assert within(Deadline(0.1), compile_first) == 7


def test_a_limit_that_has_passed_begins_nothing() -> None:
    """Not a step of it."""
    begun: list[Any] = []
    with pytest.raises(TimeLimitError):
        within(Deadline(0.0), lambda: begun.append(True))
    assert not begun


def test_heuristics_are_told_the_limit() -> None:
    """Within a solve only, and the shorter one where solves are nested."""
    assert not out_of_time()
    with Deadline(0.01).told():
        assert not out_of_time()
        sleep(0.02)
        with Deadline(60).told():
            assert out_of_time()
    assert not out_of_time()


def test_local_search_ends_at_its_limit(root: Path) -> None:
    """It takes longer to come to an end by itself; warm."""
    instance = moeopt.load(root / "instances/layout/windows/deepseek-v2-batch256-windows8.json")
    moeopt.solve(instance, "local-search", time_limit_s=0.01)
    result = moeopt.solve(instance, "local-search", time_limit_s=0.01)
    assert (result.status, result.termination) == ("feasible", "time_limit")


LIBRARY = Path(__file__).parents[2] / "instances"


def largest(problem: str) -> Path:
    """Return the largest instance of the library, by the bytes of its text."""
    files = [
        file
        for file in (LIBRARY / problem).glob("*/*.json*")
        if file.parent.name not in ("solutions", "certificates")
    ]
    return max(files, key=text_bytes)


def text_bytes(file: Path) -> int:
    """Return the size of a file's text; a compressed one ends with it."""
    if file.suffix == ".gz":
        return int.from_bytes(file.read_bytes()[-4:], "little")
    return file.stat().st_size


def late_s(problem: str, method: str, limit_s: float) -> float:
    """Return by how much a method exceeds its limit, the least of three times if it does.

    Of wall time and the process's own seconds the less counts: others' work is not ours.
    """
    instance, found = moeopt.load(largest(problem)), float("inf")
    for _ in range(3):
        wall, own = solving_clock().now(), process_time()
        with suppress(moeopt.InputError):  # too large for it: refused at once
            moeopt.solve(instance, method, time_limit_s=limit_s)
        seconds = min(solving_clock().now() - wall, process_time() - own)
        found = min(found, seconds - limit_s)
        if found <= max(0.05 * limit_s, 0.2):
            break
    return found


@pytest.mark.slow
@pytest.mark.parametrize("limit_s", [0.3, 2.0])
@pytest.mark.parametrize("problem", PROBLEMS)
def test_every_method_keeps_its_limit(problem: str, limit_s: float) -> None:
    """Heuristics, exact methods, models."""
    warm()
    late = {
        method: seconds
        for method in moeopt.methods(problem)
        if (seconds := late_s(problem, method, limit_s)) > max(0.05 * limit_s, 0.2)
    }
    assert not late


@pytest.mark.parametrize("method", ["milp", "mathprog"])
def test_a_model_keeps_its_limit(method: str) -> None:
    """The quick share: a model that takes seconds to build, in Python and in GLPK."""
    assert late_s("deferral", method, 0.2) <= 0.2


def test_counting_candidates_keeps_the_limit() -> None:
    """Those of a large schedule could be counted for ever."""
    assert late_s("deferral", "brute-force", 0.1) <= 0.2


def test_more_candidates_than_a_double_holds_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """In one line, as fewer are."""
    monkeypatch.setattr("moeopt.problems.bitwidth.check.count", lambda _: 10**400)
    with pytest.raises(moeopt.InputError, match="over 1e"):
        moeopt.solve(moeopt.load(largest("bitwidth")), "brute-force")
