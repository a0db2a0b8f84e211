"""Executing a joint plan: step by step and layer by layer, GPU, CPU and copies at once.

In a layer the GPU does attention, shared experts, and the routed ones that run there. Those on the
CPU wait for a hand-over, immediate ones first; the next layer waits for these and a hand-over back,
the layer after it for the deferred ones. What a cache lacks is copied in the background: as in the
problem, copies belong to no instant and only their sum counts.
"""

import numpy as np

from moeopt.algorithms.lru import LruCache
from moeopt.sim.engine.core import Engine, Executed
from moeopt.sim.engine.timeline import Resource

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
        With the time of all steps, or of all copies if that is longer, in ns as objective.
    """
    devices = [Resource(name) for name in ("GPU", "CPU", "copies")]
    engine = Engine([*devices, Resource("hand-over", delay=True)])
    context = instance.contexts[solution.context or 0]
    caches = [LruCache(ways or 0) for ways in solution.ways]
    kept_off = set(solution.swapped)
    copies: list[int] = []
    done: list[int] = []
    for number, step in enumerate(instance.steps):
        label = f"step {number}"
        done = [engine.add("GPU", context.step_ns, after=done, kind="other", label=label)]
        joins: list[int] = []
        on_cpu: list[int] = []
        for layer, active in enumerate(step):
            width = [instance.bits.index(bits or 0) for bits in solution.bits[layer]]
            resident = solution.resident[layer]
            asked = [e for e, _, _ in active if e not in resident]
            hits = dict(zip(asked, caches[layer].access(asked), strict=True))
            on_gpu = [
                (e, n)
                for e, n, _ in active
                if hits.get(e, True) and (number, layer, e) not in kept_off
            ]
            away = [(e, n) for e, n, _ in active if (e, n) not in on_gpu]
            if caches[layer].ways:
                copies += [instance.copy_ns[width[e]] for e in asked if not hits[e]]
            label = f"step {number}, layer {layer}"
            attention = engine.add(
                "GPU", context.attention_ns[layer], after=done, kind="attention", label=label
            )
            shared = engine.add(
                "GPU", instance.shared_ns[layer], after=[attention], kind="shared", label=label
            )
            done, joins = [shared, *joins], []
            for expert, tokens in on_gpu:
                time_ns = instance.gpu_ns[width[expert]][tokens]
                done.append(
                    engine.add(
                        "GPU", time_ns, after=[shared], kind="expert", label=label, number=expert
                    )
                )
            if away:
                there = engine.add(
                    "hand-over", instance.hand_over_ns, after=[attention], kind="to CPU",
                    label=label,
                )  # fmt: skip
                first = max(0, len(away) - (solution.deferred[layer] or 0))
                on_cpu = [*on_cpu, there]
                for kind, part, waiting in (
                    ("immediate", away[:first], done),
                    ("deferred", away[first:], joins),
                ):
                    for expert, tokens in part:
                        time_ns = instance.cpu_ns[width[expert]][tokens]
                        ran = engine.add(
                            "CPU", time_ns, after=on_cpu, kind=kind, label=label, number=expert
                        )
                        on_cpu = [ran]
                    if part or kind == "immediate":
                        # Without immediate experts the CPU still answers, in its turn.
                        waiting.append(
                            engine.add(
                                "hand-over", instance.hand_over_ns, after=on_cpu, kind="to GPU",
                                label=label,
                            )
                        )  # fmt: skip
        done += joins
    if copies:
        engine.add_many("copies", np.array(copies), kind="copy")
    return engine.executed()
