"""What runtimes do unless told otherwise, as plans for the engine, with the same room."""

from collections.abc import Iterator
from typing import Any

from moeopt.problems.placement.instance import Instance as Placement
from moeopt.sim.plan.schema import Plan


def defaults(whole: Placement, common: Plan) -> Iterator[Plan]:
    """Yield plans, named by runtime and setting.

    - llama.cpp with ``--cpu-moe``: all experts on the CPU.
    - llama.cpp with ``--n-cpu-moe N``, the least N that fits: the last layers wholly on the GPU.
    - ktransformers: as many experts of every layer as fit (``--kt-num-gpu-experts`` and the
      placement "uniform"), which are the first ones by number, and nothing deferred.

    Times and widths are those of the plan `common`, so that only the decisions differ. Sizes of
    several widths are not theirs to know: an expert counts as the average one.
    """
    alike: dict[str, Any] = {"times": common.times, "bits": common.bits}
    layers, experts = whole.layers, whole.experts
    fit = int(whole.gpu_slots / whole.sizes.mean())
    yield Plan(name="llama.cpp --cpu-moe", **alike)
    on_gpu = min(fit // experts, layers)
    everything = tuple(range(experts))
    rows = tuple(everything if layer >= layers - on_gpu else () for layer in range(layers))
    yield Plan(name=f"llama.cpp --n-cpu-moe {layers - on_gpu}", resident=rows, **alike)
    each = min(fit // layers, experts)
    each_layer = (tuple(range(each)),) * layers
    yield Plan(name=f"ktransformers uniform, {each} per layer", resident=each_layer, **alike)
