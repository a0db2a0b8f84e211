"""Brief algorithms need no start of a heuristic: what a small instance takes is theirs alone."""

from types import SimpleNamespace

import pytest

import moeopt
from tests.problems.every_problem import RANDOM
from tests.rooms.problems import get_problem

LARGE = {
    "deferral": SimpleNamespace(layers=200, penalty=range(9)),
    "balance": SimpleNamespace(slices_per_unit=64, experts=range(1024)),
    "cache": SimpleNamespace(layers=26, experts=64),
    "bitwidth": SimpleNamespace(
        layers=[SimpleNamespace(experts=range(4096))], bits=(2, 3, 4), min_count={2: 300}
    ),
}


@pytest.mark.parametrize("problem", LARGE)
def test_small_instances_are_brief(problem: str) -> None:
    """Large ones are not."""
    instance, home = RANDOM[problem][0](1), get_problem(problem)
    brief = home.algorithm(home.exact[0]).brief
    assert brief(instance)
    assert not brief(LARGE[problem])
    assert moeopt.solve(instance, "dp").status in ("optimal", "infeasible")
