"""Pre-gated MoE: each layer's experts are copied to the GPU while an earlier one computes.

Its gates choose a layer ahead, so that copies and computing overlap. The paper estimates it "by
assuming perfect computation-communication overlap" (CPU-GPU collaborative IV-A), while copies
follow one another. Settled so, literally: the later of all copies and all computing.
"""

from moeopt.problems.cache.instance import Instance


def token_ns(instance: Instance, top_k: int) -> int:
    """Return the time of a token, of which every active expert of every layer is copied."""
    copies = instance.layers * top_k * instance.fetch_ns
    return max(copies, instance.layers * (instance.other_ns + top_k * instance.gpu_ns))
