"""TriMoE's systems as plans: the engine runs what the problems' methods decide."""

from collections.abc import Callable

import numpy as np
import pytest

from benchmarks.papers.trimoe import layouts, relayout
from benchmarks.papers.trimoe.executed import mean_ms, run, speedup
from benchmarks.papers.trimoe.sensitivity import knee
from benchmarks.papers.trimoe.setting import MODELS, Setting
from benchmarks.papers.trimoe.systems import SYSTEMS, rows
from benchmarks.papers.trimoe.utilization import computing
from moeopt import simulate, solve
from tests.rooms.core import split_name
from tests.rooms.layout import objective, refined, starting
from tests.rooms.sim import (
    step_costs,
)
from tests.rooms.tri_domain import HEURISTICS, STRIPED, Layout

SMALL = Setting("deepseek-v2", batch=96, samples=1, warm_up=3, steps=2)


@pytest.mark.parametrize("system", ["ktransformers", "trimoe-refined", "trimoe-known"])
def test_the_engine_agrees_with_the_checker(system: str) -> None:
    """Every step's makespan is the objective of its schedule, rebuilt as an instance."""
    plan = SYSTEMS[system](SMALL)
    assert plan.layout is not None
    place = np.array([[STRIPED if d is None else d for d in row] for row in plan.layout])
    method = HEURISTICS[split_name(plan.policy)[0]]
    judged = []
    for load, at in zip(rows(SMALL), place, strict=True):
        domains = layouts.domains(SMALL, load, at, method)
        active = np.flatnonzero(load)
        c = step_costs(SMALL.machine, SMALL.shape).experts(load[active])
        striped = at[active] == STRIPED
        who = np.array([domains[e] for e in active])
        gpu = np.where(striped, c.gpu_miss_striped_ns, c.gpu_miss_localized_ns)[who == "gpu"].sum()
        cpu = np.where(striped, c.cpu_striped_ns, c.cpu_localized_ns)[who == "cpu"].sum()
        dimms = np.zeros(16, dtype=np.int64)
        for row, expert in enumerate(active):
            if who[row] == "ndp":
                dimms[at[expert]] += c.ndp_ns[row]
            elif striped[row]:
                dimms += c.dram_striped_ns
            else:
                dimms[at[expert]] += c.dram_localized_ns
        judged.append(max(gpu, cpu, dimms.max()))
    assert run(system, SMALL).makespan_ns.ravel().tolist() == judged


@pytest.mark.slow
def test_the_optimum_is_below_every_system() -> None:
    """Step by step, and it is the objective that bound-and-pack proves."""
    best = run("optimum", SMALL).makespan_ns
    for system in SYSTEMS:
        assert (run(system, SMALL).makespan_ns >= best).all(), system
    for at, load in zip(best.ravel().tolist(), rows(SMALL), strict=True):
        instance = layouts.instance(SMALL, load[None])
        result = solve(instance, "bound-and-pack")
        assert result.status == "optimal"
        assert result.solution is not None
        assert at == objective(instance, result.solution)


def test_parts_of_trimoe_do_what_they_are_for() -> None:
    """Refinement gains on the whole; an optimal schedule is at least as good on the same layout.

    What relayout can do at most is more than what it does, which may be less than nothing.
    """
    greedy, improved, best = (
        run(name, SMALL).makespan_ns
        for name in ("trimoe-greedy", "trimoe-refined", "optimal-schedule")
    )
    assert improved.mean() < greedy.mean()
    assert (best <= improved).all()
    upper, executed = (run(name, SMALL).mean_ms for name in ("trimoe-known", "trimoe"))
    assert upper < min(executed, improved.mean() / 1e6)


def test_baselines_use_only_the_devices_they_have() -> None:
    """Klotski the GPU, KTransformers no NDP unit, MoNDE no CPU."""
    assert run("klotski", SMALL).busy["cpu"] == 0
    assert run("monde", SMALL).busy["cpu"] == 0
    assert computing("ktransformers", SMALL)["ndp"] == 0
    assert computing("monde", SMALL)["ndp"] > 0.1
    assert computing("klotski", SMALL)["gpu"] < 0.086  # 3.1


def test_a_slower_memory_slows_a_baseline_bound_by_it() -> None:
    """KTransformers reads everything from the host."""
    slow = SMALL.on(host_efficiency=0.716)
    assert speedup("ktransformers", "ktransformers", SMALL, SMALL) == 1
    assert mean_ms("ktransformers", slow) / mean_ms("ktransformers", SMALL) == pytest.approx(
        1 / 0.716, rel=0.05
    )


def test_loads_are_tokens_times_top_k() -> None:
    """Steps of the warm-up decide the layout, the others count."""
    assert SMALL.loads.shape == (5, 1, 160)
    assert (SMALL.loads.sum(axis=2) == 96 * 6).all()
    assert (SMALL.came == SMALL.loads[3:]).all()
    assert rows(SMALL).tolist() == [*SMALL.loads[3].tolist(), *SMALL.loads[4].tolist()]


def test_fewer_samples_are_the_first_ones() -> None:
    """So that the optimum of a few is compared with the same loads."""
    few, many = (SMALL.on(samples=n).loads for n in (2, 4))
    assert (many[:, :2] == few).all()


@pytest.mark.parametrize("policy", relayout.POLICIES)
def test_relayout_moves_no_more_than_fits(policy: str) -> None:
    """At most four moves and two prefetches before a step; none changes nothing."""
    setting = SMALL.on(migrations=policy, windows="two")
    place, resident = relayout.decided(setting)
    before = layouts.offline(SMALL)
    for step in place.reshape(SMALL.steps, SMALL.samples, -1):
        assert ((step != before).sum(axis=1) <= 4).all()
        before = step
    assert all(len(row) <= 2 for row in resident)
    none = run("trimoe-refined", SMALL).makespan_ns
    assert (run("trimoe", setting).makespan_ns == none).all() == (policy == "none")


def test_relayout_keeps_what_is_resident() -> None:
    """Prefetched experts come on top of those that stay, and are others."""
    setting = SMALL.on(residents=3, windows="two")
    _, resident = relayout.decided(setting)
    for row, kept in zip(resident, 2 * layouts.hottest(setting).tolist(), strict=True):
        assert set(kept) < set(row)
        assert len(row) == len(set(row))


def test_plans_name_their_assumptions() -> None:
    """The default reading is that of the heuristics; another one gives other schedules."""
    for system in ("trimoe-greedy", "trimoe-refined", "trimoe", "trimoe-known"):
        plan = SYSTEMS[system](SMALL)
        name, assumed = split_name(plan.policy)
        assert assumed["tie_order"] == "cpu"
        assert assumed.get("refinement", "one") == "one"
        bare = simulate(
            plan.model_copy(update={"policy": name}), SMALL.machine, SMALL.shape, rows(SMALL)[None]
        )
        assert (bare.layer_ns.ravel() == run(system, SMALL).makespan_ns.ravel()).all()
    large = SMALL.on(batch=512, warm_up=1)
    for changes in ({"tie_order": "gpu"}, {"refinement": "all"}):
        other = run("trimoe-refined", large.on(**changes))
        assert (other.makespan_ns != run("trimoe-refined", large).makespan_ns).any()


def test_layouts_are_tuned_for_the_reading_that_runs() -> None:
    """What the tuning expects of a layout is what the engine measures, under every reading."""
    spans = []
    for tie_order, refinement in (("cpu", "one"), ("gpu", "one"), ("cpu", "all")):
        reading = {"tie_order": tie_order, "refinement": refinement}
        setting = SMALL.on(batch=512, warm_up=1, **reading)
        (place,) = layouts.offline(setting)
        layout = Layout(np.zeros(len(place), dtype=np.bool_), place)
        instances = [layouts.instance(setting, load[None]) for load in rows(setting)]
        spans.append([ns for i in instances for ns in refined(i, layout, **reading)[1]])
        assert spans[-1] == run("trimoe-refined", setting).makespan_ns.ravel().tolist()
    assert len({tuple(row) for row in spans}) == 3


def test_each_scheduler_has_its_own_layout() -> None:
    """The share of cold experts is the best on the earlier steps under the scheduler that runs."""
    earlier = layouts.instance(SMALL, SMALL.earlier[0])
    found = {scheduler: _layout(layouts.offline(SMALL, scheduler)) for scheduler in SCHEDULERS}
    spans = {
        (runs, tuned): sum(schedule(earlier, found[tuned])[1])
        for runs, schedule in SCHEDULERS.items()
        for tuned in SCHEDULERS
    }
    assert spans["greedy", "greedy"] < spans["greedy", "refined"]
    assert spans["refined", "refined"] <= spans["refined", "greedy"]


def test_greedy_of_the_layout_search_is_that_of_the_engine() -> None:
    """Makespans by which the share is chosen are those that the engine measures."""
    layout = _layout(layouts.offline(SMALL, "greedy"))
    _, spans = starting(layouts.instance(SMALL, rows(SMALL)), layout)
    assert spans == run("trimoe-greedy", SMALL).makespan_ns.ravel().tolist()


SCHEDULERS: dict[layouts.Scheduler, Callable[..., tuple[object, list[int]]]] = {
    "greedy": starting,
    "refined": refined,
}


def _layout(place: layouts.Dimms) -> Layout:
    """Return the layout of the one sample, without residents."""
    return Layout(np.zeros(place.shape[1], dtype=np.bool_), place[0])


def test_the_offline_layout_may_see_less() -> None:
    """The mean of the warm-up, or its last steps; with as few steps as these all of them."""
    assert SMALL.earlier.shape == (1, 3, 160)
    assert SMALL.on(offline_loads="mean").earlier.shape == (1, 1, 160)
    longer = SMALL.on(warm_up=6)
    last = longer.on(offline_loads="last four steps").earlier
    assert (last == longer.earlier[:, 2:]).all()
    assert (SMALL.on(offline_loads="last four steps").earlier == SMALL.earlier).all()


def test_residents_are_the_hottest_and_help() -> None:
    """Four experts with most tokens on average."""
    with_four = SMALL.on(residents=4)
    plan = SYSTEMS["monde"](with_four)
    assert plan.resident is not None
    hottest = np.argsort(-SMALL.mean_load[0], kind="stable")[:4]
    assert set(plan.resident[0]) == set(hottest.tolist())
    assert mean_ms("monde", with_four) < mean_ms("monde", SMALL)


def test_a_knee_is_where_the_curve_bends() -> None:
    """Far below the line between the ends; a straight one has it at its start."""
    assert knee((0, 1, 2, 3, 4), (10.0, 2.0, 1.5, 1.2, 1.0)) == 1
    assert knee((0.125, 0.25, 0.5, 1.0, 2.0), (18.1, 12.8, 10.5, 10.5, 10.7)) == 0.5
    assert knee((0, 1, 2), (1.0, 1.0, 1.0)) == 0


def test_the_models_are_those_of_table_2() -> None:
    """In its order, with its experts and top-k."""
    shapes = [(s.routed_experts, s.top_k) for s in (Setting(m).shape for m in MODELS)]
    assert shapes == [(160, 6), (128, 8), (128, 8)]
