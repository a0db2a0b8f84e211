"""The paper's baselines, each as its plan or its time (CPU-GPU collaborative II-A, IV-A)."""

import numpy as np
from numpy.typing import NDArray

from benchmarks.rooms.cache import Instance
from moeopt import Plan


def on_demand_plan() -> Plan:
    """Return the plan: everything on the GPU, nothing resident.

    Notes
    -----
    On-demand fetching: DeepSpeed-Inference, Accelerate, MoE-OnDemand.

    Experts lie in the host's memory and every active one is copied to the GPU when the router has
    chosen it; nothing is kept (CPU-GPU collaborative II-A; edge GPU-NDP IV-A, its reference [11]).
    Each takes the longer of its copy and its computation.
    """
    return Plan(name="on-demand", policy="gpu-only", gpu_work="one path")


def pre_gated_token_ns(instance: Instance, top_k: int) -> int:
    """Return the time of a token, of which every active expert of every layer is copied.

    Notes
    -----
    Pre-gated MoE: each layer's experts are copied to the GPU while an earlier one computes.

    Its gates choose a layer ahead, so that copies and computing overlap. The paper estimates it "by
    assuming perfect computation-communication overlap" (CPU-GPU collaborative IV-A), while copies
    follow one another. Assumed so, literally: the later of all copies and all computing.
    """
    copies = instance.layers * top_k * instance.fetch_ns
    return max(copies, instance.layers * (instance.other_ns + top_k * instance.gpu_ns))


def layer_split_plan(layers: int, experts: int, slots: int) -> Plan:
    """Return the plan with the last layers whole on the GPU, as many as fit.

    Parameters
    ----------
    layers, experts
        Of the model.
    slots
        Experts that fit into the GPU's memory.

    Notes
    -----
    llama.cpp's split by layers: all experts of some layers on the GPU, the others on the CPU.

    As `-ngl` and `-ncmoe` do it: `-ncmoe N` leaves the experts of the first N layers on the CPU.
    Routing and popularity play no part. Assumed: attention of all layers is on the GPU.
    """
    whole = min(layers, slots // experts)
    everything = tuple(range(experts))
    resident = tuple(everything if layer >= layers - whole else () for layer in range(layers))
    return Plan(name="llama.cpp layer split", resident=resident, policy="cpu-for-misses")


def fiddler_plan(popularity: NDArray[np.int64], slots: int) -> Plan:
    """Return the plan with the `slots` most popular experts of all layers on the GPU.

    Parameters
    ----------
    popularity
        How often each expert was used, shape (layers, experts); ties go to the first.
    slots
        Experts that fit into the GPU's memory.

    Notes
    -----
    Fiddler: the most popular experts on the GPU, the others computed by the CPU where they lie.

    Popularity is profiled offline, over all layers together (CPU-GPU collaborative II-A; Fiddler,
    arXiv 2402.07033). Assumed: with one token at a time the CPU computes every miss. Fiddler's rule
    would copy an expert where that is faster, which it is for one thread only, and its published
    comparison is at 24. The time that its search for a split takes is left out.
    """
    layers, experts = popularity.shape
    chosen = np.argsort(-popularity, axis=None, kind="stable")[:slots]
    resident = tuple(
        tuple(sorted((chosen[chosen // experts == layer] % experts).tolist()))
        for layer in range(layers)
    )
    return Plan(name="fiddler", resident=resident, policy="cpu-for-misses")
