"""Raising the Lagrangian bound by the volume algorithm (Barahona and Anbil 2000).

A subgradient method: the multipliers step along an average of the subgradients seen so far, from
the best ones known. The same average of the subproblems' solutions approaches a solution of the
linear relaxation, from which placements are rounded.
"""

from collections.abc import Callable

import numpy as np

from moeopt.core.rounding import rounded
from moeopt.problems.placement.layer_steps import Flags

from .kernels import Floats
from .relaxation import DualValue, Model, dual_function

SOFT = 0.1
"""Rows whose two sides differ by this part of the longer one begin with clearly unequal weights."""

SHARE = 0.1
"""What a new subgradient counts against the average of those before."""

PATIENCE = 10
"""Steps without progress before they become shorter."""

LONGEST, SHORTER, SHORTEST = 0.1, 0.7, 1e-5
"""First length of a step, as a part of the gap; what shortens it; where it ends."""

LEAST_GAIN = 1e-7
"""Relative rise of the bound that counts as progress."""


def first_multipliers(model: Model, held: Flags) -> list[Floats]:
    """Return multipliers from a placement: each row weighs its sides by which one is longer."""
    multipliers = []
    for layer, (gpu, off) in zip(model.layers, model.sides_ns(held), strict=True):
        lead = (gpu - off) / (SOFT * np.maximum(gpu, off) + 1)
        th = rounded(1 / (1 + np.exp(-np.clip(lead, -50, 50))))[layer.row]
        multiplier = th * layer.gpu_ns - (1 - th) * layer.offload_ns
        multipliers.append(np.minimum(0, multiplier) if layer.free_dispatch else multiplier)
    return multipliers


class VolumeAlgorithm:
    """Multipliers on their way up.

    Attributes
    ----------
    multipliers, bound_ns
        The best ones so far, and their bound in floats.
    primal
        The capacity subproblem's solutions, averaged like the subgradients: near a solution of the
        linear relaxation, shape (layers, experts).
    """

    def __init__(self, model: Model, multipliers: list[Floats]) -> None:
        self.model = model
        first = dual_function(model, multipliers)
        self.multipliers, self.bound_ns, self.primal = multipliers, first.bound_ns, first.selected
        self._now, self._now_ns = multipliers, first.bound_ns
        self._direction = first.subgradient
        self._step, self._failed = LONGEST, 0

    def iterate(self, target_ns: int, steps: int, stopped: Callable[[], bool]) -> None:
        """Take some steps towards the target, an upper bound on what can be reached."""
        for _ in range(steps):
            direction = self._allowed()
            length = sum(float(part @ part) for part in direction)
            if length < 1e-9 or self.bound_ns >= target_ns:
                self._step = 0.0
            if stopped() or self.converged:
                return
            factor = float(rounded(self._step * (target_ns - self._now_ns) / length))
            self._now = [
                multiplier + factor * part
                for multiplier, part in zip(self._now, direction, strict=True)
            ]
            if self.model.free_dispatch:
                self._now = [np.minimum(0, multiplier) for multiplier in self._now]
            self._update(dual_function(self.model, self._now))

    def _allowed(self) -> list[Floats]:
        """Return the direction, without what would make a multiplier of 0 positive."""
        if not self.model.free_dispatch:
            return self._direction
        return [
            np.where((now >= 0) & (part > 0), 0.0, part)
            for now, part in zip(self._now, self._direction, strict=True)
        ]

    def _update(self, found: DualValue) -> None:
        """Keep better multipliers, and go back to the best ones after failures."""
        self._now_ns = found.bound_ns
        if found.bound_ns > self.bound_ns + LEAST_GAIN * abs(self.bound_ns):
            self.multipliers, self.bound_ns, self._failed = self._now, found.bound_ns, 0
        else:
            self._failed += 1
        if self._failed >= PATIENCE:
            self._step, self._failed = SHORTER * self._step, 0
            self._now, self._now_ns = self.multipliers, self.bound_ns
        self._direction = [
            SHARE * new + (1 - SHARE) * old
            for new, old in zip(found.subgradient, self._direction, strict=True)
        ]
        self.primal = SHARE * found.selected + (1 - SHARE) * self.primal

    @property
    def converged(self) -> bool:
        """Whether there is nothing to gain, or steps have become too short for it."""
        return self._step < SHORTEST
