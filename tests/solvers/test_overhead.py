"""A public call of a brief algorithm runs where it is called: a thread would cost more than it."""

from types import SimpleNamespace
from typing import Any

import pytest

import moeopt
from tests.problems.every_problem import RANDOM
from tests.rooms.problems import get_problem
from tests.rooms.solvers import own

LARGE = {
    "deferral": SimpleNamespace(layers=200, penalty=range(9)),
    "balance": SimpleNamespace(slices_per_unit=64, experts=range(1024)),
    "cache": SimpleNamespace(layers=26, experts=64),
    "bitwidth": SimpleNamespace(
        layers=[SimpleNamespace(experts=range(4096))], bits=(2, 3, 4), min_count={2: 300}
    ),
}


@pytest.mark.parametrize("problem", LARGE)
def test_small_instances_need_no_thread(problem: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their dynamic programs run where they are called; those of large ones in a thread."""

    def in_a_thread(*_: object) -> Any:
        raise AssertionError("a thread for less than it costs")

    monkeypatch.setattr(own, "run_interruptible", in_a_thread)
    assert moeopt.solve(RANDOM[problem][0](1), "dp").status in ("optimal", "infeasible")
    home = get_problem(problem)
    assert not home.algorithm(home.exact[0]).brief(LARGE[problem])


@pytest.mark.parametrize("method", ["threshold", "auto"])
def test_a_schedule_needs_no_thread(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """How long it takes is for `benchmarks/run.py online` to say."""

    def in_a_thread(*_: object) -> Any:
        raise AssertionError("a thread for less than it costs")

    monkeypatch.setattr(own, "run_interruptible", in_a_thread)
    assert moeopt.solve(RANDOM["tri_domain"][0](1), method).status == "optimal"
