"""Lower bounds that need no solver, each with its proof."""

from math import gcd

from .instance import Instance
from .lagrangian import ascend, fitting, rows_of
from .paths import paths_of

STEPS = 50
"""Multipliers that the quick bound tries."""


def objective_grid(instance: Instance) -> int:
    """Return a number that every objective is a multiple of: all times' common divisor."""
    found = 0
    for weight, prompt, hops in (
        (instance.decode_weight, "", instance.hop_ns),
        (instance.prompt_weight, "prompt_", instance.prompt_hop_ns),
    ):
        times = [time for row in hops or () for time in row]
        for layer in instance.layers:
            for part in ("attention", "experts"):
                times += [t for t in getattr(layer, f"{prompt}{part}_ns") or () if t is not None]
        found = gcd(found, weight * gcd(*times))
    return found or 1


def lower_bound(instance: Instance) -> int:
    """Return the bound of the Lagrangian relaxation of the memory rows.

    Proof. Where a device holds anything, its parts take at most its memory without its buffer
    (SP-C2, SP-C3); where it holds nothing they take 0, which is no more if the buffer fits. If the
    buffer does not fit, nothing can lie there. So the buffer's condition is a plain memory row. The
    rest is the proof in `lagrangian`. An instance without a path at all is infeasible; the bound is
    then above every objective.
    """
    paths = fitting(paths_of(instance))
    best = ascend(paths, rows_of(paths), instance.largest, None, STEPS, lambda _: False)
    if best is None:
        return instance.largest + 1
    grid = objective_grid(instance)
    return max(0, -(-best.bound // grid) * grid)
