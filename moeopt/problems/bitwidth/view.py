"""Widths that differ, in words, and what rounding can hide; there is no schedule to look at."""

from collections.abc import Iterator

from moeopt.problems.view import Difference

from .check import objective
from .instance import Expert, Instance
from .solution import Solution


def facts(instance: Instance, solution: Solution) -> dict[str, str | int]:
    """Return how far rounding may matter, if the instance says that its losses are rounded.

    `rounding_error` is in units of loss: an optimum loses at most so much more than the best widths
    by the table that was rounded. `rounding_share` is that over the solution's loss.
    """
    if all(layer.loss_error is None for layer in instance.layers):
        return {}
    error, loss = instance.loss_error, objective(instance, solution)
    share = "unknown" if error and not loss else f"{100 * error / max(loss, 1):.2g} %"
    return {"rounding_error": error, "rounding_share": share}


def precision(instance: Instance, solution: Solution) -> str | None:
    """Return in words how much an optimum may lose more than the best widths by the table."""
    known = facts(instance, solution)
    if not known:
        return None
    units, share = known["rounding_error"], known["rounding_share"]
    return f"losses are rounded; by the table an optimum is within {units} ({share}) of the best"


def differences(instance: Instance, ours: Solution, best: Solution) -> Iterator[Difference]:
    """Yield the experts that have different widths, by the difference of their losses."""
    for number, layer in enumerate(instance.layers):
        for expert, a, b in zip(layer.experts, ours.bits[number], best.bits[number], strict=True):
            if a != b:
                matters = abs(_loss(instance, expert, a) - _loss(instance, expert, b))
                yield matters, f"layer {number}, expert {expert.expert}", _bits(a), _bits(b)


def _loss(instance: Instance, expert: Expert, width: int | None) -> int:
    return 0 if width is None else expert.loss[instance.bits.index(width)]


def _bits(width: int | None) -> str:
    return "no width" if width is None else f"{width} bit{'s' if width != 1 else ''}"
