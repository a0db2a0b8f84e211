"""Ways for later tokens: the stochastic optimum where all futures are known."""

from itertools import product

import numpy as np
import pytest

from moeopt import Futures, cache
from tests.rooms.cache import best_uniform, decide, greedy_marginal
from tests.rooms.core import Search
from tests.shares import first

LAYERS, EXPERTS, TOKENS = 3, 4, 12


def stretch(rng: np.random.Generator, copies: int, fetch_ns: int) -> cache.Instance:
    """Return so many stretches of tokens, one after another."""
    popular = rng.dirichlet(np.full(EXPERTS, 0.7), LAYERS)
    used = [
        [rng.choice(EXPERTS, 2, replace=False, p=(row + 0.01) / (row + 0.01).sum()).tolist()
         for row in popular]
        for _ in range(copies * TOKENS)
    ]  # fmt: skip
    costs = {"gpu_ns": 2, "cpu_ns": 9, "activation_ns": 3, "fetch_ns": fetch_ns}
    return cache.Instance.from_arrays(
        accesses=used, experts=EXPERTS, slots=5, name=f"tiny-{copies}", **costs
    )


def alone(futures: cache.Instance, number: int) -> cache.Instance:
    """Return one of the stretches."""
    part = futures.accesses[number * TOKENS : (number + 1) * TOKENS]
    return futures.model_copy(update={"accesses": part})


@pytest.mark.parametrize("seed", first(1, [*range(4)]))
@pytest.mark.parametrize("fetch_ns", [1, 9, 14, 40])
@pytest.mark.parametrize("quantile", [None, 0.7])
def test_with_all_futures_known_it_is_the_stochastic_optimum(
    fetch_ns: int, quantile: float | None, seed: int
) -> None:
    """Of the mean; a quantile is searched for, and is no worse than by the rules it starts from."""
    rng = np.random.default_rng(seed)
    seen, futures = stretch(rng, 1, fetch_ns), stretch(rng, 4, fetch_ns)
    parts = [alone(futures, number) for number in range(4)]
    rule, search = Futures(samples=4, quantile=quantile), Search()
    decide(seen, lambda number, stream: futures, search, rule)

    def value(ways: tuple[int, ...]) -> int:
        plan = cache.Solution(instance=futures.name, ways=ways)
        return rule.value([cache.objective(part, plan) for part in parts])

    plans = product(range(EXPERTS + 1), repeat=LAYERS)
    best = min(value(ways) for ways in plans if sum(ways) <= seen.slots)
    assert search.objective == value(search.solution.ways)
    if quantile is None:
        assert search.objective == best
    else:
        starts = [simple(seen).ways for simple in (best_uniform, greedy_marginal)]
        assert best <= search.objective <= min(value(ways) for ways in starts)
    assert (search.bound is None) == (quantile is not None)
    assert search.bound is None or search.bound <= best
