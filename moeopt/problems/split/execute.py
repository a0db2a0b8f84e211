"""Executing a split: one token through all layers, and one ubatch of a prompt, on the engine.

Each part is a task on its device, each hop one on the link between two; every task waits for the
one before, and nothing overlaps. A token and an ubatch count with their weights.
"""

from collections.abc import Sequence

from moeopt.problems.split.instance import Instance, Solution
from moeopt.sim.engine.core import BETWEEN, Engine, Executed, Windows
from moeopt.sim.engine.timeline import Resource


def execute(instance: Instance, solution: Solution) -> Executed:
    """Run a token, and an ubatch if it counts.

    Parameters
    ----------
    instance, solution
        The solution is valid for the instance.

    Returns
    -------
    Executed
        With decode_weight x the token's time + prompt_weight x the ubatch's as objective, in ns.
    """
    names = [f"{number} {device.name}" for number, device in enumerate(instance.devices)]
    engine = Engine([*map(Resource, names), Resource("hops"), BETWEEN])
    windows = Windows(engine)
    objective = 0
    for label, prefix, weight in (
        ("token 0", "", instance.decode_weight),
        ("ubatch 0", "prompt_", instance.prompt_weight),
    ):
        after: Sequence[int] = windows.before
        hop_ns = getattr(instance, f"{prefix}hop_ns")
        here = instance.source
        for number, layer in enumerate(instance.layers):
            for part in ("attention", "experts"):
                device = getattr(solution, part)[number]
                if device < 0:
                    continue
                times = getattr(layer, f"{prefix}{part}_ns")
                hop = 0 if hop_ns is None else hop_ns[here][device]
                time = 0 if times is None else times[device] or 0
                came = engine.add("hops", hop, after=after, kind="hop", number=number, label=label)
                done = engine.add(
                    names[device], time, after=[came], kind=part, number=number, label=label
                )
                after, here = [done], device
        back = 0 if hop_ns is None else hop_ns[here][instance.source]
        engine.add("hops", back, after=after, kind="hop back", label=label)
        objective += windows.end(weight, label)
    return Executed(engine.timeline(), objective, numbers="layer", weights=windows.weights)
