"""Raising the bound: the volume algorithm (Barahona and Anbil 2000) with flows along long paths.

Prices step along an average of the subgradients seen so far, from the best ones known. The same
averages of the subproblems' solutions approach a solution of the linear relaxation: its lengths
say which paths are long, and a part of the flow moves there. The multipliers of host memory and
loss rise or fall by a factor, by whether the averages use more or less than there is.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from moeopt.core.rounding import rounded

from .data import Floats
from .relaxation import Multipliers, Relaxation, Relaxed, soft_flow

SHARE = 0.1
"""What a new solution counts against the average of those before."""

PATIENCE = 20
"""Steps without progress before they become shorter."""

LONGEST, SHORTER, SHORTEST = 0.3, 0.7, 1e-4
"""First length of a step, as a part of the gap; what shortens it; where it ends."""

LEAST_GAIN = 1e-7
"""Relative rise of the bound that counts as progress."""

MOVED = 0.3
"""Part of the flow that moves, against the length of the step."""

BUDGETS = 1.0
"""How fast the multipliers of budgets move, against the length of the step."""

COOLING = 0.02
"""Heat of the paths, as a part of a layer's mean time, at the longest step."""


class Ascent:
    """Multipliers on their way up.

    Attributes
    ----------
    best
        The highest value of the relaxation so far.
    selected, deferred
        The averages of the experts' states, shape (cells, states), and of the counts by layer.
    """

    def __init__(self, relaxation: Relaxation, first: Multipliers) -> None:
        self.relaxation = relaxation
        i = relaxation.instance
        self.shape = (len(i.steps), i.layers, 5)
        self.deferral = i.max_deferred > 0
        found = relaxation.evaluate(first)
        self.best = self._now = found
        self.selected = found.selected
        self.most = i.max_deferred
        self.deferred = self._counts(found)
        self._copies = self._flags(found)
        self._rows = self._row_counts(found)
        self._lengths = found.lengths.astype(np.float64)
        self._lost, self._host = found.lost, found.host_bytes
        self._step, self._failed = LONGEST, 0

    @property
    def converged(self) -> bool:
        """Whether steps have become too short to gain anything."""
        return self._step < SHORTEST

    def again(self) -> bool:
        """Start again with long steps from the best multipliers."""
        self._step, self._failed, self._now = LONGEST / 2, 0, self.best
        return True

    def iterate(self, target_ns: int, steps: int, stopped: Callable[[], bool]) -> None:
        """Take some steps towards the target, an upper bound on what can be reached."""
        for _ in range(steps):
            if stopped() or self.converged or self.best.bound_ns >= target_ns:
                return
            self._update(self.relaxation.evaluate(self._next(target_ns)))

    def _next(self, target_ns: int) -> Multipliers:
        now, relaxation = self._now, self.relaxation
        selected = self.selected[relaxation.arrays.cell]
        direction = selected - self._copies
        length = float((direction * direction).sum())
        agree = np.tile(self.deferred, (self.shape[0], 1)) - self._rows
        if not relaxation.by_paths:
            length += float((agree * agree).sum())
        # A step that went astray would make the next one longer, and so on without end.
        gap = min(max(target_ns - now.bound_ns, 0.0), 2.0 * target_ns)
        factor = float(rounded(self._step * gap / length)) if length > 1e-12 else 0.0
        price = now.at.price + factor * direction
        if not relaxation.by_paths:
            return self._with_budgets(
                replace(now.at, price=price, count=now.at.count + factor * agree)
            )
        lengths = self._lengths.reshape(self.shape)
        mean_ns = float(rounded(lengths[:, :, 0].mean()))
        heat = COOLING * (self._step / LONGEST) * mean_ns + 1.0
        towards = soft_flow(lengths, heat, self.deferral).reshape(-1, 5)
        moved = min(1.0, MOVED * self._step)
        flow = (1 - moved) * now.at.flow + moved * towards
        return self._with_budgets(replace(now.at, price=price, flow=flow))

    def _with_budgets(self, at: Multipliers) -> Multipliers:
        i = self.relaxation.instance
        return replace(
            at,
            loss=self._scaled(at.loss, self._lost, i.max_loss),
            host=self._scaled(at.host, self._host, i.host_bytes),
        )

    def _scaled(self, multiplier: float, used: float, budget: int | None) -> float:
        if budget is None:
            return 0.0
        over = (used - budget) / max(1.0, abs(budget))
        change = np.exp(BUDGETS * self._step * np.clip(10 * rounded(over), -1, 1))
        return multiplier * float(rounded(change))

    def _update(self, found: Relaxed) -> None:
        """Keep better multipliers, and go back to the best ones after failures."""
        self._now = found
        if found.bound_ns > self.best.bound_ns + LEAST_GAIN * abs(self.best.bound_ns):
            self.best, self._failed = found, 0
        else:
            self._failed += 1
        if self._failed >= PATIENCE:
            self._step, self._failed = SHORTER * self._step, 0
            self._now = self.best
        for name, new in (
            ("selected", found.selected),
            ("deferred", self._counts(found)),
            ("_copies", self._flags(found)),
            ("_rows", self._row_counts(found)),
            ("_lengths", found.lengths),
            ("_lost", found.lost),
            ("_host", found.host_bytes),
        ):
            setattr(self, name, SHARE * new + (1 - SHARE) * getattr(self, name))

    def _flags(self, found: Relaxed) -> Floats:
        """Return the rows' copies of the experts' states, shape (entries, states)."""
        flags = np.zeros(found.at.price.shape)
        flags[np.arange(len(flags)), found.state // 3] = 1
        return flags

    def _counts(self, found: Relaxed) -> Floats:
        return np.eye(self.most + 1)[found.deferred]

    def _row_counts(self, found: Relaxed) -> Floats:
        return np.eye(self.most + 1)[found.row_deferred]


def first_multipliers(relaxation: Relaxation, lengths: Floats) -> Multipliers:
    """Return multipliers from a plan's lengths: an expert costs its time on the CPU, or the GPU.

    Parameters
    ----------
    lengths
        Of the arcs of every row, shape (rows, 5).
    """
    arrays, i = relaxation.arrays, relaxation.instance
    shaped = lengths.reshape(len(i.steps), i.layers, 5)
    heat = 5 * COOLING * float(shaped[:, :, 0].mean()) + 1.0
    flow = soft_flow(shaped, heat, i.max_deferred > 0).reshape(-1, 5)
    own = flow[arrays.row]
    on_cpu = (own[:, 1:].sum(axis=1))[:, None] * arrays.steps.cpu_ns
    on_gpu = own[:, :1] * arrays.steps.gpu_ns
    price = np.concatenate([on_cpu, on_gpu], axis=1)
    count = np.zeros((len(flow), i.max_deferred + 1))
    return Multipliers(price, flow, 0.0, 0.0, 0.0, count)
