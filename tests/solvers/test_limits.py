"""Limits hold."""

from pathlib import Path
from time import sleep

import pytest

import moeopt
from benchmarks.studies import limits
from tests.rooms.bitwidth import check
from tests.rooms.core import TimeLimitError, out_of_time, solving_clock
from tests.rooms.problems import PROBLEMS
from tests.rooms.solvers import Deadline


def test_a_limit_that_has_passed_begins_nothing() -> None:
    """Not a step of building."""
    with pytest.raises(TimeLimitError):
        Deadline(0.0).checkpoint()
    Deadline(60.0).checkpoint()


def test_compiling_does_not_count() -> None:
    """The clock of the limit stands still."""
    deadline = Deadline(0.2)
    with solving_clock().standing():
        sleep(0.3)
    deadline.checkpoint()


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


@pytest.mark.slow
@pytest.mark.parametrize("limit_s", [0.3, 2.0])
@pytest.mark.parametrize("problem", PROBLEMS)
def test_every_method_keeps_its_limit(problem: str, limit_s: float) -> None:
    """Heuristics, exact methods, models: nobody is late, goes on, or writes on stderr."""
    most = limits.allowed_s(limit_s)
    wrong = [
        row
        for row in limits.rows(problem, [limit_s])
        if max(row["late_s"], row["after_s"]) > most or row["stderr"]
    ]
    assert not wrong


def test_a_model_keeps_its_limit() -> None:
    """The quick share: a model that takes seconds to build."""
    instance = moeopt.load(limits.largest("deferral"))
    assert limits.tried(instance, "milp", 0.2)[0] <= 0.2


def test_candidates_are_not_counted_for_ever() -> None:
    """Those of a large schedule could be."""
    instance = moeopt.load(limits.largest("deferral"))
    with pytest.raises(moeopt.InputError, match="candidates are more than"):
        moeopt.solve(instance, "brute-force")


def test_more_candidates_than_a_double_holds_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """In one line, as fewer are."""
    monkeypatch.setattr(check, "count", lambda _: 10**400)
    with pytest.raises(moeopt.InputError, match="over 1e"):
        moeopt.solve(moeopt.load(limits.largest("bitwidth")), "brute-force")
