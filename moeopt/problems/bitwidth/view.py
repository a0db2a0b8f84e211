"""Widths that differ, in words; a choice of widths is no schedule, so there is none to look at."""

from collections.abc import Iterator

from moeopt.problems.view import Difference

from .instance import Expert, Instance
from .solution import Solution


def facts(instance: Instance, solution: Solution) -> dict[str, str | int]:
    """Return nothing: the widths say everything."""
    return {}


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
