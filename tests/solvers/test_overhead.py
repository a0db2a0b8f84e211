"""How much longer than its search a public call takes: checks and records, no thread."""

from collections.abc import Callable
from time import thread_time_ns
from types import SimpleNamespace
from typing import Any

import pytest

import moeopt
from moeopt.problems.registry import get_problem
from moeopt.problems.tri_domain.threshold import FIRST_WORK, NO_CUTOFF, certify
from moeopt.solvers.backends import own
from tests.problems.every_problem import RANDOM

REPEATS = 60


def least_ns(call: Callable[[], object]) -> int:
    """Return the least CPU time of this thread over some calls, which other processes spare."""

    def once() -> int:
        begin = thread_time_ns()
        call()
        return thread_time_ns() - begin

    return min(once() for _ in range(REPEATS))


def test_a_public_call_is_not_many_searches() -> None:
    """Some 6 times one of 15 microseconds; a thread, or versions looked up anew, make it 12."""
    instance = moeopt.generate(
        "tri_domain",
        machine="trimoe",
        model="qwen3-235b-a22b",
        workload="trimoe-skew",
        batch=256,
        seed=3,
    )
    c = instance.columns
    columns = (c.gpu_ns, c.cpu_ns, c.ndp_ns, c.gpu_dram_ns, c.cpu_dram_ns, c.dimm)
    search_ns = least_ns(lambda: certify(*columns, instance.dimms, NO_CUTOFF, FIRST_WORK))
    for method in ("threshold", "auto"):
        call_ns = least_ns(lambda method=method: moeopt.solve(instance, method))
        assert call_ns <= 10 * search_ns, (method, call_ns / search_ns)


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
    assert not get_problem(problem).exact_methods["dp"].brief()(LARGE[problem])
