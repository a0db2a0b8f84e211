"""Residents for later steps: the stochastic optimum where all futures are known, and valid ones."""

from itertools import combinations

import numpy as np
import pytest

from moeopt import Futures, placement
from tests.rooms.core import Search
from tests.rooms.placement import decide, draw, future_ns, held_of

LAYERS, EXPERTS = 2, 4


def tiny(seed: int, steps: int, **options: object) -> placement.Instance:
    """Return few steps of two small layers, experts of one or two tokens."""
    rng = np.random.default_rng(seed)
    tokens = rng.integers(0, 3, (steps, LAYERS, EXPERTS)) * (
        rng.random((steps, LAYERS, EXPERTS)) < 0.6
    )
    tokens[0, 0, 0] = 1
    fields = {"gpu_slots": 3, "gpu_expert_ns": [0, 3, 4], "offload_expert_ns": [0, 7, 11]}
    fields |= {"layer_offload_fixed_ns": 5, "name": f"tiny-{seed}"} | options
    return placement.Instance.from_arrays(tokens=tokens, **fields)  # type: ignore[arg-type]


def best_value(futures: placement.Instance, rule: Futures) -> int:
    """Return the stochastic optimum by trying every placement."""
    values = []
    for size in range(futures.gpu_slots + 1):
        for chosen in combinations(range(LAYERS * EXPERTS), size):
            held = np.zeros(LAYERS * EXPERTS, dtype=bool)
            held[list(chosen)] = True
            held = held.reshape(LAYERS, EXPERTS)
            values.append(rule.value(future_ns(futures, held, rule.samples)))
    return min(values)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("dispatch", ["resident", "free"])
def test_with_all_futures_known_it_is_the_stochastic_optimum(seed: int, dispatch: str) -> None:
    """The least mean over all placements, where the draw returns the futures themselves."""
    futures = tiny(100 + seed, 6, dispatch=dispatch)
    rule, search = Futures(samples=6), Search()
    decide(tiny(seed, 3, dispatch=dispatch), lambda number, stream: futures, search, rule)
    assert search.objective == best_value(futures, rule)
    assert not placement.violations(futures, search.solution)
    assert placement.objective(futures, search.solution) == search.objective


def test_a_quantile_is_that_of_futures() -> None:
    """What is offered is the cost that the share of futures stays within."""
    futures = tiny(3, 8)
    rule, search = Futures(samples=4, quantile=0.5), Search()
    decide(tiny(4, 3), lambda number, stream: futures, search, rule)
    held = held_of(search.solution, LAYERS, EXPERTS)
    two_steps_each = future_ns(futures, held, 4)
    assert search.objective == sorted(two_steps_each.tolist())[1]
    assert sum(two_steps_each) == placement.objective(futures, search.solution)


@pytest.mark.parametrize("options", [{"restriction": "equal-counts"}, {"fill": True}, {}])
def test_rules_of_the_instance_hold_and_the_seed_decides(options: dict[str, object]) -> None:
    """Also where the forecast is the library's own."""
    seen, rule = tiny(1, 5, **options), Futures(samples=16)
    found = []
    for _ in range(2):
        search = Search()
        decide(seen, draw(seen, rule, 0), search, rule)
        found.append(search.solution)
    assert found[0] == found[1]
    moved = found[0].model_copy(update={"instance": seen.name})
    assert not placement.violations(seen, moved)


def test_whole_layers_are_exact() -> None:
    """The knapsack of layers on the drawn steps."""
    seen, rule, search = tiny(2, 5, restriction="whole-layers", gpu_slots=4), Futures(8), Search()
    futures = draw(seen, rule, 0)(8, 0)
    decide(seen, lambda number, stream: futures, search, rule)
    both = [np.repeat([[a], [b]], EXPERTS, axis=1) for a, b in ((0, 0), (0, 1), (1, 0))]
    costs = [future_ns(futures, held.astype(bool), 8).sum() for held in both]
    assert search.objective == min(costs)
