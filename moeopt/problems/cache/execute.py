"""Executing cache ways: token by token and layer by layer, fetches beside (CPU-GPU collab. III).

In a layer the GPU computes the experts that its cache has, and the CPU, after a hand-over, those
that are missing; the next layer starts when both are done. Every missing expert of a layer with a
cache is copied in the background. As in the problem, the queue of copies is never waited for and is
busy from the start: copies belong to no instant, and only their sum counts.
"""

import numpy as np

from moeopt.sim.engine.core import Engine, Executed
from moeopt.sim.engine.timeline import Resource

from .instance import Instance, Solution


def execute(instance: Instance, solution: Solution) -> Executed:
    """Run the trace with a cache for every layer, each a list with the most recent expert first.

    Parameters
    ----------
    instance, solution
        The solution is valid for the instance.

    Returns
    -------
    Executed
        With the time of the trace in ns as objective.
    """
    engine = Engine([Resource("GPU"), Resource("CPU"), Resource("hand-over"), Resource("copies")])
    recent: list[list[int]] = [[] for _ in range(instance.layers)]
    done: list[int] = []
    fetches = 0
    for number, token in enumerate(instance.accesses):
        for layer, used in enumerate(token):
            ways = solution.ways[layer] or 0
            missing = [expert for expert in used if expert not in recent[layer]]
            found = len(used) - len(missing)
            label = f"token {number}, layer {layer}"
            other = engine.add("GPU", instance.other_ns, after=done, kind="other", label=label)
            on_gpu_ns = found * instance.gpu_ns
            done = [engine.add("GPU", on_gpu_ns, after=[other], kind="hits", label=label)]
            if missing:
                there = engine.add(
                    "hand-over",
                    instance.activation_ns,
                    after=[other],
                    kind="hand-over",
                    label=label,
                )
                on_cpu_ns = len(missing) * instance.cpu_ns
                done.append(engine.add("CPU", on_cpu_ns, after=[there], kind="misses", label=label))
                fetches += len(missing) if ways else 0
            rest = [expert for expert in recent[layer] if expert not in used]
            recent[layer] = [*reversed(used), *rest][:ways]
    if fetches:
        engine.add_many("copies", np.full(fetches, instance.fetch_ns), kind="fetch")
    return engine.executed()
