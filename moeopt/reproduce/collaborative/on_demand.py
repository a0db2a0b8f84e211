"""On-demand fetching: DeepSpeed-Inference, Accelerate, MoE-OnDemand.

Experts lie in the host's memory and every active one is copied to the GPU when the router has
chosen it; nothing is kept (CPU-GPU collaborative II-A; edge GPU-NDP IV-A, its reference [11]).
"""

from moeopt.sim.plan.schema import Plan


def plan() -> Plan:
    """Return the plan: everything on the GPU, nothing resident."""
    return Plan(name="on-demand", policy="gpu-only")
