"""Ctrl-C while a solver runs."""

import _thread
import signal
import socket
import threading
import time
from typing import Any

import pytest
from ortools.sat.python import cp_model

import moeopt
from tests.rooms.core import Search, cpsat
from tests.rooms.problems import get_problem
from tests.rooms.solvers import Process, engines, kept, process
from tests.rooms.tri_domain import objective, threshold
from tests.solvers.test_statuses import partition


def press_ctrl_c_after(seconds: float) -> None:
    """Interrupt the main thread in a while, as Ctrl-C does.

    Called where the solver is at work already, so that no import or build is what it interrupts.
    """
    threading.Timer(seconds, _thread.interrupt_main).start()


@pytest.mark.parametrize("method", ["cp-sat", "milp"])
def test_ctrl_c_gives_the_best_so_far(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The result says so, and has a schedule and a bound; also where the engine cannot stop."""
    solve, heard = cp_model.CpSolver.solve, process.Process._heard

    def solve_interrupted(*arguments: Any) -> Any:
        press_ctrl_c_after(0.5)
        return solve(*arguments)

    def heard_interrupted(*arguments: Any) -> Any:
        press_ctrl_c_after(0.5)
        return heard(*arguments)

    with kept("engines", lambda: Process(engines.__name__)):
        pass  # it has started: no start is what is interrupted
    monkeypatch.setattr(cp_model.CpSolver, "solve", solve_interrupted)
    monkeypatch.setattr(process.Process, "_heard", heard_interrupted)
    begin = time.monotonic()
    result = moeopt.solve(partition(), method, time_limit_s=600)
    assert time.monotonic() - begin < 300
    assert (result.status, result.termination) == ("feasible", "interrupted")
    assert result.objective is not None
    assert result.bound is not None
    assert moeopt.check(partition(), result.solution).objective == result.objective
    time.sleep(0.01)  # the interpreter is alive, and no second interrupt comes


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
    """An algorithm runs in this thread; Ctrl-C leaves its best so far, checked."""
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


def test_ctrl_c_ends_a_function_of_the_caller() -> None:
    """It runs in this thread, where no limit ends it: a result says what became of it."""

    def stays(_: object) -> None:
        assert threading.current_thread() is threading.main_thread()
        press_ctrl_c_after(0.2)
        for _ in range(300):  # a thread's Ctrl-C does not end a call into C
            time.sleep(0.1)

    result = moeopt.solve(partition(), stays, time_limit_s=0.1)
    assert (result.status, result.termination) == ("unknown", "interrupted")


def test_ctrl_c_in_a_subproblem_ends_the_method(monkeypatch: pytest.MonkeyPatch) -> None:
    """CP-SAT inside a method of the package is stopped, and the method with it."""
    solve = cp_model.CpSolver.solve
    found = moeopt.solve(partition(), "trimoe").solution
    model = get_problem("tri_domain").model(partition(), "cp-sat")
    model.post()

    def interrupted(*arguments: Any) -> Any:
        press_ctrl_c_after(0.3)
        return solve(*arguments)

    def asks_cp_sat(_: object, search: Search) -> None:
        search.offer(found, objective(partition(), found))
        monkeypatch.setattr(cp_model.CpSolver, "solve", interrupted)
        cpsat.Run(model.model, 600).solve()
        raise AssertionError("the method went on")

    monkeypatch.setattr(threshold, "solve", asks_cp_sat)
    result = moeopt.solve(partition(), "threshold", time_limit_s=600)
    assert (result.status, result.termination) == ("feasible", "interrupted")
    assert result.solution == found


def test_a_handler_of_the_callers_runs_and_the_answer_stays() -> None:
    """One that raises nothing ends the run of CP-SAT all the same; its handler is put back."""
    came: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    mine = signal.getsignal(signal.SIGINT)
    model = get_problem("tri_domain").model(partition(), "cp-sat")
    model.post()
    try:
        press_ctrl_c_after(0.5)
        answer = cpsat.Run(model.model, 600).solve()
        assert signal.getsignal(signal.SIGINT) is mine
    finally:
        signal.signal(signal.SIGINT, before)
    assert came == [signal.SIGINT]
    assert answer.status in ("feasible", "unknown")


def test_a_wakeup_descriptor_of_the_callers_hears_of_signals() -> None:
    """Event loops have one."""
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    before = signal.set_wakeup_fd(theirs.fileno())
    model = get_problem("tri_domain").model(partition(), "cp-sat")
    model.post()
    try:
        press_ctrl_c_after(0.5)
        with pytest.raises(cpsat.StoppedError) as stopped:
            cpsat.Run(model.model, 600).solve()
        assert signal.set_wakeup_fd(theirs.fileno()) == theirs.fileno()
    finally:
        signal.set_wakeup_fd(before)
    assert stopped.value.answer.status in ("feasible", "unknown")
    assert ours.recv(1) == bytes([signal.SIGINT])
    ours.close()
    theirs.close()


def test_in_another_thread_signals_are_left_alone() -> None:
    """No handler runs there."""
    found: list[Any] = []

    def solve() -> None:
        found.append(moeopt.solve(partition(11), "cp-sat"))

    thread = threading.Thread(target=solve)
    thread.start()
    thread.join()
    assert found[0].status == "optimal"
