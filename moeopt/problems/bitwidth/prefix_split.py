"""The paper's prefix split: the more important an expert, the wider (context-aware CXL-NDP 4.2).

With the experts of a layer by falling importance, a split is a tuple of counts: the first n4
experts get the widest of four widths, the next n3 the second widest, then n2, and the rest has the
narrowest. The enumeration runs over n4 and n3; the budget, an equality in the paper, gives n2. All
tuples are evaluated at once, with prefix sums of the gains over the narrowest width.
"""

import numpy as np
from numpy.typing import NDArray

from .instance import Instance, Layer, Solution

Ints = NDArray[np.int64]

MOST_WIDTHS = 4
"""Widths of a split; with more the enumeration would have another dimension."""


def prefix_split(instance: Instance, budget: str = "equality") -> Solution | None:
    """Split every layer by falling importance, as the paper does.

    Of equal gains the first tuple in ascending order of (n4, n3) is taken. The stated ranges need
    n2 <= E - n4 - n3 as well. Beyond the paper: other widths than 1 to 4 bits, at most four of
    them; tuples against `min_count` are left out; a model's budget is shared out in proportion to
    the layers' experts, rounded down.

    Parameters
    ----------
    instance
        Losses and importance.
    budget
        The assumption of this name, see `assumptions`.

    Returns
    -------
    Solution
        None with more than four widths, where the granularity wants one width per layer or model,
        which is no split, and where no tuple keeps the rules.
    """
    if len(instance.bits) > MOST_WIDTHS or instance.granularity != "expert":
        return None
    bits = []
    layers = zip(instance.layers, instance.layer_losses, budget_shares(instance), strict=True)
    for layer, losses, share in layers:
        order = importance_order(layer)
        counts = best_split(losses[order], instance, share, budget)
        if counts is None:
            return None
        widths = np.empty(len(order), dtype=np.int64)
        widths[order] = np.repeat(instance.bits[::-1], counts[::-1])
        bits.append(tuple(widths.tolist()))
    return Solution(instance=instance.name, bits=tuple(bits))


def budget_shares(instance: Instance) -> list[int]:
    """Return each layer's budget, or its share of the model's by its number of experts."""
    total = instance.model_budget_bits
    if total is None:
        return [budget or 0 for budget in instance.layer_budgets]
    sizes = [len(layer.experts) for layer in instance.layers]
    return [total * size // sum(sizes) for size in sizes]


def importance_order(layer: Layer) -> list[int]:
    """Return the rows of a layer's experts, the most important first.

    Ties go to the expert that loses most at the narrowest width over the widest, then to the lowest
    expert number.
    """

    def gain(row: int) -> int:
        loss = experts[row].loss
        return loss[0] - loss[-1]

    experts = layer.experts
    return sorted(
        range(len(experts)), key=lambda e: (-experts[e].importance, -gain(e), experts[e].expert)
    )


def best_split(
    losses: Ints, instance: Instance, share: int, budget: str = "equality"
) -> list[int] | None:
    """Return how many experts have each width, narrowest first, or None if no split fits.

    Parameters
    ----------
    losses
        Of one layer's experts in order of importance, shape (experts, widths).
    instance
        Gives the widths and `min_count`.
    share
        What the widths may sum to.
    budget
        The assumption: how much of that they must use.
    """
    experts, widths = losses.shape
    steps = np.diff(instance.bits, prepend=instance.bits[0]).cumsum()
    increments = min(share - experts * instance.bits[0], experts * int(steps[-1]))
    least = [instance.min_count.get(width, 0) for width in instance.bits]
    if sum(least) > experts:
        return None
    needed = sum(count * int(step) for count, step in zip(least, steps, strict=True))
    tuples = _Tuples(losses, steps, least)
    if budget == "at most" or (budget == "equality" and not evenly_spaced(instance.bits)):
        counts = tuples.best(increments, at_most=True)
        return None if counts is None else counts[:widths]
    for used in range(increments, needed - 1, -1):
        counts = tuples.best(used)
        if counts is not None:
            return counts[:widths]
    return None


def evenly_spaced(bits: tuple[int, ...]) -> bool:
    """Tell whether the widths are consecutive, in steps of one bit or of several.

    Then splits reach every sum from the least to the largest in that step: raising a single expert
    to its next width makes the next sum. Elsewhere an equality says nothing.
    """
    return len(set(np.diff(bits).tolist())) <= 1


class _Tuples:
    """All (n4, n3) of a layer with fewer than four widths padded to four, and their gains."""

    def __init__(self, losses: Ints, steps: Ints, least: list[int]) -> None:
        self.experts, widths = losses.shape
        pad = MOST_WIDTHS - widths
        self.steps = [*steps.tolist(), *[0] * pad]
        self.least = [*least, *[0] * pad]
        gains = np.pad(losses[:, :1] - losses, ((1, 0), (0, pad)))
        self.sums = gains.cumsum(axis=0)
        self.n4 = np.arange(self.experts + 1 if widths > 3 else 1)[:, None]
        self.n3 = np.arange(self.experts + 1 if widths > 2 else 1)[None, :]
        self.upper = self.n4 + self.n3
        inside = np.minimum(self.upper, self.experts)
        c = self.sums
        self.gain = c[self.n4, 3] + c[inside, 2] - c[self.n4, 2] - c[inside, 1]
        self.allowed = (self.n4 >= self.least[3]) & (self.n3 >= self.least[2])

    def best(self, increments: int, at_most: bool = False) -> list[int] | None:
        """Return (n1, n2, n3, n4) of most gain with so many increments in use, or None.

        With `at_most` fewer may be in use: for each (n4, n3) the best n2 up to what is left.
        """
        _, step2, step3, step4 = self.steps
        left = increments - step4 * self.n4 - step3 * self.n3
        most = left // step2 if step2 else 0 * left
        valid = self.allowed & (left >= 0)
        if at_most:
            most = np.minimum(most, self.experts - self.least[0] - self.upper)
        else:
            valid &= left == most * step2
        ends = self.upper + most
        valid &= (most >= self.least[1]) & (ends <= self.experts - self.least[0])
        if not valid.any():
            return None
        ends = np.clip(ends, 0, self.experts)
        if at_most:
            starts = np.clip(self.upper + self.least[1], 0, self.experts)
            gain = self.gain + _largest_between(self.sums[:, 1])[starts, ends]
        else:
            gain = self.gain + self.sums[ends, 1]
        first = int(np.where(valid, gain, np.iinfo(np.int64).min).argmax())
        row, column = divmod(first, gain.shape[1])
        n4, n3, n2 = int(self.n4[row, 0]), int(self.n3[0, column]), int(most[row, column])
        if at_most:
            fewest = n4 + n3 + self.least[1]
            n2 = self.least[1] + int(self.sums[fewest : n4 + n3 + n2 + 1, 1].argmax())
        return [self.experts - n4 - n3 - n2, n2, n3, n4]


def _largest_between(values: Ints) -> Ints:
    """Return the largest value from position a to b, both included, shape (values, values)."""
    positions = np.arange(len(values))
    from_here_on = np.where(positions >= positions[:, None], values, np.iinfo(np.int64).min // 2)
    largest: Ints = np.maximum.accumulate(from_here_on, axis=1)
    return largest
