"""Widths for later usage: the stochastic optimum where all futures are known."""

from itertools import product

import numpy as np
import pytest

from moeopt import Futures, bitwidth
from tests.rooms.bitwidth import decide
from tests.rooms.core import Search

EXPERTS, FUTURES = 5, 4


def table(rng: np.random.Generator) -> np.ndarray:
    """Return the losses of a layer, falling with the width."""
    losses: np.ndarray = np.sort(rng.integers(0, 60, (1, EXPERTS, 3)), axis=2)[:, :, ::-1]
    return losses


def instance(losses: np.ndarray) -> bitwidth.Instance:
    """Return the layer with eleven bits for five experts."""
    return bitwidth.Instance.from_arrays(loss=losses, bits=[1, 2, 4], budget_bits=11, name="tiny")


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("quantile", [None, 1.0])
def test_with_all_futures_known_it_is_the_stochastic_optimum(
    seed: int, quantile: float | None
) -> None:
    """The least mean of all widths within the budget; a quantile is no worse than in-sample."""
    rng = np.random.default_rng(seed)
    seen, futures = instance(table(rng)), [table(rng) for _ in range(FUTURES)]
    summed, single = instance(sum(futures)), [instance(of) for of in futures]  # type: ignore[arg-type]
    rule, search = Futures(samples=FUTURES, quantile=quantile), Search()
    decide(seen, lambda number, stream: summed if stream == 0 else single[stream - 1], search, rule)

    def value(widths: tuple[int, ...]) -> int:
        plan = bitwidth.Solution(instance="tiny", bits=(widths,))
        return rule.value([bitwidth.objective(one, plan) for one in single])

    assert search.objective == value(search.solution.bits[0])
    plans = [widths for widths in product((1, 2, 4), repeat=EXPERTS) if sum(widths) <= 11]
    if quantile is None:
        assert search.objective == min(map(value, plans)) == search.bound
    else:
        assert search.objective <= np.median(list(map(value, plans)))
        assert search.bound is None
