"""What is decided at once: single experts, or whole layers."""

from collections.abc import Sequence
from dataclasses import dataclass

from .instance import Instance, Layer
from .solution import Solution


@dataclass(frozen=True)
class Unit:
    """An expert, or all experts of a layer.

    Attributes
    ----------
    layer
        Its position.
    experts
        How many experts it has.
    losses
        Summed over them, by width.
    """

    layer: int
    experts: int
    losses: tuple[int, ...]


def units_of(instance: Instance) -> list[Unit]:
    """Return every expert, or every layer if the granularity is not "expert", in order."""
    if instance.granularity == "expert":
        return [
            Unit(number, 1, expert.loss)
            for number, layer in enumerate(instance.layers)
            for expert in layer.experts
        ]
    return [
        Unit(number, len(layer.experts), summed_losses(layer))
        for number, layer in enumerate(instance.layers)
    ]


def summed_losses(layer: Layer) -> tuple[int, ...]:
    """Return what a layer loses with all experts at one width, by width."""
    return tuple(map(sum, zip(*(expert.loss for expert in layer.experts), strict=True)))


def widths_for_all(instance: Instance, layer: Layer) -> list[int]:
    """Return the widths, by position, that keep BW-C5 if all experts of the layer have them."""
    required = {width: least for width, least in instance.min_count.items() if least}
    return [
        column
        for column, width in enumerate(instance.bits)
        if set(required) <= {width} and required.get(width, 0) <= len(layer.experts)
    ]


def solution_of(instance: Instance, units: Sequence[Unit], columns: Sequence[int]) -> Solution:
    """Return the solution in which each unit has the width at its position in `bits`."""
    bits: list[list[int]] = [[] for _ in instance.layers]
    for unit, column in zip(units, columns, strict=True):
        bits[unit.layer] += [instance.bits[column]] * unit.experts
    return Solution(instance=instance.name, bits=tuple(map(tuple, bits)))


def one_width(instance: Instance, width: int) -> Solution:
    """Return the solution in which every expert has the same width."""
    bits = tuple((width,) * len(layer.experts) for layer in instance.layers)
    return Solution(instance=instance.name, bits=bits)
