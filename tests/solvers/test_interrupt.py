"""Ctrl-C while a solver runs."""

import _thread
import threading
import time

import pytest
from ortools.sat.python import cp_model

import moeopt
from tests.rooms.core import Search
from tests.rooms.solvers import FUNCTIONS, run_interruptible
from tests.rooms.tri_domain import objective, threshold
from tests.solvers.test_statuses import partition


def press_ctrl_c_after(seconds: float) -> None:
    """Interrupt the main thread in a while, as Ctrl-C does.

    Called where the solver is at work already, so that no import or build is what it interrupts.
    """
    threading.Timer(seconds, _thread.interrupt_main).start()


def sleep_interrupted(*_: object) -> None:
    """Stand in for a solver: press Ctrl-C and take no notice."""
    press_ctrl_c_after(0.3)
    time.sleep(30)


@pytest.mark.parametrize("method", ["cp-sat", "milp"])
def test_ctrl_c_gives_the_best_so_far(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The result says so, and has a schedule and a bound; also where the engine cannot stop."""
    search = cp_model.CpSolver.solve

    def search_interrupted(*arguments: object) -> object:
        press_ctrl_c_after(0.5)
        return search(*arguments)

    monkeypatch.setattr(cp_model.CpSolver, "solve", search_interrupted)
    monkeypatch.setitem(FUNCTIONS, "highs", sleep_interrupted)
    result = moeopt.solve(partition(), method, time_limit_s=600)
    assert (result.status, result.termination) == ("feasible", "interrupted")
    assert result.objective is not None
    assert result.bound is not None
    assert moeopt.check(partition(), result.solution).objective == result.objective


def test_ctrl_c_during_brute_force() -> None:
    """Enumeration stops at once with the best candidate."""
    points = []

    def press_once(*point: object) -> None:
        points.append(point)
        if len(points) == 1:
            _thread.interrupt_main()

    result = moeopt.solve(partition(11), "brute-force", time_limit_s=600, on_progress=press_once)
    assert (result.status, result.termination) == ("feasible", "interrupted")
    assert result.bound is None


def test_ctrl_c_where_the_algorithm_runs_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """A brief algorithm runs without a thread; Ctrl-C leaves its best so far, checked."""
    found = moeopt.solve(partition(), "trimoe").solution

    def offer_and_stay(_: object, search: Search) -> None:
        assert threading.current_thread() is threading.main_thread()
        search.offer(found, objective(partition(), found))
        search.prove(1)
        _thread.interrupt_main()
        time.sleep(30)

    monkeypatch.setattr(threshold, "solve", offer_and_stay)
    for method in ("threshold", "auto"):
        result = moeopt.solve(partition(), method, time_limit_s=60)
        assert (result.status, result.termination) == ("feasible", "interrupted")
        assert result.solution == found
        assert result.bound is not None


def test_a_call_that_does_not_stop_is_left_behind() -> None:
    """A solver without a way to stop it does not hold the user up."""
    run = run_interruptible(sleep_interrupted, lambda: None, limit_s=600)
    assert (run.ended, run.interrupted, run.value) == (False, True, None)


def test_what_is_stopped_says_nothing_of_its_own() -> None:
    """A process that is ended at the limit raises at once: that is no error of the call."""
    told, raised = threading.Event(), threading.Event()

    def call() -> None:
        told.wait()
        raised.set()
        raise ValueError("ended")

    def stop() -> None:
        told.set()
        raised.wait()
        time.sleep(0.05)  # the error has reached whoever waits for it by now

    run = run_interruptible(call, stop, 0.01)
    assert (run.ended, run.error, run.interrupted) == (False, None, False)


def test_a_second_ctrl_c_gets_through() -> None:
    """Whoever presses twice wants out."""
    with pytest.raises(KeyboardInterrupt):
        run_interruptible(sleep_interrupted, lambda: press_ctrl_c_after(0.1), limit_s=600)


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
