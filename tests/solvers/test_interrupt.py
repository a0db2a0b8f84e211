"""Ctrl-C while a solver runs."""

import _thread
import signal
import threading
import time
from collections.abc import Iterator

import pytest
from ortools.sat.python import cp_model

import moeopt
from moeopt.solvers.engines import highs
from moeopt.solvers.interrupt import run_interruptible
from tests.solvers.test_statuses import partition


@pytest.fixture(autouse=True)
def _ctrl_c_raises() -> Iterator[None]:
    """Where the suite runs in the background the shell has made Ctrl-C ignored: restore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def press_ctrl_c_after(seconds: float) -> None:
    """Interrupt the main thread in a while, as Ctrl-C does."""
    threading.Timer(seconds, _thread.interrupt_main).start()


@pytest.mark.parametrize("method", ["cp-sat", "milp"])
def test_ctrl_c_gives_the_best_so_far(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The result says so, and has a schedule and a bound; also where the engine cannot stop."""
    monkeypatch.setattr(highs, "solve", lambda *_: time.sleep(30))
    press_ctrl_c_after(1.0)
    result = moeopt.solve(partition(), method, time_limit_s=20)
    assert (result.status, result.termination) == ("feasible", "interrupted")
    assert result.objective is not None
    assert result.bound is not None
    assert moeopt.check(partition(), result.solution).objective == result.objective


def test_ctrl_c_during_brute_force() -> None:
    """Enumeration stops at once with the best candidate."""
    press_ctrl_c_after(0.2)
    result = moeopt.solve(partition(11), "brute-force", time_limit_s=60)
    assert (result.status, result.termination) == ("feasible", "interrupted")
    assert result.bound is None


def test_a_call_that_does_not_stop_is_left_behind() -> None:
    """A solver without a way to stop it does not hold the user up."""
    press_ctrl_c_after(0.1)
    run = run_interruptible(lambda: time.sleep(30), lambda: None, limit_s=30)
    assert (run.ended, run.interrupted, run.value) == (False, True, None)


def test_a_second_ctrl_c_gets_through() -> None:
    """Whoever presses twice wants out."""
    press_ctrl_c_after(0.1)
    press_ctrl_c_after(0.4)
    with pytest.raises(KeyboardInterrupt):
        run_interruptible(lambda: time.sleep(30), lambda: None, limit_s=30)


def test_errors_come_through() -> None:
    """What the call raises is raised where it was called."""

    def fail() -> None:
        raise ValueError("from the thread")

    with pytest.raises(ValueError, match="from the thread"):
        run_interruptible(fail, lambda: None, limit_s=1)


def test_cp_sat_that_overruns_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """A solver that does not look at the clock costs neither the result nor the heuristic's."""
    monkeypatch.setattr(cp_model.CpSolver, "solve", lambda *_: time.sleep(30))
    result = moeopt.solve(partition(), "cp-sat", time_limit_s=0.2)
    assert (result.status, result.termination) == ("feasible", "time_limit")
    assert result.raw_status == "LEFT BEHIND"
