"""Adding up the losses of widths: a chain of experts, of which each takes its loss.

A loss is no time. Losses add up, and so do the times of tasks that run one after the other: with a
nanosecond for a unit of loss, the end of the chain is the objective.
"""

from moeopt.problems.bitwidth.instance import Instance
from moeopt.problems.bitwidth.solution import Solution
from moeopt.sim.engine.core import Engine
from moeopt.sim.engine.problems.execute import Executed
from moeopt.sim.engine.resource import Resource


def execute(instance: Instance, solution: Solution) -> Executed:
    """Run all experts, layer by layer.

    Parameters
    ----------
    instance, solution
        The solution is valid for the instance.

    Returns
    -------
    Executed
        With the sum of the losses as objective.
    """
    engine = Engine([Resource("losses")])
    for number, (layer, widths) in enumerate(zip(instance.layers, solution.bits, strict=True)):
        for expert, width in zip(layer.experts, widths, strict=True):
            loss = expert.loss[instance.bits.index(width or 0)]
            kind = f"{width} bits, expert"
            engine.add("losses", loss, kind=kind, label=f"layer {number}", number=expert.expert)
    engine.run()
    timeline = engine.timeline()
    return Executed(timeline, timeline.makespan_ns)
