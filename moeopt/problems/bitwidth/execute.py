"""Executing widths: the device that holds the experts reads their weights; then losses add up.

An instance states neither a machine nor tokens. So every expert that has a width is used once per
layer, one after the other on the device where all of them lie (NDP, context-aware CXL-NDP 4.2), and
a run is as long as the bytes it reads: a bit of each of an expert's weights takes one nanosecond. A
layer then takes as many nanoseconds as its widths have bits, which is what its budget limits.
`moeopt.planner.simulate` executes the same widths on a machine with the tokens of a trace.

A loss is no time. Losses add up, and so do the times of tasks that run one after the other: after
the reads, which do not count in the objective, comes a chain of losses, a nanosecond for each unit.
"""

from moeopt.sim.engine.core import Engine, Executed
from moeopt.sim.engine.timeline import Resource

from .instance import Instance, Solution


def execute(instance: Instance, solution: Solution) -> Executed:
    """Run all experts, layer by layer.

    Parameters
    ----------
    instance, solution
        The solution is valid for the instance.

    Returns
    -------
    Executed
        With the sum of the losses as objective: how long their chain is.
    """
    engine = Engine([Resource("NDP"), Resource("losses")])
    done: list[int] = []
    lost: list[tuple[int, str, int]] = []
    for number, (layer, widths) in enumerate(zip(instance.layers, solution.bits, strict=True)):
        label = f"layer {number}"
        for expert, width in zip(layer.experts, widths, strict=True):
            done = [
                engine.add(
                    "NDP", width or 0, after=done, kind=f"{width} bits, expert", label=label,
                    number=expert.expert,
                )
            ]  # fmt: skip
            loss = expert.loss[instance.bits.index(width or 0)]
            lost.append((loss, label, expert.expert))
    for loss, label, which in lost:
        done = [
            engine.add("losses", loss, after=done, kind="loss, expert", label=label, number=which)
        ]
    engine.run()
    timeline = engine.timeline()
    objective = next(used.busy_ns for used in timeline.usage() if used.resource == "losses")
    weights = (0,) * len(lost) + (1,) * len(lost)
    return Executed(timeline, objective, weights=weights)
