"""Layers that nothing couples are problems of their own.

With layers' budgets and a width for each expert or layer, no constraint names two layers, and the
objective is a sum over layers. So do optima and bounds add up.
"""

from collections.abc import Sequence

from .instance import Instance
from .solution import Solution


def parts(instance: Instance) -> list[Instance]:
    """Return an instance per layer; the instance alone where something couples the layers."""
    if instance.coupled or len(instance.layers) == 1:
        return [instance]
    return [
        instance.model_copy(update={"layers": (layer,), "name": f"{instance.name}:{number}"[-200:]})
        for number, layer in enumerate(instance.layers)
    ]


def split(solution: Solution, parts: Sequence[Instance]) -> list[Solution]:
    """Return what a solution decides in each part."""
    return [
        Solution(instance=part.name, bits=(widths,))
        for part, widths in zip(parts, solution.bits, strict=True)
    ]


def joined(instance: Instance, solutions: Sequence[Solution]) -> Solution:
    """Return the solution that the parts' solutions make together."""
    return Solution(instance=instance.name, bits=tuple(of.bits[0] for of in solutions))
