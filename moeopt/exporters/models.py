"""Which model a plan is for, and which of its layers the plan's layers are."""

from pathlib import Path

from moeopt.core.envelope import InstanceEnvelope
from moeopt.core.errors import InputError
from moeopt.exporters.exported import Job
from moeopt.sim.models.model_shape import ModelShape
from moeopt.sim.presets import get_model, names


def shape_of(
    instance: InstanceEnvelope, model: ModelShape | str | Path | None
) -> ModelShape | None:
    """Return the shape of the model that was named, or of the preset in the provenance, or None.

    The provenance is untrusted text: it is taken for a preset's name, never for a file's.
    """
    if isinstance(model, ModelShape):
        return model
    if model is not None:
        return get_model(model)
    named = (instance.provenance or {}).get("model")
    return get_model(named) if isinstance(named, str) and named in names("models") else None


def known_shape(job: Job) -> ModelShape:
    """Return the model's shape.

    Raises
    ------
    InputError
        If it is not known.
    """
    if job.shape is None:
        raise InputError("--model: is missing, and the instance's provenance names no preset")
    return job.shape


def hidden_layers(job: Job, layers: int, experts: int | None = None) -> tuple[int, ...]:
    """Return the model's number of each layer of the plan, counted from 0 over all its layers.

    The plan's layers are the model's layers with experts, in their order; layers without experts
    (`first_k_dense_replace`, `moe_layer_freq` and whatever else moves them) have none in the plan.

    Parameters
    ----------
    job
        Says which model.
    layers, experts
        Layers of the plan, and experts of each; None where the plan does not say.

    Raises
    ------
    InputError
        If the model is not known, or has another number of such layers or of experts.
    """
    shape = known_shape(job)
    found = shape.moe_layers
    if len(found) != layers:
        reason = f"{shape.name} has {len(found)} layers with experts, the plan {layers}"
        raise InputError(f"--model: {reason}")
    if experts is not None and shape.routed_experts != experts:
        reason = f"{shape.name} has {shape.routed_experts} experts per layer, the plan {experts}"
        raise InputError(f"--model: {reason}")
    return found
