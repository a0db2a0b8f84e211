"""Method ``robust``: what it decides on sampled futures, and the loops that it is made of."""

import numpy as np

from moeopt import Futures
from tests.rooms.core import Search
from tests.rooms.layout import (
    Instance,
    Solution,
    as_solution,
    best_schedules,
    loads,
    lpt,
    refined,
    violations,
)
from tests.rooms.layout import later as robust
from tests.rooms.tri_domain import Layout

FEW = Futures(samples=8)


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


def decided(observed: Instance, seed: int = 0, futures: Futures = FEW) -> Search:
    """Return the finished search on futures like `drawn`'s."""
    search = Search(60.0, seed)
    robust.decide(observed, drawn, search, futures)
    return search


def layout_of(solution: Solution) -> Layout:
    """Return a solution's layout."""
    dimm = [-1 if of is None else of for of in solution.dimm]
    return Layout(np.array(solution.resident), np.array(dimm))


def makespans_ns(instance: Instance, layout: Layout) -> list[int]:
    """Return those of the best schedules."""
    device = best_schedules(instance, layout, refined(instance, layout)[0])
    return [of.makespan_ns for of in loads(instance, as_solution(instance, layout, device))]


def test_a_decision_is_reproducible_and_no_worse_than_longest_first() -> None:
    """Its value is the sum of the makespans of the checking sample, exactly scheduled."""
    observed = drawn(3, 50)
    search, again = decided(observed), decided(observed)
    assert (again.solution, again.objective) == (search.solution, search.objective)
    layout, first = (layout_of(of) for of in (search.solution, lpt(observed)))
    value, published = (sum(makespans_ns(drawn(8, robust.CHECKING), of)) for of in (layout, first))
    assert value == search.objective <= published


def test_an_expert_idle_so_far_gets_a_place_from_one_window() -> None:
    """The forecast gives it tokens, so that it need not stay striped."""
    observed = drawn(1, 99)
    search = decided(observed)
    assert search.solution.dimm[-1] is not None
    layout = layout_of(search.solution)
    device = np.where(observed.path_times.active, 1, -1)
    assert violations(observed, as_solution(observed, layout, device)) == []


def test_a_quantile_is_that_of_the_checking_sample() -> None:
    """The value that is reported for a decision."""
    tail = decided(drawn(3, 50), futures=Futures(8, 0.75))
    made = makespans_ns(drawn(8, robust.CHECKING), layout_of(tail.solution))
    assert tail.objective == Futures(8, 0.75).value(made)


def test_a_stopped_search_has_a_decision() -> None:
    """The first one is offered before the clock is looked at."""
    search = Search(0.0)
    robust.decide(drawn(3, 50), drawn, search, FEW)
    assert search.solution is not None
