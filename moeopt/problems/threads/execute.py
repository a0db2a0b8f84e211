"""Executing a threads solution: each thread loads an expert's input, then does its parts.

A thread takes its experts in the order of the file. It pulls each part from the queue and then
computes it.
"""

from collections import Counter

from moeopt.sim.engine.core import Engine, Executed
from moeopt.sim.engine.timeline import Resource

from .instance import Instance, Solution


def execute(instance: Instance, solution: Solution) -> Executed:
    """Run every part on its thread.

    Parameters
    ----------
    instance, solution
        The solution is valid for the instance.

    Returns
    -------
    Executed
        With the makespan in ns as objective.
    """
    names = [f"thread {number}" for number in range(instance.threads)]
    engine = Engine([Resource(name) for name in names])
    for row, expert in enumerate(instance.experts):
        part_ns = expert.part_ns[solution.grain[row]] or 0
        for thread, parts in sorted(Counter(solution.thread[row]).items()):
            loaded = engine.add(names[thread], expert.load_ns, kind="load", number=expert.expert)
            for _ in range(parts):
                pulled = engine.add(
                    names[thread], instance.pull_ns, after=[loaded], kind="pull",
                    number=expert.expert,
                )  # fmt: skip
                engine.add(
                    names[thread], part_ns, after=[pulled], kind="part", number=expert.expert
                )
    return engine.executed()
