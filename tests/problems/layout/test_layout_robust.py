"""Method ``robust``: what it decides on sampled futures, and the loops that it is made of."""

import numpy as np
import pytest

from moeopt.core.futures import Futures
from moeopt.core.search import Search
from moeopt.problems.layout import robust
from moeopt.problems.layout.check import loads, objective, violations
from moeopt.problems.layout.expected.annealing import anneal
from moeopt.problems.layout.expected.sample import Sample, layout_at, place_of
from moeopt.problems.layout.heuristics import lpt
from moeopt.problems.layout.instance import Instance
from moeopt.problems.layout.local_search.state import decision_of
from moeopt.problems.layout.oracle import candidates
from moeopt.problems.layout.second_stage import Layout, as_solution, best_schedules, refined
from tests.problems.layout.layout_random_instances import KINDS, random_instance

FEW = Futures(samples=8)
QUICK = ("dimms bind", "several scenarios", "idle experts")


def drawn(number: int, stream: int, experts: int = 24) -> Instance:
    """Return windows of skewed loads on four DIMMs; costs as on TriMoE's machine, in ns."""
    rng = np.random.default_rng([7, stream])
    popularity = 1.0 / (1 + np.arange(experts))
    tokens = rng.poisson(120 * popularity / popularity.sum(), (number, experts))
    tokens[:, -1] = 0 if stream == 99 else tokens[:, -1]
    return Instance.from_arrays(
        name=f"futures-{stream}",
        tokens=tokens,
        gpu_hit_ns=np.full_like(tokens, 18),
        gpu_miss_striped_ns=np.full_like(tokens, 270),
        gpu_miss_localized_ns=np.full_like(tokens, 450),
        cpu_striped_ns=np.maximum(56, tokens),
        cpu_localized_ns=np.maximum(225, tokens),
        ndp_ns=68 * tokens,
        dimms=4,
        hbm_slots=2,
        dram_striped_ns=56,
        dram_localized_ns=225,
    )


@pytest.fixture(autouse=True)
def _little_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Anneal for milliseconds."""
    monkeypatch.setattr(robust, "MOST", 2**9)


def decided(observed: Instance, seed: int = 0, futures: Futures = FEW) -> Search:
    """Return the finished search on futures like `drawn`'s."""
    search = Search(60.0, seed)
    robust.decide(observed, drawn, search, futures)
    return search


def makespans_ns(instance: Instance, layout: Layout) -> list[int]:
    """Return those of the best schedules."""
    device = best_schedules(instance, layout, refined(instance, layout)[0])
    return [of.makespan_ns for of in loads(instance, as_solution(instance, layout, device))]


@pytest.mark.parametrize(
    "kind",
    [kind if kind in QUICK else pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS],
)
def test_enumerated_futures_give_the_stochastic_optimum(kind: str) -> None:
    """By brute force over every layout, each future with its best schedule."""
    instance = random_instance(0, kind)
    alike = [scenario.model_copy(update={"weight": 1}) for scenario in instance.scenarios]
    futures = instance.model_copy(update={"scenarios": tuple(alike)})
    search = Search(60.0)
    robust.decide(futures, lambda number, stream: futures, search, FEW)
    assert violations(futures, search.solution) == []
    valid = (one for one in candidates(futures) if not violations(futures, one))
    assert objective(futures, search.solution) == min(objective(futures, one) for one in valid)


def test_a_decision_is_reproducible_and_no_worse_than_longest_first() -> None:
    """Its value is the sum of the makespans of two checking samples, exactly scheduled."""
    observed = drawn(3, 50)
    search, again = decided(observed), decided(observed)
    assert (again.solution, again.objective) == (search.solution, search.objective)
    layout, first = (decision_of(of)[0] for of in (search.solution, lpt(observed)))
    checked = drawn(8, 4), drawn(8, 5)
    value, published = (
        sum(sum(makespans_ns(instance, of)) for instance in checked) for of in (layout, first)
    )
    assert value == search.objective <= published


def test_an_expert_idle_so_far_gets_a_place_from_one_window() -> None:
    """The forecast gives it tokens, so that it need not stay striped."""
    observed = drawn(1, 99)
    search = decided(observed)
    assert search.solution.dimm[-1] is not None
    layout = decision_of(search.solution)[0]
    device = np.where(observed.path_times.active, 1, -1)
    assert violations(observed, as_solution(observed, layout, device)) == []


def test_a_quantile_is_that_of_the_checking_samples() -> None:
    """And a layout tuned to it is no worse in it than one tuned to the mean."""
    tail, mean = decided(drawn(3, 50), futures=Futures(8, 0.75)), decided(drawn(3, 50))
    of_tail, of_mean = (
        [ns for n in (4, 5) for ns in makespans_ns(drawn(8, n), decision_of(one.solution)[0])]
        for one in (tail, mean)
    )
    assert tail.objective == Futures(8, 0.75).value(of_tail) <= Futures(8, 0.75).value(of_mean)


def test_a_stopped_search_has_a_decision() -> None:
    """The first one is offered before the clock is looked at."""
    search = Search(0.0)
    robust.decide(drawn(3, 50), drawn, search, FEW)
    assert search.solution is not None


@pytest.mark.parametrize("kind", ["drawn", *KINDS])
def test_the_quick_schedule_is_one(kind: str) -> None:
    """Its makespan is never below the best one, and near it with costs as they are."""
    instance = drawn(8, 0) if kind == "drawn" else random_instance(1, kind)
    sample = Sample([instance])
    for place in sample.longest_first():
        found = np.sort(sample.loads(place).makespan * sample.unit_ns)  # futures are shuffled
        best = np.sort(makespans_ns(instance, layout_at(place)))
        assert np.all(found >= best)
        assert kind != "drawn" or found.mean() < 1.01 * best.mean()


def test_sums_and_makespans_are_kept_while_experts_move() -> None:
    """After annealing they are those of the layout from nothing."""
    sample = Sample([drawn(16, 0)])
    at = sample.loads(place_of(decision_of(lpt(drawn(3, 50)))[0]))
    before, random = at.place.copy(), np.array([5], dtype=np.uint64)
    anneal(sample.arrays, at, random, 30.0, 0, 20_000)
    fresh = sample.loads(at.place)
    assert np.any(at.place != before)
    assert np.all(at.hosts == fresh.hosts)
    assert np.all(at.own == fresh.own)
    held = [sorted(row[1 : row[0] + 1].tolist()) for row in at.held]
    assert held == [np.flatnonzero(at.place == dimm).tolist() for dimm in range(4)]
    assert np.abs(at.makespan - fresh.makespan).max() <= 0.02 * fresh.makespan.mean()
