"""Branch and bound by layer: every bound against all choices of a layer, and the whole method."""

from itertools import product

import numpy as np
import pytest

from moeopt import solve
from tests.problems.placement.placement_random_instances import random_instance
from tests.rooms.placement import (
    Flags,
    Instance,
    Layer,
    LayerTrees,
    Model,
    lagrangian,
    objective_grid,
    scale_of,
)

KINDS = ("mixed", "batched", "gpu-bound", "costly charge", "fill", "sizes, filled", "huge numbers")
SHARES = [range(1), pytest.param(range(1, 40), marks=pytest.mark.slow)]


def choices(experts: int) -> list[Flags]:
    """Return every set of a layer's experts."""
    return [np.array(held) for held in product([False, True], repeat=experts)]


def model_of(instance: Instance) -> Model:
    """Return what the method computes with."""
    return Model.of(instance, objective_grid(instance))


@pytest.mark.parametrize("seeds", SHARES)
@pytest.mark.parametrize("kind", KINDS)
def test_any_weights_give_a_bound_and_trees_close(kind: str, seeds: range) -> None:
    """Random weights, the relaxation's own, and the trees' ends, all against every choice."""
    rng = np.random.default_rng(KINDS.index(kind))
    for seed in seeds:
        instance = random_instance(seed, kind)
        model = model_of(instance)
        held = rng.random((instance.layers, instance.experts)) < 0.5
        trees = LayerTrees(model, held, scale_of(model), lambda: False)
        prices = [trees.price * sizes for sizes in model.capacity.sizes]
        least = [
            min(of.cost_ns(x, model.fixed_ns) + int(price[x].sum()) for x in choices(len(price)))
            for of, price in zip(model.layers, prices, strict=True)
        ]
        for of, price, optimum in zip(model.layers, prices, least, strict=True):
            layer = Layer(of, model.fixed_ns, price, trees.scale)
            nobody = np.full(len(price), -1, dtype=np.int8)
            weights = rng.integers(0, trees.scale, size=of.rows, endpoint=True)
            assert layer.bound(weights, nobody) <= optimum * trees.scale
            root = layer.relaxed(nobody, np.full(len(price), 0.5))
            assert root.bound == layer.bound(root.weights, nobody) <= optimum * trees.scale
        limit = model.capacity.most if trees.price >= 0 else model.capacity.least
        whole = sum(least) - trees.price * limit
        assert trees.bound_ns() <= whole
        trees.search(rng)
        assert trees.bound_ns() <= whole
        while trees.grow(100):
            pass
        assert trees.bound_ns() == whole
        if model.capacity.least <= model.capacity.most:
            assert whole <= (solve(instance, "brute-force").objective or 0)


@pytest.mark.parametrize("seeds", SHARES)
@pytest.mark.parametrize("kind", KINDS)
def test_the_whole_method_with_trees_is_exact(
    kind: str, seeds: range, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With trees wherever they can be, and HiGHS for nothing that they could close."""
    grown = []
    grow = LayerTrees.grow

    def counted(self: LayerTrees, nodes: int) -> bool:
        grown.append(nodes)
        return grow(self, nodes)

    monkeypatch.setattr(LayerTrees, "grow", counted)
    monkeypatch.setattr(lagrangian, "LARGE", 0)
    monkeypatch.setattr(lagrangian, "FEW", -1)
    monkeypatch.setattr(lagrangian, "SMALL_GAP", 0)
    for seed in seeds:
        instance = random_instance(seed, kind)
        oracle, found = (solve(instance, m) for m in ("brute-force", "price-and-swap"))
        assert (found.status, found.objective) == (oracle.status, oracle.objective), instance.name
    assert grown or kind not in ("mixed", "costly charge")
