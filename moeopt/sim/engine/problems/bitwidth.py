"""Executing widths: layer by layer the device that holds the experts reads their weights.

An instance states neither a machine nor tokens. So every expert that has a width is used once per
layer, one after the other on the device where all of them lie (NDP, context-aware CXL-NDP 4.2), and
a run is as long as the bytes it reads: a bit of each of an expert's weights takes one nanosecond. A
layer then takes as many nanoseconds as its widths have bits, which is what its budget limits.
`moeopt.sim.plan.widths` executes the same widths on a machine with the tokens of a trace.
"""

import numpy as np

from moeopt.problems.bitwidth.instance import Instance
from moeopt.problems.bitwidth.solution import Solution
from moeopt.sim.engine.core import Engine
from moeopt.sim.engine.problems.execute import Executed
from moeopt.sim.engine.resource import Resource


def execute(instance: Instance, solution: Solution) -> Executed:
    """Run every layer once.

    Parameters
    ----------
    instance, solution
        The solution is valid for the instance.

    Returns
    -------
    Executed
        With the summed loss as objective, each expert's at the width whose run it had.
    """
    engine = Engine([Resource("NDP")])
    done: list[int] = []
    for number, (layer, widths) in enumerate(zip(instance.layers, solution.bits, strict=True)):
        read_ns = np.array([width or 0 for width in widths])
        experts = np.array([expert.expert for expert in layer.experts])
        done = [
            engine.add_many(
                "NDP", read_ns, after=done, kind="expert", label=f"layer {number}", number=experts
            )
        ]
    engine.run()
    timeline = engine.timeline()
    ran = (timeline.end_ns - timeline.start_ns).tolist()
    every = [expert for layer in instance.layers for expert in layer.experts]
    lost = [
        expert.loss[instance.bits.index(length)] for expert, length in zip(every, ran, strict=True)
    ]
    return Executed(timeline, sum(lost))
