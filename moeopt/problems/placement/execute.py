"""Executing a placement: step by step and layer by layer, GPU and the other side at once.

In a layer the GPU computes the experts that it has, or with free dispatch those of them that the
solution names, one after the other. If any expert of the step is left, the activations are handed
over, and the other side computes those experts, one after the other. The next layer starts when
both sides are done.
"""

import numpy as np

from moeopt.sim.engine.core import Engine, Executed
from moeopt.sim.engine.timeline import Resource

from .check import computed
from .instance import Instance, Solution


def execute(instance: Instance, solution: Solution) -> Executed:
    """Run all steps.

    Parameters
    ----------
    instance, solution
        The solution is valid for the instance.

    Returns
    -------
    Executed
        With the time of all steps in ns as objective.
    """
    engine = Engine([Resource("GPU"), Resource("hand-over"), Resource("offload")])
    done: list[int] = []
    for number, step in enumerate(instance.steps):
        for layer, active in enumerate(step):
            stated = computed(solution, number, layer)
            there = solution.gpu[layer] if stated is None else stated
            on_gpu = {e: instance.gpu_ns(layer, e, n) for e, n in active if e in there}
            away = {e: instance.offload_ns(layer, e, n) for e, n in active if e not in there}
            before, done = done, []
            label = f"step {number}, layer {layer}"
            if away:
                fixed_ns = instance.layer_offload_fixed_ns
                handed = engine.add(
                    "hand-over", fixed_ns, after=before, kind="hand-over", label=label
                )
                done.append(_computed(engine, "offload", away, [handed], label))
            if on_gpu:
                done.append(_computed(engine, "GPU", on_gpu, before, label))
            done = done or before
    return engine.executed()


def _computed(
    engine: Engine, device: str, times_ns: dict[int, int], after: list[int], label: str
) -> int:
    """Add one task per expert and return their bundle."""
    numbers, durations = np.array(list(times_ns)), np.array(list(times_ns.values()))
    return engine.add_many(
        device, durations, after=after, kind="expert", label=label, number=numbers
    )
