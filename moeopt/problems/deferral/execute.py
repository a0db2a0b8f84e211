"""Executing a deferral solution: one decode step on GPU and CPU (KTransformers 4.1 and 4.2).

The waits are those of the layers' data, hand-overs are tasks on a link without limit, and GPU and
CPU serve in the order in which the solution starts its tasks, none before its start.
"""

from typing import Literal

from moeopt.sim.engine.core import Engine, Executed
from moeopt.sim.engine.timeline import Resource

from .instance import Instance, Solution

Kind = Literal["attention", "shared", "immediate", "deferred"]

WAITS: dict[Kind, int] = {"immediate": 1, "deferred": 2}
"""How many layers later attention waits for experts."""


def execute(instance: Instance, solution: Solution) -> Executed:
    """Run every task no earlier than the solution starts it.

    Parameters
    ----------
    instance, solution
        The solution is valid for the instance.

    Returns
    -------
    Executed
        With (makespan in ns, total penalty) as objective.
    """
    engine = Engine([Resource("GPU"), Resource("CPU"), Resource("hand-over", delay=True)])
    handed: dict[tuple[Kind, int], int] = {}
    shared: list[int] = []
    ends: list[int] = []
    for layer, count in enumerate(solution.deferred):
        after = [shared[-1]] if shared else []
        after += [
            handed[task] for task in (("immediate", layer - 1), ("deferred", layer - 2))
            if task in handed
        ]  # fmt: skip
        starts, sync_ns = solution.start_ns, instance.sync_ns[layer]
        attention = engine.add(
            "GPU", instance.attention_ns[layer], after=after, kind="attention", number=layer,
            release_ns=starts.attention[layer],
        )  # fmt: skip
        shared.append(
            engine.add(
                "GPU", instance.shared_ns[layer], after=[attention], kind="shared", number=layer,
                release_ns=starts.shared[layer],
            )
        )  # fmt: skip
        there = engine.add("hand-over", sync_ns, after=[attention], kind="to CPU", number=layer)
        late = count or 0
        experts: dict[Kind, int] = {"immediate": instance.top_k - late, "deferred": late}
        for kind, share in experts.items():
            length_ns = share * instance.expert_cpu_ns[layer]
            ran = engine.add(
                "CPU" if length_ns else "hand-over", length_ns, after=[there], kind=kind,
                number=layer, release_ns=getattr(starts, kind)[layer],
            )  # fmt: skip
            if layer + WAITS[kind] < instance.layers:
                handed[kind, layer] = engine.add(
                    "hand-over", sync_ns, after=[ran], kind="to GPU", number=layer
                )
            ends.append(ran)
    engine.run()
    makespan_ns = max(engine.finish_ns(task) for task in (*shared, *ends))
    penalty = sum(instance.penalty[count or 0] for count in solution.deferred)
    return Executed(engine.timeline(), (makespan_ns, penalty), numbers="layer")
