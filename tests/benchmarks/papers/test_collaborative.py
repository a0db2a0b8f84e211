"""The collaborative cache: speeds, energy and hits, and the same numbers from the engine."""

from pathlib import Path

import numpy as np
import pytest

import moeopt
from benchmarks.papers import data
from benchmarks.papers.charts import Curve
from benchmarks.papers.collaborative import cached, charts, statistics, sweeps, systems
from benchmarks.papers.collaborative.baselines import (
    fiddler_plan,
    layer_split_plan,
    on_demand_plan,
    pre_gated_token_ns,
)
from benchmarks.papers.collaborative.systems import BASELINES, TOP_K, tokens_per_s
from moeopt import Plan, get_machine, simulate
from tests.benchmarks.papers.nearness import (
    HARD,
    SOFT,
    error_of,
    figure_of,
    value_of,
    without_traces,
)
from tests.real_traces import real_trace_file
from tests.rooms.cache import Instance, Solution, best_uniform, objective
from tests.rooms.sim import Routing, Times, Trace, Workload, get_model, read_trace, routing_trace

MODEL = get_model("mixtral-8x7b")

SLOTS = 12


@pytest.fixture(scope="module")
def trace() -> Trace:
    """Return 40 tokens through four layers, top-2 of 8."""
    workload = Workload(name="small", skew=1.0, drift=0.0, source="a test")
    return routing_trace(workload, 8, 2, 4, 40, seed=3)


@pytest.fixture(scope="module")
def instance(trace: Trace) -> Instance:
    """Return the cache problem of the small trace."""
    made = moeopt.generate(
        "cache",
        machine=get_machine(cached.MACHINE),
        model=MODEL,
        trace=trace,
        slots=SLOTS,
        layers=4,
        quantum_ns=1,
    )
    assert isinstance(made, Instance)
    return made


@pytest.mark.parametrize("figure", ["G4", "G5"])
def test_soft_set(figure: str) -> None:
    """Mixtral within 10 %, with assumptions; Phi is not computable and says why."""
    assert error_of(figure) <= SOFT
    ours = figure_of(figure).ours
    assert ours.assumptions
    assert ours.values[1] is None
    assert "No trace of Phi" in ours.note


@pytest.mark.parametrize("place", [0, 1, 2, 3, 5])
def test_energy_but_for_sixteen_threads(place: int) -> None:
    """G10 within 10 %; with 16 threads the paper contradicts itself, which is said."""
    assert error_of("G10", place) <= SOFT
    assert "16 threads" in figure_of("G10").ours.note


def test_hits_are_in_range() -> None:
    """G9, hard: LRU finds at least one expert 5 to 15 points more often, at 2, 3 and 4 ways."""
    with without_traces():
        some = statistics.routing().hits["LRU"][0]
    for ways in (2, 3, 4):
        random = 1 - (8 - ways) * (7 - ways) / 56
        assert 0.05 <= some[ways - 1] - random <= 0.15
    assert error_of("G9") == 0


def test_others_are_where_they_were() -> None:
    """G1 within 5 %, G7 and G8 within 25 %; G6 is a miss, and why is said.

    The mean over the layers is in G7's range, but the range is of all layers.
    """
    assert error_of("G1") <= 0.05
    assert error_of("G7") <= 0.25
    with without_traces():
        reuse = statistics.routing().reuse
    assert 0.4 <= reuse.mean() <= 0.6 < reuse.max() == value_of("G7")
    assert error_of("G8") <= 0.25
    assert value_of("G6") < 1.1
    assert "as fast" in figure_of("G6").ours.note


def test_the_table_is_an_input() -> None:
    """G2 and G3: twice the time of one expert, as the paper prints it for two."""
    for figure in ("G2", "G3"):
        assert figure_of(figure).ours.kind == "input"
        assert figure_of(figure).worst == pytest.approx(0, abs=1e-9)


def test_systems_stand_in_order() -> None:
    """The optimum is no worse than the paper's cache, which is no worse than no cache."""
    with without_traces():
        for threads in cached.THREADS:
            best, ours, alone = (
                tokens_per_s(system, threads) for system in ("optimum", "cached", "CPU only")
            )
            assert best >= ours > alone
        assert tokens_per_s("cached") > max(map(tokens_per_s, BASELINES))


def test_counts_cost_what_the_trace_does(trace: Trace, instance: Instance) -> None:
    """Every number of ways, from how often LRU holds so many: the problem's own curves and checker.

    The best uniform ways, and the exact ones, are the same too.
    """
    found = statistics.found_by_lru(Routing.of(trace, 8))
    counted = cached.on_trace(instance, found)
    for name in ("hits", "fetches", "layer_ns"):
        assert (getattr(counted.curves, name) == getattr(instance.curves, name)).all()
    assert tuple(cached.best_uniform_ways(counted)) == best_uniform(instance).ways
    ways = cached.best_ways(counted)
    judged = objective(instance, Solution(instance=instance.name, ways=tuple(ways.tolist())))
    assert cached.trace_ns(counted, ways) == judged
    assert moeopt.solve(instance, "dp").objective == judged


def test_sweeps_have_the_figures_at_their_defaults() -> None:
    """G4, G5 and two of G10; the default of 20 ms is that of the machine."""
    figures = [value_of("G4"), value_of("G5"), value_of("G10", 0), value_of("G10", 5)]
    with without_traces():
        miss, other = sweeps.single_miss(), sweeps.other_time()
    assert dict(miss.rows)[miss.default] == pytest.approx(figures)
    assert dict(other.rows)[other.default] == pytest.approx(figures, rel=1e-3)
    speeds = [values[0] for _, values in miss.rows]
    assert speeds == sorted(speeds, reverse=True)
    assert speeds[0] > speeds[-1]
    assert other.rows[0][1][0] > other.rows[-1][1][0]


def test_a_dearer_single_miss(trace: Trace, instance: Instance) -> None:
    """At 0.7 of a pair each token with one miss takes 0.4 of an expert longer."""
    found = statistics.found_by_lru(Routing.of(trace, 8))
    plain, dear = (cached.curves_of_counts(found, instance, share) for share in (0.5, 0.7))
    extra = found[:, :, 1] * round(0.4 * instance.cpu_ns)
    assert (dear.layer_ns - plain.layer_ns == extra).all()


def test_plans_run_as_the_sums_say(trace: Trace, instance: Instance) -> None:
    """On-demand, Fiddler, layer split and a cache: the engine's time is that of the counts.

    But for a cache: its copies take time, and are no hits before they end, so that the engine is
    between all hits of the counts and none.
    """
    popularity = np.array([trace.counts(np.arange(40), layer, 8) for layer in range(4)])
    ways = np.array([4, 4, 4, 0])
    found = statistics.found_by_lru(Routing.of(trace, 8))
    plans = {
        "fiddler": (fiddler_plan(popularity, SLOTS), None),
        "split": (layer_split_plan(4, 8, SLOTS), None),
        "cached": (cached.plan(ways), cached.curves_of_counts(found, instance)),
    }
    for plan, curves in plans.values():
        expected = _sum_ns(trace, instance, plan)
        if curves is None:
            assert _run_ns(trace, instance, plan) == expected
        else:
            hits, none = (int(curves.layer_ns[np.arange(4), of].sum()) for of in (ways, 0 * ways))
            assert hits < _run_ns(trace, instance, plan) <= none
    each = instance.other_ns + TOP_K * max(instance.fetch_ns, instance.gpu_ns)
    assert _run_ns(trace, instance, on_demand_plan()) == 40 * 4 * each


def test_fiddler_takes_the_most_popular_experts_of_all_layers() -> None:
    """By hand: three slots of two layers, ties to the first."""
    plan = fiddler_plan(np.array([[5, 1, 5], [9, 5, 0]]), 3)
    assert plan.resident == ((0, 2), (0,))


def test_layer_split_keeps_the_last_layers_whole() -> None:
    """As many as fit: 17 slots of 8 experts are two layers."""
    assert layer_split_plan(3, 8, 17).resident == ((), tuple(range(8)), tuple(range(8)))


def test_baselines_without_routing_by_hand() -> None:
    """56 slots are seven whole layers on the GPU; without any, the CPU does all."""
    costs = cached.costs()
    on_cpu = costs.other_ns + costs.activation_ns + 2 * costs.cpu_ns
    on_gpu = costs.other_ns + 2 * costs.gpu_ns
    with without_traces():
        assert systems.token_ns("layer split") == 7 * on_gpu + 25 * on_cpu
        assert systems.token_ns("CPU only") == 32 * on_cpu
        assert systems.token_ns("on-demand") == 32 * (costs.other_ns + 2 * costs.fetch_ns)


def test_pre_gated_by_hand() -> None:
    """32 layers of two copies of 14.01 ms each hide all computing."""
    assert pre_gated_token_ns(cached.costs(), 2) == 32 * 2 * 14_010_000


def test_a_cache_may_need_more_slots_than_there_are() -> None:
    """(29; 2) of the paper, on 56 slots."""
    ways = cached.uniform_ways(cached.costs(), 29, 2)
    assert ways.sum() == 58
    assert (ways[:29] == 2).all()


def test_charts() -> None:
    """Hit rates rise with the ways, no policy beats Belady, and LRU beats random contents."""
    with without_traces():
        some, full, speeds, grid = charts.charts()
    for chart in (some, full):
        assert isinstance(chart, Curve)
        lru, best, random = (np.array(chart.series[n]) for n in ("LRU", "Belady", "random"))
        assert (np.diff(lru) >= 0).all()
        assert (best >= lru - 1e-9).all()
        assert (lru[:6] >= random[:6]).all()
    assert isinstance(speeds, Curve)
    assert speeds.series["cached"][-1] == pytest.approx(value_of("G4"))
    assert isinstance(grid, Curve)
    assert max(curve[-1] or 0 for curve in grid.series.values()) == pytest.approx(value_of("G4"))


def test_few_threads_want_many_indexes_and_many_threads_many_ways() -> None:
    """IV-C: the best of all caches (N, M) with one thread has two ways, with 24 it has four."""
    with without_traces():
        series = charts.grid().series
    best = [max(series, key=lambda name: series[name][at]) for at in range(len(cached.THREADS))]
    assert (best[0], best[-1]) == ("(28; 2)", "(14; 4)")


def test_patterns_of_reuse() -> None:
    """G15 and G16: layers after one another no more than at random; runs of two and of more."""
    with without_traces():
        found = statistics.routing()
    assert value_of("G15") == pytest.approx(found.same.mean())
    assert value_of("G15") < 13 / 28  # at least one of two of eight experts, at random
    two, three = found.runs.mean(axis=1)
    assert (value_of("G16", 0), value_of("G16", 1)) == pytest.approx((two - three, three))
    assert figure_of("G16").ours.kind == "selected"
    assert error_of("G15") <= HARD


def test_same_number_in_the_layer_before() -> None:
    """Two tokens through three layers: shared experts at the second layer, none at the third."""
    ids = np.array([[[0, 1], [1, 2], [3, 4]], [[0, 1], [2, 3], [2, 4]]])
    same = statistics.same_as_before(Routing.of(Trace("small", ids), 8))
    assert same.tolist() == [0.5, 0.5]


def test_what_needs_a_trace_of_phi_is_left_open_in_part() -> None:
    """G11, G13 and G14 have Mixtral's or prefetching's value alone; G12 is arithmetic."""
    for name in ("G11", "G13", "G14"):
        assert figure_of(name).is_partial
        assert "No trace of Phi" in figure_of(name).ours.note
    assert figure_of("G12").verdict == "input"
    assert value_of("G12") == pytest.approx((181.8 / 49.1) / (188.9 / 78.7) - 1)
    assert value_of("G13", 6) == pytest.approx(188.9 * 32 * 12.26e-3, rel=1e-3)
    with without_traces():
        gains = [
            tokens_per_s("cached", n) / tokens_per_s("CPU only", n) - 1 for n in cached.THREADS
        ]
    assert value_of("G11") == pytest.approx(max(gains))


def test_the_stored_statistic_is_what_the_traces_give() -> None:
    """How often LRU and Fiddler's experts serve a token, measured anew; the rest takes longer."""
    folder = real_trace_file(statistics.FILES[0]).parents[1]
    with without_traces():
        stored = statistics.routing()
    paths = [folder / name for name in statistics.FILES]
    ids = np.concatenate([trace.topk_ids for trace in data.traces(paths[:-1])])
    routing = Routing.of(Trace("all", ids), 8)
    assert stored.tokens == len(ids)
    assert len(ids) < 0.5 * sum(read_trace(path).tokens for path in paths[:-1])
    assert (statistics.found_by_lru(routing) == stored.lru).all()
    popular = statistics.most_popular(paths[-1], statistics.SLOTS)
    for layer, counts in enumerate(stored.popular):
        held = [expert for where, expert in popular if where == layer]
        found = np.isin(routing.ids[layer], held).sum(axis=1)
        assert np.bincount(found, minlength=3).tolist() == counts.tolist()


@pytest.mark.slow
def test_all_of_the_stored_statistic(tmp_path: Path) -> None:
    """FIFO, Belady and reuse as well."""
    folder = real_trace_file(statistics.FILES[0]).parents[1]
    measured = statistics.measure([folder / name for name in statistics.FILES])
    with without_traces():
        stored = statistics.routing()
    assert stored.reuse == pytest.approx(measured["reuse"])
    for policy, (some, full) in stored.hits.items():
        for stored_rates, rates in zip((some, full), measured["hits"][policy], strict=True):
            assert stored_rates == pytest.approx(rates)


def _run_ns(trace: Trace, instance: Instance, plan: Plan) -> int:
    """Return how long the engine takes, with the instance's times besides experts."""
    times = Times(other_ns=(instance.other_ns,), to_host_ns=(instance.activation_ns,))
    ran = simulate(
        plan.model_copy(update={"times": times}),
        get_machine(cached.MACHINE),
        MODEL.model_copy(update={"layers": 4}),
        trace,
        quantum_ns=1,
    )
    return int(ran.step_ns.sum())


def _sum_ns(trace: Trace, instance: Instance, plan: Plan) -> int:
    """Return the cost of all lookups if the GPU holds the plan's residents."""
    total = 0
    for layer, held in enumerate(plan.resident or ()):
        found = np.isin(trace.topk_ids[:, layer], held).sum(axis=1)
        lookup = [
            instance.other_ns + max(n * instance.gpu_ns, _on_cpu(instance, n)) for n in range(3)
        ]
        total += sum(lookup[n] for n in found.tolist())
    return total


def _on_cpu(instance: Instance, held: int) -> int:
    missing = TOP_K - held
    return instance.activation_ns + missing * instance.cpu_ns if missing else 0
