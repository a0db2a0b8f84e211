"""Processes that can be ended, and what is said of those that end themselves."""

import threading

import pytest

import moeopt
from moeopt.solvers.process import Process, ProcessEndedError
from moeopt.solvers.run import solve
from tests.problems.cache.cache_random_instances import random_instance

GLPK = "moeopt.solvers.glpk"


def test_who_is_ended_answers_no_more() -> None:
    """Who waits for its answer is told."""
    process = Process(GLPK)
    assert process.alive
    process.end()
    assert not process.alive
    with pytest.raises(ProcessEndedError, match="SIGKILL"):
        process.ask({"model": "x"})


def test_who_ends_itself_is_told_by_its_code() -> None:
    """Here for a module that does not exist."""
    with pytest.raises(ProcessEndedError, match="exit code 1"):
        Process("moeopt.solvers.no_such_module")


def test_a_model_that_is_late_is_ended() -> None:
    """Nothing goes on in a thread; the next model has a process again."""
    instance = random_instance(3)

    def closed() -> bool:
        found = moeopt.solve(instance, "mathprog", verify=False)
        return found.objective is not None and found.objective == found.bound

    assert closed()
    before = threading.active_count()
    late = solve(instance, "mathprog", time_limit_s=1e-6)
    assert late.termination == "time_limit"
    assert threading.active_count() == before
    assert closed()
