"""Executing a placement: step by step and layer by layer, GPU and the other side at once.

In a layer the GPU computes the experts that it has, one after the other. If any expert of the step
is elsewhere, the activations are handed over, and the other side computes those experts, one after
the other. The next layer starts when both sides are done.
"""

import numpy as np

from moeopt.problems.placement.instance import Instance, expert_ns
from moeopt.problems.placement.solution import Solution
from moeopt.sim.engine.core import Engine
from moeopt.sim.engine.problems.execute import Executed
from moeopt.sim.engine.resource import Resource


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
    for step in instance.steps:
        for layer, active in enumerate(step):
            on_gpu = [(e, n) for e, n in active if e in solution.gpu[layer]]
            away = [(e, n) for e, n in active if e not in solution.gpu[layer]]
            before, done = done, []
            if away:
                fixed_ns = instance.layer_offload_fixed_ns
                there = engine.add("hand-over", fixed_ns, after=before, kind="hand-over")
                done.append(_computed(engine, "offload", away, instance.offload_expert_ns, [there]))
            if on_gpu:
                done.append(_computed(engine, "GPU", on_gpu, instance.gpu_expert_ns, before))
            done = done or before
    engine.run()
    timeline = engine.timeline()
    return Executed(timeline, timeline.makespan_ns)


def _computed(
    engine: Engine,
    device: str,
    experts: list[tuple[int, int]],
    table: tuple[int, ...],
    after: list[int],
) -> int:
    """Add one task per expert and return their bundle."""
    durations = np.array([expert_ns(table, tokens) for _, tokens in experts])
    numbers = np.array([expert for expert, _ in experts])
    return engine.add_many(device, durations, after=after, kind=device, number=numbers)
