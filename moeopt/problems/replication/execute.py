"""Executing a placement of copies: window after window, each device works off its tokens.

A unit of load takes a nanosecond on any device. A window ends with its fullest device, and the next
one begins then. Copies that are not there yet are moved before, one after the other.
"""

from moeopt.problems.replication.check import device_loads, moved
from moeopt.problems.replication.instance import Instance
from moeopt.problems.replication.solution import Solution
from moeopt.sim.engine.core import Engine
from moeopt.sim.engine.executed import BETWEEN, Executed, Windows
from moeopt.sim.engine.resource import Resource


def execute(instance: Instance, solution: Solution) -> Executed:
    """Run all windows.

    With an even split each copy is a task; with a free one, whatever the device takes over is one.

    Parameters
    ----------
    instance, solution
        The solution is valid for the instance.

    Returns
    -------
    Executed
        With the sum of weight x length of the windows, and the moves, in units as objective.
    """
    devices = [f"device {number}" for number in range(instance.devices)]
    copies = moved(instance, solution)
    several = bool(copies) or len(instance.windows) > 1
    engine = Engine([*map(Resource, [*devices, "moves"]), *[BETWEEN] * several])
    for expert, _ in copies:
        engine.add("moves", instance.move_cost, kind="copy", number=expert)
    windows = Windows(engine)
    objective = windows.end(1, "")
    loads = device_loads(instance, solution) if instance.split == "free" else None
    for number, window in enumerate(instance.windows):
        label = f"window {number}"
        if loads is not None:
            for name, units in zip(devices, loads[number], strict=True):
                engine.add(name, units, after=windows.before, kind="tokens", label=label)
        else:
            for expert, row in enumerate(solution.copies):
                units = window.loads[expert] * instance.units_per_token // len(row)
                for device in row:
                    engine.add(
                        devices[device], units, after=windows.before, kind="expert", label=label,
                        number=expert,
                    )  # fmt: skip
        objective += windows.end(window.weight, label)
    return Executed(engine.timeline(), objective, weights=windows.weights)
