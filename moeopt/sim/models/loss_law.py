"""Losses where nobody has measured: a law that is fitted to measured ones.

The loss of expert e of layer l of L at b bits is

    exp(depth x l / (L - 1) + spread x N_e - sum over j < b of (fall_j + scatter_j x N_ej))

with independent standard normal N: layers differ by depth, experts of a layer by a log-normal
factor, and each further bit divides a loss by exp(fall_j), not by the same for every expert. Bits
beyond those that were measured count as the last one.

`FITTED` is fitted to the losses that were measured of Mixtral-8x7B's 256 experts at 1, 2 and 3
bits (Mixture Compressor, arXiv:2410.06270; Euclidean error of a layer's output with one expert
quantised by GPTQ): within a layer the largest loss is 1.2 times the least, 3 bits lose 2.5 times
less than 2, and 2 bits 1.2 times less than 1. ``benchmarks/studies/loss_law.py FILE`` fits any
table. Other quantisers, models and errors have other numbers: these are an assumption.
"""

from dataclasses import asdict, dataclass, replace
from math import log

import numpy as np

from moeopt.core.rounding import rounded
from moeopt.sim.models.loss_table import LossTable

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
