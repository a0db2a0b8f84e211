"""The solving clock stands still while kernels are compiled, for those who wait for them only."""

from time import perf_counter, sleep
from typing import Any

import pytest

import moeopt
from tests.problems.tri_domain.random_instances import random_instance
from tests.rooms.core import SolvingClock, compiled, solving_clock
from tests.rooms.core import clock as clock_module

INSTANCE = random_instance(0)


def test_it_stands_until_the_last_thread_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two threads that compile at once count once."""
    at = [0.0]
    monkeypatch.setattr(clock_module, "perf_counter", lambda: at[0])
    clock = SolvingClock()
    before = clock.now()
    with clock.standing():
        with clock.standing():
            at[0] += 3
        at[0] += 4
        assert clock.now() == before
    at[0] += 5
    assert (clock.compile_s, clock.now() - before) == (7, 5)


def test_compiling_stops_it() -> None:
    """Whatever the first call takes is compiling; the second takes nothing of the kind."""
    fast = compiled(lambda number: number + 1)
    clock = solving_clock()
    before, began = clock.compile_s, perf_counter()
    assert fast(1) == 2
    compiling, wall = clock.compile_s - before, perf_counter() - began
    assert 0 < compiling <= wall
    assert fast(1) == 2
    assert clock.compile_s - before == compiling


def compiling_for(seconds: float) -> Any:
    """Return a rule whose kernel takes so long to compile."""

    def rule(instance: Any) -> Any:
        with solving_clock().standing():
            sleep(seconds)
        return ["gpu"] * len(instance.experts)

    return rule


def test_compiling_neither_eats_the_limit_nor_counts_as_solving() -> None:
    """A rule that compiles for longer than its limit has ended in time."""
    result = moeopt.solve(INSTANCE, compiling_for(2.3), time_limit_s=0.2)
    assert result.status == "feasible"
    assert result.compile_s is not None
    assert result.compile_s >= 2.3
    assert result.build_s + result.solve_s < 2.3
    assert f"s + {result.compile_s:.3g} s compiling)" in repr(result)
    assert result.to_dict()["compile_s"] == result.compile_s


def test_of_compiled_kernels_nothing_is_said() -> None:
    """Loading them is counted, but not worth a word."""
    moeopt.solve(INSTANCE, "greedy")
    result = moeopt.solve(INSTANCE, "greedy")
    assert result.compile_s == 0.0
    assert "compiling" not in repr(result)
