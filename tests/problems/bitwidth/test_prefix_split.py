"""The paper's prefix split against a literal double loop, and where it is none."""

import random
from collections.abc import Sequence
from itertools import combinations_with_replacement
from typing import Any

import pytest

from tests.rooms.bitwidth import (
    Instance,
    budget_shares,
    evenly_spaced,
    greedy_marginal,
    objective,
    prefix_split,
    uniform,
    violations,
)


def layer(losses: Sequence[Sequence[int]], budget: int | None, order: Sequence[int] = ()) -> Any:
    """Return a layer; importance falls with the expert's number unless `order` gives it."""
    given = order or [len(losses) - number for number in range(len(losses))]
    experts = [
        {"expert": number, "importance": importance, "loss": loss}
        for number, (importance, loss) in enumerate(zip(given, losses, strict=True))
    ]
    return {"budget_bits": budget, "experts": experts}


def instance(*layers: Any, **changes: Any) -> Instance:
    """Return an instance with the paper's widths."""
    return Instance(name="p", **({"bits": [1, 2, 3, 4], "layers": layers} | changes))


def literal(losses: Sequence[Sequence[int]], increments: int) -> list[int]:
    """Return the widths by the paper's loops, for experts in order of importance."""
    experts = len(losses)
    best: tuple[int, list[int]] | None = None
    for n4 in range(experts + 1):
        if 3 * n4 > increments:
            break
        for n3 in range(experts - n4 + 1):
            n2 = increments - 3 * n4 - 2 * n3
            if n2 < 0 or n2 > experts - n4 - n3:
                continue
            widths = [4] * n4 + [3] * n3 + [2] * n2 + [1] * (experts - n4 - n3 - n2)
            gain = sum(row[0] - row[w - 1] for row, w in zip(losses, widths, strict=True))
            if best is None or gain > best[0]:
                best = gain, widths
    assert best is not None
    return best[1]


@pytest.mark.parametrize("kind", ["falling", "any", "few"])
def test_it_is_the_papers_enumeration(kind: str) -> None:
    """100 random layers of up to 12 experts at every budget: the same widths, ties included."""
    for seed in range(100):
        rng = random.Random(f"{kind}{seed}")
        size = rng.randint(1, 12)
        top = 3 if kind == "few" else 99
        losses = [[rng.randint(0, top) for _ in range(4)] for _ in range(size)]
        if kind == "falling":
            losses = [sorted(row, reverse=True) for row in losses]
        budget = rng.randint(size, 4 * size)
        solution = prefix_split(instance(layer(losses, budget)))
        assert solution is not None
        assert list(solution.bits[0]) == literal(losses, budget - size), (seed, budget)


def test_among_equally_important_experts_those_that_gain_come_first() -> None:
    """The first of them has nothing to gain."""
    data = instance(layer([[5, 5, 5, 5], [9, 0, 0, 0]], 3, order=[7, 7]))
    assert prefix_split(data).bits == ((1, 2),)  # type: ignore[union-attr]


def test_the_budget_is_an_equality() -> None:
    """Upgrades that do harm are forced; exact models leave the bits."""
    harmful = instance(layer([[1, 5, 5, 5], [1, 5, 5, 5]], 4))
    solution = prefix_split(harmful)
    assert solution is not None
    assert sum(solution.bits[0]) == 4
    assert objective(harmful, solution) == 6
    assert greedy_marginal(harmful).bits == ((1, 1),)  # type: ignore[union-attr]
    rich = instance(layer([[9, 5, 5, 5]] * 2, 100))
    assert prefix_split(rich).bits == ((4, 4),)  # type: ignore[union-attr]


def test_a_budget_below_all_ones_has_no_split() -> None:
    """None, and not a widths list over the budget."""
    assert prefix_split(instance(layer([[1, 0, 0, 0]] * 2, 1))) is None


@pytest.mark.parametrize(
    ("bits", "budget", "widths"),
    [
        # 5, 6 and 8 bits beyond 3 x 2: within 5, two at 4 bits are best. Within 6 three at 4
        # bits gain 30, one at 8 gains 20; within 8, one at 8 and one at 4 gain 30 as well.
        ([2, 4, 8], 11, (4, 4, 2)),
        ([2, 4, 8], 12, (4, 4, 4)),
        ([2, 4, 8], 14, (4, 4, 4)),
        ([2, 4, 8], 16, (8, 4, 4)),
        ([3, 5], 12, (5, 3, 3)),
        ([4], 13, (4, 4, 4)),
        ([1, 2, 3, 4, 5], 9, None),
    ],
)
def test_other_widths(bits: list[int], budget: int, widths: tuple[int, ...] | None) -> None:
    """Up to four of any kind, evenly spaced or not; with five there is no split."""
    losses = [[10 * (len(bits) - j) for j in range(len(bits))]] * 3
    found = prefix_split(instance(layer(losses, budget), bits=bits))
    assert (None if found is None else found.bits[0]) == widths


def best_prefix(losses: Sequence[Sequence[int]], bits: Sequence[int], budget: int) -> int | None:
    """Return the least loss of any prefix split within a budget, by trying all."""
    size, found = len(losses), []
    for cuts in combinations_with_replacement(range(size + 1), len(bits) - 1):
        ends = (0, *cuts, size)
        columns = [
            len(bits) - 1 - j for j in range(len(bits)) for _ in range(ends[j + 1] - ends[j])
        ]
        if sum(bits[j] for j in columns) <= budget:
            found.append(sum(row[j] for row, j in zip(losses, columns, strict=True)))
    return min(found, default=None)


@pytest.mark.parametrize("bits", [(2, 4, 8, 16), (2, 4, 8), (2, 3, 4, 8), (1, 2, 3, 4), (4, 8)])
def test_it_is_the_best_split_that_the_budget_allows(bits: tuple[int, ...]) -> None:
    """Off evenly spaced widths always; on them with "at most", and else where losses fall.

    "largest sum" is the literal reading, and far off where sums are sparse.
    """
    worse = 0
    for seed in range(40):
        rng = random.Random(f"{bits}{seed}")
        losses = [[rng.randint(0, 99) for _ in bits] for _ in range(rng.randint(1, 8))]
        if seed % 2:
            losses = [sorted(row, reverse=True) for row in losses]
        budget = rng.randint(len(losses) * bits[0], len(losses) * bits[-1])
        given, best = instance(layer(losses, budget), bits=bits), best_prefix(losses, bits, budget)
        assumed: dict[str, int] = {}
        for value in ("equality", "at most", "largest sum"):
            solution = prefix_split(given, value)
            assert solution is not None
            assert violations(given, solution) == []
            assumed[value] = objective(given, solution)
        assert assumed["at most"] == best
        if seed % 2 or not evenly_spaced(bits):
            assert assumed["equality"] == best
        if evenly_spaced(bits):
            assert assumed["equality"] == assumed["largest sum"]
        worse += assumed["largest sum"] > (best or 0)
    assert worse > 0


def test_minimum_counts_are_kept() -> None:
    """A 3-bit expert must be there: (0, 1, 0) instead of (0, 0, 2); two do not fit."""
    losses = [[9, 1, 1, 1]] * 3
    free = instance(layer(losses, 5))
    assert prefix_split(free).bits == ((2, 2, 1),)  # type: ignore[union-attr]
    one = instance(layer(losses, 5), min_count={"3": 1})
    assert prefix_split(one).bits == ((3, 1, 1),)  # type: ignore[union-attr]
    assert prefix_split(instance(layer(losses, 5), min_count={"3": 2})) is None
    narrow = instance(layer(losses, 12), min_count={"1": 2})
    assert prefix_split(narrow).bits == ((4, 1, 1),)  # type: ignore[union-attr]
    short = [row[:3] for row in losses]
    both = instance(layer(short, 7), min_count={"1": 1, "2": 1}, bits=[1, 2, 8])
    assert prefix_split(both).bits == ((2, 2, 1),)  # type: ignore[union-attr]


def test_a_models_budget_is_shared_by_experts() -> None:
    """11 bits over 2 and 3 experts: 4 and 6, rounded down."""
    two, three = layer([[9, 1, 0, 0]] * 2, None), layer([[9, 1, 0, 0]] * 3, None)
    shared = instance(two, three, model_budget_bits=11)
    assert budget_shares(shared) == [4, 6]
    solution = prefix_split(shared)
    assert solution is not None
    assert [sum(widths) for widths in solution.bits] == [4, 6]


@pytest.mark.parametrize("granularity", ["layer", "model"])
def test_a_coarser_granularity_is_no_split(granularity: str) -> None:
    """The paper assigns widths to experts."""
    assert prefix_split(instance(layer([[1, 0, 0, 0]], 4), granularity=granularity)) is None


def test_uniform_takes_the_widest_that_keeps_all_rules() -> None:
    """The tighter layer decides; a minimum count decides as well."""
    both = instance(layer([[9, 5, 2, 1]] * 2, 7), layer([[9, 5, 2, 1]] * 2, 5))
    assert uniform(both).bits == ((2, 2), (2, 2))  # type: ignore[union-attr]
    counted = both.model_copy(update={"min_count": {1: 1}})
    assert uniform(counted).bits == ((1, 1), (1, 1))  # type: ignore[union-attr]
    assert uniform(both.model_copy(update={"min_count": {3: 1}})) is None


def test_greedy_jumps_over_a_width_that_gains_little() -> None:
    """Two bits gain nothing, four a lot: 30 over three bits against 8 for one."""
    jump = instance(layer([[30, 30, 30, 0], [8, 0, 0, 0]], 5))
    assert greedy_marginal(jump).bits == ((4, 1),)  # type: ignore[union-attr]
    assert violations(jump, greedy_marginal(jump)) == []  # type: ignore[arg-type]
