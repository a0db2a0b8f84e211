"""Losses of a table as integers, and what their rounding can change.

A unit of loss is small against the largest loss that counts: the layer's where layers have nothing
in common, the model's where they share a budget or a width, so that their losses add up. A loss
above zero stays above zero, however small: a width that loses something is no tie with one that
loses nothing.

Lemma. Let r(e, b) be what expert e loses exactly at width b, in units, less its integer. For any
two choices of widths the exact difference of their losses and that of the integers are at most
sum over e of (max r(e, b) - min r(e, b)) apart: what a `bitwidth` layer states as `loss_error`.

Proof. The two differences differ by the sum over e of r(e, one width) - r(e, other width). So the
widths that are best for the integers lose at most `loss_error` units more than any others. qed
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LOSS_STEPS = 10**10
"""What the largest loss is as an integer. MILP solvers still prove a layer of such numbers."""

TABLE_STEPS = 10**7
"""What the largest entry of a table is as an integer in `by_table`."""

FLOAT_ERROR = 1e-3
"""Units: above the error of a loss below 2**40 units after a product and a quotient of floats."""


@dataclass(frozen=True)
class Rounded:
    """Losses as integers.

    Attributes
    ----------
    losses
        Shape (layers, experts, widths).
    scales
        What a unit stands for, by layer.
    one_unit
        Whether it is the same for all, so that losses of several layers add up.
    errors
        By layer, see the module's lemma; None if unknown.
    """

    losses: Ints
    scales: list[float]
    one_unit: bool
    errors: list[int] | None


def by_loss(losses: Floats, usage: Floats, most: Floats, one_unit: bool) -> Rounded:
    """Round losses that count by usage to units of the largest one.

    Parameters
    ----------
    losses
        Shape (layers, experts, widths), not negative.
    usage
        What each expert's loss counts, shape (layers, experts).
    most
        The most that it counts in any instance with the same units; not below `usage`.
    one_unit
        Whether all layers have the same unit.
    """
    largest = (losses * most[:, :, None]).max(axis=(1, 2))
    if one_unit:
        largest[:] = largest.max()
    # A quotient of denormal numbers may be 0.
    scales = np.maximum(largest / LOSS_STEPS, np.finfo(np.float64).tiny)
    scales[largest == 0] = 1.0
    exact = losses * usage[:, :, None] / scales[:, None, None]
    whole = np.maximum(np.rint(exact), exact > 0)
    spread = (np.ptp(exact - whole, axis=2) + 2 * FLOAT_ERROR).sum(axis=1)
    errors = np.where(largest > 0, np.ceil(spread), 0).astype(np.int64)
    return Rounded(whole.astype(np.int64), scales.tolist(), one_unit, errors.tolist())


def by_table(losses: Floats, usage: Floats, largest: float) -> Rounded:
    """Round in units of a table's largest entry, before anything counts, as instances once were.

    Losses that are small beside it become 0.
    """
    scale = largest / TABLE_STEPS or 1.0
    whole = np.rint(losses * usage[:, :, None] / scale).astype(np.int64)
    return Rounded(whole, [scale] * len(losses), True, None)
