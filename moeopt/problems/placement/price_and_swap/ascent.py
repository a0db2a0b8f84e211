"""Raising the bound by the volume algorithm (Barahona and Anbil 2000), a method of subgradients."""

from collections.abc import Callable

import numpy as np

from moeopt.problems.placement.layer_steps import Flags

from .bound import Answer, Model, answer
from .kernels import Floats

SOFT = 0.1
"""Rows whose two sides differ by this part of the longer one begin with clearly unequal weights."""

SHARE = 0.1
"""What a new direction counts against the mean of those before."""

PATIENCE = 10
"""Steps without progress before they become shorter."""

LONGEST, SHORTER, SHORTEST = 0.1, 0.7, 1e-5
"""First length of a step, as a part of the gap; what shortens it; where it ends."""

TRIFLE = 1e-7


def first_prices(model: Model, held: Flags) -> list[Floats]:
    """Return prices from a placement: each row weighs its sides by which one is longer there."""
    prices = []
    for layer, (gpu, off) in zip(model.layers, model.sides_ns(held), strict=True):
        lead = (gpu - off) / (SOFT * np.maximum(gpu, off) + 1)
        th = (1 / (1 + np.exp(-np.clip(lead, -50, 50))))[layer.row]
        prices.append(th * layer.gpu_ns - (1 - th) * layer.offload_ns)
    return prices


class Ascent:
    """Prices on their way up.

    Attributes
    ----------
    prices, bound_ns
        The best ones so far, and their bound in floats.
    wanted
        What the room chose, averaged like the directions: near a solution of the relaxation.
    """

    def __init__(self, model: Model, prices: list[Floats]) -> None:
        self.model = model
        first = answer(model, prices)
        self.prices, self.bound_ns, self.wanted = prices, first.bound_ns, first.wanted
        self._now, self._now_ns = prices, first.bound_ns
        self._direction = first.lacking
        self._step, self._failed = LONGEST, 0

    def climb(self, target_ns: int, steps: int, stopped: Callable[[], bool]) -> None:
        """Take some steps towards the target, an upper bound on what can be reached."""
        for _ in range(steps):
            length = sum(float(part @ part) for part in self._direction)
            if length < 1e-9 or self.bound_ns >= target_ns:
                self._step = 0.0
            if stopped() or self.spent:
                return
            factor = self._step * (target_ns - self._now_ns) / length
            self._now = [
                price + factor * part
                for price, part in zip(self._now, self._direction, strict=True)
            ]
            self._judge(answer(self.model, self._now))

    def _judge(self, found: Answer) -> None:
        """Keep prices that are better by more than a trifle; go back to the best after failures."""
        self._now_ns = found.bound_ns
        if found.bound_ns > self.bound_ns + TRIFLE * abs(self.bound_ns):
            self.prices, self.bound_ns, self._failed = self._now, found.bound_ns, 0
        else:
            self._failed += 1
        if self._failed >= PATIENCE:
            self._step, self._failed = SHORTER * self._step, 0
            self._now, self._now_ns = self.prices, self.bound_ns
        self._direction = [
            SHARE * new + (1 - SHARE) * old
            for new, old in zip(found.lacking, self._direction, strict=True)
        ]
        self.wanted = SHARE * found.wanted + (1 - SHARE) * self.wanted

    @property
    def spent(self) -> bool:
        """Whether there is nothing to gain, or steps have become too short for it."""
        return self._step < SHORTEST
