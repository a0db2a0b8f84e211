"""Limits hold, also where the code that runs knows no clock."""

from itertools import count
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

import pytest

import moeopt
from moeopt.numeric.clock import out_of_time, solving_clock
from moeopt.solvers.limits import Deadline, TimeLimitError, abandoned_at


def test_python_that_knows_no_clock_is_abandoned() -> None:
    """An endless loop ends soon after the limit."""
    began = perf_counter()
    with pytest.raises(TimeLimitError), abandoned_at(Deadline(0.1)):
        for _ in count():
            pass
    assert 0.1 <= perf_counter() - began < 1.0


def test_what_ends_in_time_is_left_alone() -> None:
    """Nothing is raised later, by however little it was in time; nor if compiling took longer."""
    for limit in (0.001, 0.002, 0.005, 0.05):
        try:
            with abandoned_at(Deadline(limit)):
                sleep(0.001)
        except TimeLimitError:
            pass
        sleep(0.003)
        sum(range(1000))
    with abandoned_at(Deadline(0.05)), solving_clock().standing():
        sleep(0.1)


def test_a_limit_that_has_passed_begins_nothing() -> None:
    """Not a step of it."""
    begun: list[Any] = []
    with pytest.raises(TimeLimitError), abandoned_at(Deadline(0.0)):
        begun.append(True)
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
    assert result.solve_s < 10 * moeopt.solve(instance, "lpt").solve_s + 0.2
