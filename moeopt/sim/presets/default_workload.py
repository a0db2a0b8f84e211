"""The workload that stands for a model's routing where nobody has a trace or counts of it.

Published routing that may be shared is of two kinds of models: many small experts
(DeepSeek-V2-Lite, 64 of them) and few large ones (Mixtral-8x7B, 8). A model takes the law of its
own kind; the law is stretched to its experts and layers, and the sentence that comes with it says
whose it is. The much steeper skew of TriMoE 3.1 (`trimoe-skew`) is no default: no trace at hand has
it.
"""

from moeopt.sim.models.model_shape import ModelShape
from moeopt.sim.presets import find, get_model
from moeopt.sim.traces.workload import Workload

FEW_EXPERTS = 16
"""Up to so many experts per layer a model is of Mixtral's kind; Phi-3.5-MoE has 16."""

MEASURED_ON = {"esft-deepseek-v2-lite": "deepseek-v2-lite", "hdmoe-mixtral": "mixtral-8x7b"}
"""Workload -> the model preset whose routing it was fitted to."""


def default_workload(model: ModelShape) -> tuple[Workload, str]:
    """Return a model's default workload, and where it comes from in one sentence.

    Parameters
    ----------
    model
        Any; one with the layers, experts and top-k of DeepSeek-V2-Lite or Mixtral-8x7B counts as
        that model.

    Returns
    -------
    tuple
        The workload, and a line that names it, its source, and the model that it was measured on
        if that is another one.
    """
    few = model.routed_experts <= FEW_EXPERTS
    name = "hdmoe-mixtral" if few else "esft-deepseek-v2-lite"
    workload = find("workloads", Workload, name)
    origin = get_model(MEASURED_ON[name])
    own = _key(origin) == _key(model)
    whose = "" if own else f", measured on {origin.name}, not on {model.name}"
    return workload, f"default workload {name}{whose}; source: {workload.source}"


def _key(model: ModelShape) -> tuple[int, int, int]:
    return model.layers, model.routed_experts, model.top_k
