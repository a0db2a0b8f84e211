"""Executing cache ways: token by token and layer by layer, fetches beside (CPU-GPU collab. III).

In a layer the GPU computes the experts that its cache has, and the CPU, after a hand-over, those
that are missing; the next layer starts when both are done. Every missing expert of a layer with a
cache is copied in the background. As in the problem, the queue of copies is never waited for and is
busy from the start: copies belong to no instant, and only their sum counts.
"""

import numpy as np

from moeopt.algorithms.lru import LruCache
from moeopt.sim.engine.core import Engine, Executed
from moeopt.sim.engine.timeline import Resource

from .instance import Instance, Solution


def execute(instance: Instance, solution: Solution) -> Executed:
    """Run the trace with a cache for every layer.

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
    caches = [LruCache(ways or 0) for ways in solution.ways]
    done: list[int] = []
    fetches = 0
    for number, token in enumerate(instance.accesses):
        for layer, used in enumerate(token):
            found = sum(caches[layer].access(used))
            missing = len(used) - found
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
                on_cpu_ns = missing * instance.cpu_ns
                done.append(engine.add("CPU", on_cpu_ns, after=[there], kind="misses", label=label))
                fetches += missing if caches[layer].ways else 0
    if fetches:
        engine.add_many("copies", np.full(fetches, instance.fetch_ns), kind="fetch")
    return engine.executed()
