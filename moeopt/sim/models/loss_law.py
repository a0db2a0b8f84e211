"""What experts lose at each width where nobody has measured it: a law fitted to measured losses.

The loss of expert e of layer l of L at b bits is

    exp(depth x l / (L - 1) + spread x N_e - sum over j < b of (fall_j + scatter_j x N_ej))

with independent standard normal N: layers differ by depth, experts of a layer by a log-normal
factor, and each further bit divides a loss by exp(fall_j), not by the same for every expert. Bits
beyond those that were measured count as the last one.

`FITTED` is fitted to the losses that were measured of Mixtral-8x7B's 256 experts at 1, 2 and 3
bits (Mixture Compressor, arXiv:2410.06270; Euclidean error of a layer's output with one expert
quantised by GPTQ): within a layer the largest loss is 1.2 times the least, 3 bits lose 2.5 times
less than 2, and 2 bits 1.2 times less than 1. ``benchmarks/studies/loss_law.py FILE`` fits any
table. Other quantisers, models and errors have other numbers: these are a settlement.

Losses of a table as integers, and what their rounding can change.

A unit of loss is small against the largest loss that counts: the layer's where layers have nothing
in common, the model's where they share a budget or a width, so that their losses add up. A loss
above zero stays above zero, however small: a width that loses something is no tie with one that
loses nothing.

Lemma. Let r(e, b) be what expert e loses exactly at width b, in units, less its integer. For any
two choices of widths the exact difference of their losses and that of the integers are at most
sum over e of (max r(e, b) - min r(e, b)) apart: what a `bitwidth` layer states as `loss_error`.

Proof. The two differences differ by the sum over e of r(e, one width) - r(e, other width). qed

So the widths that are best for the integers lose at most `loss_error` units more than any others.
"""

from dataclasses import asdict, dataclass, replace
from math import log

import numpy as np
from numpy.typing import NDArray

from moeopt.core.rounding import rounded

from .loss_table import LossTable

KEPT_BITS = 20
"""Significant bits of a drawn loss: the exponential's last ones depend on the processor."""


@dataclass(frozen=True)
class LossLaw:
    """The law's numbers, all of natural logarithms; `fall` and `scatter` by bit, from 1 on."""

    depth: float
    spread: float
    fall: tuple[float, ...]
    scatter: tuple[float, ...]

    def table(self, layers: int, experts: int, bits: tuple[int, ...], seed: int) -> LossTable:
        """Return drawn losses; more layers or wider widths leave the first ones as they are."""
        steps = bits[-1] - 1
        fall, scatter = (
            np.array([of[min(j, len(of) - 1)] for j in range(steps)])
            for of in (self.fall, self.scatter)
        )
        drawn = []
        for layer, stream in enumerate(np.random.default_rng(seed).spawn(layers)):
            expert = self.spread * stream.standard_normal(experts)
            falls = fall + scatter * stream.standard_normal((steps, experts)).T
            down = np.concatenate([np.zeros((experts, 1)), np.cumsum(falls, axis=1)], axis=1)
            above = self.depth * layer / max(1, layers - 1)
            drawn.append(above + expert[:, None] - down[:, [width - 1 for width in bits]])
        losses = rounded(np.exp(np.stack(drawn)), KEPT_BITS)
        return LossTable("fitted law", bits, losses, {"law": asdict(self)})


FITTED = LossLaw(depth=4.54, spread=0.076, fall=(0.163, 0.907), scatter=(0.026, 0.007))

LAWS = {
    "fitted": FITTED,
    "alike": replace(FITTED, spread=0.0, scatter=(0.0,)),
    "fourfold": replace(FITTED, fall=(log(4),)),
}
"""Option of a generator -> law."""


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
