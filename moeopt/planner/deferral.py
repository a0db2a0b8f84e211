"""How many experts each layer defers, given the residents: the problem deferral, one token."""

import numpy as np
from numpy.typing import NDArray

from moeopt.problems.deferral.instance import Instance, Solution
from moeopt.problems.placement.instance import Instance as Placement
from moeopt.problems.placement.instance import Solution as Residents
from moeopt.sim.plan.schema import Times

from .decision import Decision, decided
from .request import Request

Floats = NDArray[np.float64]


def deferral(
    request: Request, placement: Placement, residents: Residents, times: Times, share: float
) -> Decision | None:
    """Decide the counts for an average step; None where nothing may be deferred.

    The CPU has as many experts per layer as miss on average, rounded, and each takes such a part of
    the layer's average time; the residents' average time goes along with the shared experts.
    """
    gpu_ns, host_ns, missed = averages(placement, residents)
    experts = round(float(missed.mean()))
    most = min(request.most_deferred, experts)
    if request.batch > 1 or most == 0:
        return None
    shared = times.shared_ns or (0,)
    instance = Instance(
        name=f"{residents.instance}-deferral",
        layers=placement.layers,
        top_k=experts,
        min_immediate=experts - most,
        attention_ns=times.attention_ns[0] + times.other_ns[0],
        shared_ns=tuple(int(shared[0] + mean) for mean in gpu_ns),
        sync_ns=times.to_host_ns[0],
        expert_cpu_ns=tuple(int(mean / experts) for mean in host_ns),
        penalty=tuple(range(most + 1)),
    )
    found = decided(instance, "dp", request, share)
    solution = found.solution
    if not isinstance(solution, Solution):
        raise TypeError(f"{solution!r} is no solution of deferral")
    counts = [count or 0 for count in solution.deferred]
    says = f"{sum(counts)} in all, {min(counts)} to {max(counts)} of a layer's CPU experts"
    return Decision("deferral", instance, found, says)


def averages(placement: Placement, residents: Residents) -> tuple[Floats, Floats, Floats]:
    """Return what a step has in each layer, on average, shape (layers,) each.

    Returns
    -------
    tuple
        Time on the GPU and on the other side in ns, and experts that are not on the GPU.
    """
    found = np.zeros((3, placement.layers))
    held = [set(row) for row in residents.gpu]
    for step in placement.steps:
        for layer, active in enumerate(step):
            for expert, tokens in active:
                if expert in held[layer]:
                    found[0, layer] += placement.gpu_ns(layer, expert, tokens)
                else:
                    found[1, layer] += placement.offload_ns(layer, expert, tokens)
                    found[2, layer] += 1
    gpu_ns, host_ns, missed = found / len(placement.steps)
    return gpu_ns, host_ns, missed
