"""Systems on their own layouts: by hand, by what they knew, and against the best of all."""

import numpy as np
import pytest

from tests.problems.layout.layout_random_instances import KINDS, random_instance, with_schema_2
from tests.problems.layout.test_layout_heuristics import rows
from tests.rooms.core import HINDSIGHT, THIS_STEP
from tests.rooms.layout import (
    ALL_STRIPED,
    BEST_CUT,
    COPIES,
    HEURISTICS,
    SYSTEMS,
    Instance,
    cold_localized,
    executed,
    expected_ndp_ns,
    expected_ns,
    loads,
    monde,
    objective,
    on_layout,
    trimoe,
    violations,
)
from tests.rooms.problems import get_problem
from tests.rooms.tri_domain import Layout
from tests.rooms.tri_domain import heuristics as fixed
from tests.rooms.tri_domain import objective as fixed_objective
from tests.shares import shares

FORECAST = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
"""The opposite of what comes in `rows(10)`: 8 % of 55 tokens are experts 0 and 1."""


def forecast(instance: Instance, tokens: tuple[int, ...] = FORECAST) -> Instance:
    """Return the instance with a forecast."""
    return instance.model_copy(update={"schema_version": 2, "forecast_tokens": tokens})


@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.parametrize("seeds", shares(1, 4))
def test_solutions_are_valid_and_the_same_each_time(name: str, seeds: range) -> None:
    """On every kind of instance, with a forecast and without."""
    for kind in KINDS:
        for seed in seeds:
            instance = random_instance(seed, kind)
            given = tuple((seed + 2 * row) % 5 for row in range(instance.experts))
            for one in (instance, forecast(instance, given)):
                solution = SYSTEMS[name](one)
                assert violations(one, solution, objective(one, solution)) == []
                assert SYSTEMS[name](one) == solution


def test_a_scenario_on_a_layout_costs_what_the_layout_says() -> None:
    """Also in schema 2: the schedule's makespan by tri_domain's checker is the scenario's here."""
    several = 0
    for seed in range(60):
        instance = with_schema_2(random_instance(seed, KINDS[seed % len(KINDS)]), seed)
        layout = cold_localized(instance, "experts 0.5", "in turn")
        solution = executed(instance, layout, fixed.trimoe)
        for number, load in enumerate(loads(instance, solution)):
            layer = on_layout(instance, layout, number)
            if layer is not None:
                assert fixed_objective(layer, fixed.trimoe(layer)) == load.makespan_ns
                several += 1
    assert several > 60


def test_each_system_has_its_own_layout() -> None:
    """TriMoE localizes the cold, MoNDE everything, the others nothing; all by the forecast."""
    instance = forecast(rows(10, hbm_slots=1))
    layouts = {name: SYSTEMS[name](instance) for name in SYSTEMS}
    assert {layout.resident for layout in layouts.values()} == {(*[False] * 9, True)}
    for name in ALL_STRIPED:
        assert layouts[name].dimm == (None,) * 10
    assert layouts["monde"].dimm == (1, 0, 1, 0, 1, 0, 1, 0, 1, 0)
    for name in ("trimoe", "trimoe-best-schedule"):
        few = SYSTEMS[name](instance, cold_cut="tokens 0.08")
        assert few.dimm == (1, 0, *[None] * 8)
        assert layouts[name] == SYSTEMS[name](instance, cold_cut=BEST_CUT) != few


def test_assumptions_of_the_cut_and_the_dimm() -> None:
    """Half of the experts; NDP work of 10 each is balanced as it comes."""
    instance = forecast(rows(10))
    half = trimoe(instance, cold_cut="experts 0.5", dimm_choice="in turn")
    assert half.dimm == (0, 1, 0, 1, 0, *[None] * 5)
    work = rows(4, tokens=[1, 2, 3, 4], ndp_ns=[10, 20, 30, 40])
    # 4 to DIMM 0 (40), 3 to 1 (30), 2 to 1 (50), 1 to 0 (50); in turn: 0, 1, 0, 1
    balanced = forecast(work, (1, 2, 3, 4))
    assert monde(balanced, dimm_choice="balanced").dimm == (0, 1, 1, 0)
    assert monde(balanced).dimm == (1, 0, 1, 0)


def test_the_best_cut_follows_what_the_machine_is_good_at() -> None:
    """Slow hosts: all localized. Slow NDP: none. By the forecast alone, whatever comes."""
    assert None not in trimoe(forecast(rows(10)), cold_cut=BEST_CUT).dimm
    slow = {name: [10] * 10 for name in ("gpu_miss_striped_ns", "cpu_striped_ns")}
    instance = forecast(rows(10, ndp_ns=[1000] * 10, **slow))
    assert set(trimoe(instance, cold_cut=BEST_CUT).dimm) == {None}
    # Half a token is expected of each: it comes with p = 0.39, and then 1.27 tokens on average. One
    # runs on a host, one on the DIMM, both for p x 1.27 x 1000 ns.
    half = forecast(rows(2, tokens=[1, 0], ndp_ns=[1000, 1000]), (1, 1))
    one_dimm = Layout(np.zeros(2, dtype=bool), np.array([0, 0]))
    assert expected_ns(half, one_dimm) == 500


def test_dimm_slots_leave_the_coldest_localized() -> None:
    """Two slots on each of two DIMMs: the coldest four; MoNDE's other six stay striped."""
    instance = forecast(rows(10, dimm_slots=2))
    for choice in ("in turn", "balanced"):
        dimm = monde(instance, dimm_choice=choice).dimm
        assert (dimm.count(0), dimm.count(1), dimm[4:]) == (2, 2, (None,) * 6)


def test_work_is_expected_by_the_instance_s_own_times() -> None:
    """Between token counts straight lines, above them in proportion, below one its chance."""
    instance = rows(4, tokens=[1, 3, 8, 0], ndp_ns=[10, 20, 70, 10])
    # 12 tokens in all, and 120 are forecast: a tenth of each
    expected = expected_ndp_ns(forecast(instance, (5, 20, 55, 40)))
    assert expected == pytest.approx([5, 15, 45, 30])
    assert expected_ndp_ns(forecast(instance, (0, 0, 0, 1)))[3] == pytest.approx(70 * 12 / 8)


def test_more_is_forecast_than_a_file_could_state() -> None:
    """One token takes the longest time that there is, and more than one is expected."""
    longest = [[2**42, 2**42]]
    instance = Instance.from_arrays(
        tokens=[[1, 1]],
        gpu_hit_ns=longest,
        gpu_miss_striped_ns=longest,
        gpu_miss_localized_ns=longest,
        cpu_striped_ns=longest,
        cpu_localized_ns=longest,
        ndp_ns=longest,
        dimms=2,
        hbm_slots=0,
        dram_striped_ns=2**42,
        dram_localized_ns=2**42,
        forecast_tokens=[1000, 1],
    )
    for name, rule in HEURISTICS.items():
        assert violations(instance, rule(instance)) == [], name


def test_a_system_without_a_forecast_has_hindsight() -> None:
    """The loads in place of the forecast, and it is said."""
    instance, problem = rows(10), get_problem("layout")
    real = tuple(instance.scenarios[0].tokens)
    for name, system in SYSTEMS.items():
        said = problem.information(name, instance)
        with_forecast = problem.information(name, forecast(instance))
        assert system(instance) == system(forecast(instance, real))
        if name in ALL_STRIPED:
            assert said == with_forecast == THIS_STEP
        else:
            assert said == HINDSIGHT
            assert with_forecast == f"a forecast; then {THIS_STEP}"
    resident = rows(10, hbm_slots=1)
    assert problem.information("ktransformers", resident) == HINDSIGHT
    assert problem.information("lpt", forecast(resident)) == HINDSIGHT


def test_hindsight_layouts_ignore_the_forecast() -> None:
    """They decide on the loads, whatever was forecast."""
    instance = rows(10, hbm_slots=1)
    for name in sorted(HEURISTICS.keys() - SYSTEMS.keys() - COPIES.keys()):
        assert HEURISTICS[name](forecast(instance)) == HEURISTICS[name](instance)


@pytest.mark.parametrize("seeds", [range(3), pytest.param(range(10), marks=pytest.mark.slow)])
def test_the_best_schedule_is_no_later_than_trimoe_s(seeds: range) -> None:
    """TriMoE's layout with its own schedule and with the best one: often better, never later."""
    better = 0
    for kind in ("mixed", "hosts bind", "monotone", "idle experts"):
        for seed in seeds:
            instance = random_instance(seed, kind, 7)
            own, best = (
                objective(instance, SYSTEMS[name](instance))
                for name in ("trimoe", "trimoe-best-schedule")
            )
            assert best <= own
            better += best < own
    assert better > len(seeds) // 3


def test_hybrimoe_decides_as_ktransformers() -> None:
    """Both take the best prefix of one queue, where nothing is resident."""
    same = 0
    for kind in ("mixed", "hosts bind", "monotone"):
        for seed in range(10):
            instance = random_instance(seed, kind, 8).model_copy(update={"hbm_slots": 0})
            ours, other = SYSTEMS["hybrimoe"](instance), SYSTEMS["ktransformers"](instance)
            same += objective(instance, ours) == objective(instance, other)
    assert same == 30
