"""Whether a trace can be of a model."""

from moeopt.core.errors import InputError
from moeopt.sim.models.model_shape import ModelShape
from moeopt.sim.traces.trace import Trace

ENOUGH_CHOICES = 20
"""Choices per expert from which on it is certain that some fall on the upper half of the numbers:
numbers of experts say nothing of how popular they are."""


def check_trace(trace: Trace, model: ModelShape) -> None:
    """Raise InputError unless the trace's layers, experts and top-k are the model's.

    A trace does not say how many experts there are. That it is of a model with fewer is taken for
    certain where in many choices not one is from the upper half.
    """
    layers, experts = len(model.moe_layers), model.routed_experts
    seen, top_k = trace.experts_seen, int(trace.topk_ids.shape[2])
    few = 2 * seen <= experts and trace.topk_ids.size >= ENOUGH_CHOICES * experts
    if trace.layers == layers and seen <= experts and not few and top_k == model.top_k:
        return
    own = f"{trace.layers} layers x {seen} experts (the highest number that occurs, plus one)"
    wanted = f"{layers} x {experts}, top-{model.top_k}"
    raise InputError(
        f"{own}, top-{top_k}, are not those of {model.name}: {wanted}", where=trace.name
    )
