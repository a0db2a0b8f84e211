"""Executing a tri_domain solution: one layer's experts on GPU, CPU and DIMMs (TriMoE 4.2).

Eq. 5: GPU and CPU are serial. Eq. 6: a DIMM serves host reads and its own NDP work, one after the
other, and a read does not delay the host's own task. Eq. 7: the makespan is when all is done.
Schema 2: the GPU has its base load first, transfers go over a PCIe link of their own, and a read
keeps its channels busy besides the DIMMs.
"""

from moeopt.problems.tri_domain.instance import Instance, Solution, modes_of
from moeopt.sim.engine.core import Engine, Executed
from moeopt.sim.engine.timeline import Resource

READS_FIRST, WORK = 0, 1
"""Priorities on a DIMM; the order is free in Eq. 6, and this one is how `view.lanes` draws it."""


def execute(instance: Instance, solution: Solution) -> Executed:
    """Run every expert in its domain, all ready at time 0.

    Parameters
    ----------
    instance, solution
        The solution is valid for the instance.

    Returns
    -------
    Executed
        With the makespan in ns as objective.
    """
    of = instance.modes
    engine = Engine([Resource(name) for group in of.groups for name in group.members])
    if instance.base_ns:
        engine.add("GPU", instance.base_ns, priority=READS_FIRST, kind="base")
    for expert, mode in zip(instance.experts, modes_of(instance, solution).tolist(), strict=True):
        for entry in of.entries(mode):
            kind = "expert" if entry.kind == "work" else entry.kind
            priority = WORK if entry.kind == "work" else READS_FIRST
            engine.add(entry.member, entry.ns, priority=priority, kind=kind, number=expert.expert)
    return engine.executed()
