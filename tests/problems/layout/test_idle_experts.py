"""Ties of the exact methods: experts without tokens are localized where that costs nothing."""

import pytest

import moeopt
from tests.rooms.layout import Instance, Solution, objective, violations, with_idle_localized


def _instance(dimm_slots: int | None = None, hbm_slots: int = 0) -> Instance:
    """Two pieces of NDP work, 7 and 3, and three idle experts; hosts take a hundred each."""
    active, idle = [1, 1], [0, 0, 0]
    host = [100, 100, *idle]
    return Instance(
        name="two-of-five",
        dimms=2,
        hbm_slots=hbm_slots,
        dimm_slots=dimm_slots,
        experts=5,
        dram_striped_ns=50,
        dram_localized_ns=50,
        scenarios=[
            {
                "weight": 1,
                "tokens": active + idle,
                "gpu_hit_ns": host,
                "gpu_miss_striped_ns": host,
                "gpu_miss_localized_ns": host,
                "cpu_striped_ns": host,
                "cpu_localized_ns": host,
                "ndp_ns": [7, 3, *idle],
            }
        ],
    )


def _solution(resident: int | None = None) -> Solution:
    return Solution(
        instance="two-of-five",
        resident=tuple(row == resident for row in range(5)),
        dimm=(0, 1, None, None, None),
        assignment=(("ndp", "ndp", None, None, None),),
    )


def test_the_dimm_with_least_work_is_next() -> None:
    """Each idle one counts as the shortest piece, 3: on DIMM 1 twice, then there are 7 and 9."""
    found = with_idle_localized(_instance(), _solution())
    assert found.dimm == (0, 1, 1, 1, 0)
    assert found.assignment == _solution().assignment


def test_slots_and_residents_are_kept() -> None:
    """LA-C4 leaves one place on each DIMM; whoever is resident stays striped, and takes none."""
    instance = _instance(dimm_slots=2)
    found = with_idle_localized(instance, _solution())
    assert found.dimm == (0, 1, 1, 0, None)
    assert not violations(instance, found)
    held = with_idle_localized(_instance(hbm_slots=1), _solution(resident=2))
    assert held.dimm == (0, 1, None, 1, 1)


@pytest.mark.parametrize("method", ["bound-and-pack", "cp-sat", "milp"])
def test_exact_methods_localize_what_is_idle(method: str) -> None:
    """With one slot too few the last stays striped; the objective is the optimum either way."""
    for slots, striped in ((None, 0), (2, 1)):
        instance = _instance(dimm_slots=slots)
        result = moeopt.solve(instance, method, time_limit_s=10)
        assert result.status == "optimal"
        assert result.objective == objective(instance, result.solution) == 7
        assert sum(d is None for d in result.solution.dimm) == striped
