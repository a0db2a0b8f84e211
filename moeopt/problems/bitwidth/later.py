"""Usage that is still to come: widths stay, and the losses of several instances are summed."""

from collections.abc import Sequence

from moeopt.core.errors import InputError

from .instance import Instance, Layer


def joined(instances: Sequence[Instance]) -> Instance:
    """Return the instance whose experts lose the sums of what they lose in each.

    Raises
    ------
    InputError
        If losses are in different units, or of other experts or in another order.
    """
    first = instances[0]
    shape = [
        [(layer.loss_scale, [expert.expert for expert in layer.experts]) for layer in one.layers]
        for one in instances
    ]
    if len({one.loss_scale for one in instances}) > 1 or any(of != shape[0] for of in shape):
        raise InputError("losses: are in different units, or of other experts")
    layers = tuple(_sum(layers) for layers in zip(*(one.layers for one in instances), strict=True))
    return first.model_copy(update={"layers": layers, "provenance": None})


def _sum(layers: Sequence[Layer]) -> Layer:
    experts = tuple(
        same[0].model_copy(
            update={"loss": tuple(map(sum, zip(*(e.loss for e in same), strict=True)))}
        )
        for same in zip(*(layer.experts for layer in layers), strict=True)
    )
    errors = [layer.loss_error for layer in layers if layer.loss_error is not None]
    error = sum(errors) if errors else None
    return layers[0].model_copy(update={"experts": experts, "loss_error": error})
