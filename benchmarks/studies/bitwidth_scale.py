"""What integer losses and a budget off evenly spaced widths cost: as they were, and as they are.

    python benchmarks/studies/bitwidth_scale.py [--seeds N]

Prints two tables.

1. Units of loss. Measured losses become integers. Until schema 2 a unit was the table's largest
entry over 10^7, before losses count by usage (`scale = "table"`); now it is the layer's largest
loss that counts over 10^10 (`moeopt/sim/models/loss_units.py`). Tables are drawn by a law at 2, 4,
8 and 16 bits: widely spread mean squared errors that each bit divides by four; the same where they
grow a thousandfold from the first layer to the last, as where outputs grow with depth; and errors
to the fourth power. Columns: which share of the losses above zero becomes 0, and by how much the
widths that `dp` proves optimal for the integers exceed the best ones by the table, over all layers
and in the worst one. The best ones are those for integers of 2^42 steps a layer. Last, the largest
bound on that excess in a layer that an instance states. 2. Prefix splits on random layers of 4 to
12 experts, with losses that fall by 2.8 times a bit: how often, and how far, the split exceeds the
best one within the budget, found by trying all.
"""

import argparse
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations_with_replacement
from math import log

import numpy as np
from numpy.typing import NDArray

import moeopt
from benchmarks.rooms.bitwidth import Instance, Solution, objective, prefix_split
from benchmarks.rooms.sim import LossLaw, by_loss, by_table

Floats = NDArray[np.float64]

BITS = (2, 4, 8, 16)
LAYERS, EXPERTS, AVERAGE_BITS = 8, 64, 5
TABLES: dict[str, tuple[int, float]] = {
    "mean squared errors": (1, 1.0),
    "growing with depth": (1, 1e3),
    "fourth powers": (2, 1.0),
}
"""Name -> power of the mean squared errors, and the last layer's over the first's."""
WIDE = LossLaw(depth=0.0, spread=1.0, fall=(log(4),), scatter=(0.5,))
SCALES = ("table", "own")

FINEST = 2**42
"""Steps of the layer's largest loss in the reference: the largest number of an instance."""


@dataclass(frozen=True)
class Rounding:
    """What one unit of loss does to a table, over all seeds.

    Attributes
    ----------
    zeros
        Width -> share of the losses above zero that became 0.
    excess
        Over the best widths by the table, summed over the layers: the largest of all seeds.
    worst_layer
        The same in the worst layer.
    stated
        The largest bound on it that an instance states, relative to the optimum; None if none is.
    """

    zeros: dict[int, float]
    excess: float
    worst_layer: float
    stated: float | None


@cache
def rounding(kind: str, scale: str, seeds: int = 3) -> Rounding:
    """Measure one unit of loss on one kind of table."""
    zeros: list[Floats] = []
    excess: list[float] = []
    worst: list[float] = []
    stated: list[float] = []
    for seed in range(seeds):
        table, usage = drawn(kind, seed)
        exact = table * usage[:, :, None]
        rounded = (
            by_table(table, usage, float(table.max()))
            if scale == "table"
            else by_loss(table, usage, usage, one_unit=False)
        )
        zeros.append(((rounded.losses == 0) & (exact > 0)).mean(axis=(0, 1)))
        lost = _lost(exact, _widths(rounded.losses))
        best = _lost(exact, _widths(_finest(exact)))
        excess.append(float(lost.sum() / best.sum() - 1))
        worst.append(float((lost / best - 1).max()))
        if rounded.errors is not None:
            stated += (np.array(rounded.errors) * rounded.scales / best).tolist()
    shares = dict(zip(BITS, np.mean(zeros, axis=0).tolist(), strict=True))
    return Rounding(shares, max(excess), max(worst), max(stated, default=None))


@cache
def drawn(kind: str, seed: int) -> tuple[Floats, Floats]:
    """Return a drawn table, shape (layers, experts, widths), and skewed usage."""
    power, growth = TABLES[kind]
    depth = growth ** np.linspace(0, 1, LAYERS)[:, None, None]
    table = depth * WIDE.table(LAYERS, EXPERTS, BITS, seed).losses ** power
    rng = np.random.default_rng(seed)
    return table, rng.dirichlet(np.full(EXPERTS, 0.5), size=LAYERS)


def _finest(exact: Floats) -> NDArray[np.int64]:
    largest = exact.max(axis=(1, 2), keepdims=True)
    return np.rint(exact / largest * FINEST).astype(np.int64)


def _widths(losses: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the proven optimal widths, as positions in `BITS`, shape (layers, experts)."""
    solution = moeopt.solve(_instance(losses), "dp").solution
    assert isinstance(solution, Solution)
    return np.array([[BITS.index(width or 0) for width in layer] for layer in solution.bits])


def _instance(losses: NDArray[np.int64]) -> Instance:
    budget = AVERAGE_BITS * losses.shape[1]
    return Instance.from_arrays(loss=losses, bits=BITS, budget_bits=budget, name="losses")


def _lost(exact: Floats, columns: NDArray[np.int64]) -> Floats:
    """Return what widths lose by the table, by layer."""
    taken: Floats = np.take_along_axis(exact, columns[:, :, None], axis=2).sum(axis=(1, 2))
    return taken


@dataclass(frozen=True)
class Splits:
    """How often, and by which factor at most, splits exceed the best prefix split."""

    layers: int
    worse: int
    worst: float


@cache
def splits(bits: tuple[int, ...], budget: str, layers: int = 300) -> Splits:
    """Compare prefix splits under a reading of the budget with the best ones."""
    rng, worse, worst = random.Random(3), 0, 0.0
    for _ in range(layers):
        instance, losses, total = _random_layer(rng, bits)
        solution = prefix_split(instance, budget)
        assert solution is not None
        found, best = objective(instance, solution), min(_all_splits(losses, bits, total))
        worse += found > best
        worst = max(worst, found / max(best, 1) - 1)
    return Splits(layers, worse, worst)


def _random_layer(
    rng: random.Random, bits: tuple[int, ...]
) -> tuple[Instance, list[list[int]], int]:
    size = rng.choice([4, 8, 12])
    levels = sorted((rng.lognormvariate(0, 1) for _ in range(size)), reverse=True)
    losses = [[int(1e6 * level * 2 ** (-1.5 * width)) for width in bits] for level in levels]
    total = rng.randint(size * bits[0], size * bits[-1])
    ranks = [list(range(size, 0, -1))]
    instance = Instance.from_arrays(
        loss=[losses], bits=bits, budget_bits=total, importance=ranks, name="layer"
    )
    return instance, losses, total


def _all_splits(losses: Sequence[Sequence[int]], bits: Sequence[int], total: int) -> Iterator[int]:
    """Yield the loss of every prefix split within a budget."""
    for cuts in combinations_with_replacement(range(len(losses) + 1), len(bits) - 1):
        ends = (0, *cuts, len(losses))
        columns = [
            len(bits) - 1 - j for j in range(len(bits)) for _ in range(ends[j + 1] - ends[j])
        ]
        if sum(bits[j] for j in columns) <= total:
            yield sum(row[j] for row, j in zip(losses, columns, strict=True))


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3, help="tables of each kind")
    arguments = parser.parse_args()
    zeros = [f"{width} bits to 0" for width in BITS]
    heads = ["table", "unit", *zeros, "over the best widths", "worst layer", "stated"]
    print(f"| {' | '.join(heads)} |\n|---|---|{'---:|' * (len(heads) - 2)}")
    for name in TABLES:
        for scale in SCALES:
            found = rounding(name, scale, arguments.seeds)
            cells = [f"{100 * share:.0f} %" for share in found.zeros.values()]
            cells += [f"{100 * value:.2g} %" for value in (found.excess, found.worst_layer)]
            cells.append("-" if found.stated is None else f"{100 * found.stated:.2g} %")
            print(f"| {name} | {scale} | {' | '.join(cells)} |", flush=True)
    print("\n| widths | `budget` | layers | worse | worst |\n|---|---|---:|---:|---:|")
    for bits in ((1, 2, 3, 4), (2, 4, 8), BITS):
        for budget in ("equality", "at most", "largest sum"):
            of = splits(bits, budget)
            widths = ", ".join(map(str, bits))
            print(f"| {widths} | {budget} | {of.layers} | {of.worse} | {100 * of.worst:.1f} % |")


if __name__ == "__main__":
    main()
