"""Executing a layout solution: the scenarios one after the other on one machine (TriMoE 4.2, 4.3).

Eq. 5: GPU and CPU are serial. Eq. 6: a DIMM serves host reads and its own NDP work, one after the
other, and a read does not delay the host's own task. Eq. 7: a scenario's makespan is when all of it
is done; the next scenario starts then. Each is run once, whatever its weight.

In schema 2 the GPU begins each scenario with its base load, a host's read occupies memory channels
beside the DIMMs, and a miss in two parts occupies PCIe beside the GPU; none of these waits for
another. An expert with several copies is run from the one that the solution's `source` names.
"""

from moeopt.problems.layout.instance import Instance, Solution
from moeopt.problems.layout.view import devices_of, tasks
from moeopt.sim.engine.core import BETWEEN, Engine, Executed, Windows
from moeopt.sim.engine.timeline import Resource

READS_FIRST, WORK = 0, 1
"""Priorities on a DIMM; the order is free in Eq. 6, and this one is how `view.lanes` draws it."""

KINDS = {"work": "expert", "transfer": "copy", "read": "read"}
"""What the timeline calls the tasks of `view.tasks`."""


def execute(instance: Instance, solution: Solution) -> Executed:
    """Run every expert with tokens in its domain, all of a scenario's ready when it starts.

    Parameters
    ----------
    instance, solution
        The solution is valid for the instance.

    Returns
    -------
    Executed
        With the sum of weight x makespan in ns as objective.
    """
    several = len(instance.scenarios) > 1
    engine = Engine([*map(Resource, devices_of(instance)), *[BETWEEN] * several])
    windows = Windows(engine)
    objective = 0
    for number, scenario in enumerate(instance.scenarios):
        label = f"window {number}" if several else ""
        if instance.base_ns:
            engine.add(
                "GPU", instance.base_ns, after=windows.before, priority=READS_FIRST, kind="base",
                label=label,
            )  # fmt: skip
        for expert, domain in enumerate(solution.assignment[number]):
            if domain is None:
                continue
            for device, length, kind in tasks(instance, solution, number, expert, domain):
                engine.add(
                    device,
                    length,
                    after=windows.before,
                    priority=READS_FIRST if kind == "read" else WORK,
                    kind=KINDS[kind],
                    label=label,
                    number=expert,
                )
        objective += windows.end(scenario.weight, label)
    return Executed(engine.timeline(), objective, weights=windows.weights)
