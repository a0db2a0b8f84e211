"""The residual problem: the experts that reduced-cost fixing leaves open, handed to CP-SAT.

Proof. By the Lagrangian relaxation (`relaxation`) the objective is at least a constant plus the
summed costs of the experts on the GPU. So in a placement better than the incumbent that sum is
limited, and `reduced_cost_fixing` tells which experts can be on the GPU then, and which off it. The
textbook model with these fixed, and the objective below the incumbent's, has just the improvements
as solutions. A cut per row, time >= row bound + multipliers of its experts on the GPU, holds for
every placement (`relaxation`); with it the model's linear relaxation is as good as the Lagrangian
bound. All is in integers.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from moeopt.problems.placement.instance import Instance
from moeopt.problems.placement.layer_steps import Flags

from .relaxation import Model, Relaxed, reduced_cost_fixing

if TYPE_CHECKING:
    from moeopt.problems.placement.cpsat import Model as Textbook


class _Stopped(Exception):  # noqa: N818 - no error
    """The time is up before the model is built."""


@dataclass(frozen=True)
class Residual:
    """Experts that can be on the GPU in an improvement, and those that can be off it."""

    on: Flags
    off: Flags

    @property
    def free(self) -> Flags:
        """Which experts' places are open."""
        return self.on & self.off

    @property
    def sure(self) -> Flags:
        """Which experts are on the GPU in every improvement."""
        return self.on & ~self.off

    @property
    def impossible(self) -> bool:
        """Whether there is no improvement, as some expert can be nowhere."""
        return not bool((self.on | self.off).all())


def residual_of(model: Model, proof: Relaxed, incumbent_ns: int) -> Residual:
    """Return what is decided in every placement that is better than the incumbent."""
    most = incumbent_ns - model.grid - proof.base_ns
    return Residual(*reduced_cost_fixing(proof.cost_ns, model.capacity, most))


def solve_residual(
    instance: Instance,
    model: Model,
    residual: Residual,
    proof: Relaxed,
    incumbent_ns: int,
    limit_s: float,
    stopped: Callable[[], bool] = lambda: False,
) -> tuple[int, Flags | None]:
    """Return a lower bound on the objective, at most the incumbent's, and a placement if found."""
    from moeopt.core.cpsat import Run

    if residual.impossible:
        return incumbent_ns, None
    try:
        built = _built(instance, model, residual, proof, stopped)
    except _Stopped:
        return 0, None
    built.model.add(built.total <= (incumbent_ns - 1) // built.objective_unit)
    answer = Run(built.model, limit_s, options={"linearization_level": 2}).solve()
    if answer.status == "infeasible":
        return incumbent_ns, None
    held = None
    if answer.found:
        held = np.array([[bool(answer.value(on)) for on in row] for row in built.on])
    bound_ns = (answer.bound or 0) * built.objective_unit
    return min(max(0, bound_ns), incumbent_ns), held


def _built(
    instance: Instance,
    model: Model,
    residual: Residual,
    proof: Relaxed,
    stopped: Callable[[], bool],
) -> "Textbook":
    """Return the textbook model with what is decided, and what the multipliers prove of rows."""
    from moeopt.problems.placement.cpsat import Model as Textbook

    def checkpoint() -> None:
        if stopped():
            raise _Stopped

    built = Textbook(instance)
    built.post((), checkpoint)
    for layer, expert in np.argwhere(~residual.free).tolist():
        built.model.add(built.on[layer][expert] == int(residual.on[layer, expert]))
    for layer, of in enumerate(model.layers):
        checkpoint()
        for row in range(of.rows):
            part = slice(of.start[row], of.start[row + 1])
            if residual.free[layer, of.expert[part]].any():
                bound = int(proof.row_bounds[layer][row]) // model.scale
                paid = proof.multipliers[layer][part].tolist()
                gained = sum(p * runs for p, runs in zip(paid, built.runs[layer][row], strict=True))
                time_ns = built.objective_unit * built.time[layer][row]
                built.model.add(time_ns >= bound + gained)
    return built
