"""The runtimes' own plans: their flags mean to them what the plan does, and all fit."""

import re

import numpy as np
import pytest

from moeopt import Plan
from tests.planner.small_plans import MODEL, planned, planned_for
from tests.rooms.planner import Default, defaults
from tests.rooms.sim import Counts, ModelShape


def found(gpu_slots: int, model: ModelShape = MODEL) -> dict[str, Default]:
    """Return the defaults with so much room, by the first two words of their names."""
    whole = planned().placement.model_copy(update={"gpu_slots": gpu_slots})
    counts = np.array(COUNTS)
    made = defaults(whole, Plan(), model, counts)
    return {" ".join(one.plan.name.split()[:2]): one for one in made}


COUNTS = np.random.default_rng(1).permutation(64).reshape(4, 16)


@pytest.mark.parametrize(("slots", "blocks"), [(0, 6), (16, 5), (31, 5), (32, 4), (63, 3), (64, 0)])
def test_blocks_without_experts_count(slots: int, blocks: int) -> None:
    """Two of six blocks are dense: layer l with experts is block l + 2 for llama.cpp."""
    default = found(slots)["llama.cpp --n-cpu-moe"]
    assert default.plan.name == f"llama.cpp --n-cpu-moe {blocks}"
    assert default.flags == f"-ngl 999 --n-cpu-moe {blocks}"
    on_cpu = {block for block in range(blocks) if block >= 2}
    rows = default.plan.resident or ()
    assert {layer + 2 for layer, row in enumerate(rows) if not row} == on_cpu
    assert all(len(row) in (0, 16) for row in rows)


def test_dense_blocks_need_not_be_the_first() -> None:
    """Every second block without experts: the last one with experts on the CPU counts."""
    model = MODEL.model_copy(update={"dense_layer_ids": (2, 4)})  # experts in blocks 0, 1, 3, 5
    for slots, blocks in ((48, 1), (32, 2), (16, 4), (0, 6)):
        name = found(slots, model)["llama.cpp --n-cpu-moe"].plan.name
        assert name == f"llama.cpp --n-cpu-moe {blocks}"


def test_frequency_holds_the_experts_of_the_largest_counts() -> None:
    """Over all layers together, as many as fit."""
    rows = found(20)["ktransformers frequency,"].plan.resident or ()
    assert sorted(COUNTS[layer][e] for layer, row in enumerate(rows) for e in row) == [
        *range(44, 64)
    ]
    ratio = float(re.search(r"ratio ([\d.]+)", found(20)["ktransformers frequency,"].flags)[1])  # type: ignore[index]
    assert int(64 * ratio) == 20


def test_uniform_holds_the_first_experts_of_every_layer() -> None:
    """Equally many, by number: it does not count."""
    default = found(22)["ktransformers uniform,"]
    assert default.plan.resident == (tuple(range(5)),) * 4
    assert "--kt-num-gpu-experts 5 " in default.flags


def test_experts_of_several_widths_fit_as_well() -> None:
    """By the slots that they take, not by their mean."""
    sizes = tuple(tuple(16 if e < 2 else 2 for e in range(16)) for _ in range(4))
    whole = planned().placement.model_copy(update={"expert_slots": sizes, "gpu_slots": 100})
    for default in defaults(whole, Plan(), MODEL, COUNTS):
        rows = default.plan.resident or ()
        assert sum(sizes[layer][e] for layer, row in enumerate(rows) for e in row) <= 100


def test_counts_are_all_that_is_known() -> None:
    """Of the whole part decided on, not of its first steps, and never of held-out ones."""
    made = planned_for(steps=5)
    kept, rest = made.request.parts()
    counts = kept.step_counts(1, experts=16).counts.sum(axis=0)
    assert counts.sum() == (120 - rest.tokens) * 4 * 4
    chosen = next(c for c in made.comparisons if "frequency" in c.plan.name)
    rows = chosen.plan.resident or ()
    held = [counts[layer][e] for layer, row in enumerate(rows) for e in row]
    assert sum(held) == np.sort(counts, axis=None)[::-1][: len(held)].sum()


def test_counts_from_a_file_are_known_themselves() -> None:
    """Not only the steps that were drawn from them."""
    counts = Counts("file", COUNTS[None] * 100 + 1)
    made = planned_for(trace=counts, steps=2)
    chosen = next(c for c in made.comparisons if "frequency" in c.plan.name)
    rows = chosen.plan.resident or ()
    held = sorted(COUNTS[layer][e] for layer, row in enumerate(rows) for e in row)
    assert held == [*range(64 - len(held), 64)]
