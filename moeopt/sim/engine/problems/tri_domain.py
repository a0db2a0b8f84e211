"""Executing a tri_domain solution: one layer's experts on GPU, CPU and DIMMs (TriMoE 4.2).

Eq. 5: GPU and CPU are serial. Eq. 6: a DIMM serves host reads and its own NDP work, one after the
other, and a read does not delay the host's own task. Eq. 7: the makespan is when all is done.
Schema 2: the GPU has its base load first, transfers go over a PCIe link of their own, and a read
keeps its channels busy besides the DIMMs.
"""

from moeopt.problems.tri_domain.instance import Expert, Instance
from moeopt.problems.tri_domain.solution import Solution
from moeopt.sim.engine.core import Engine
from moeopt.sim.engine.problems.execute import Executed
from moeopt.sim.engine.resource import Resource

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
    dimms = [Resource(f"DIMM {number}") for number in range(instance.dimms)]
    more = [Resource("PCIe")] if instance.two_parts else []
    more += [Resource(f"channel {number}") for number in sorted(set(instance.channels or ()))]
    engine = Engine([Resource("GPU"), Resource("CPU"), *dimms, *more])
    if instance.base_ns:
        engine.add("GPU", instance.base_ns, priority=READS_FIRST, kind="base")
    for expert, domain in zip(instance.experts, solution.assignment, strict=True):
        if domain == "gpu":
            work_ns = expert.gpu_work_ns
            engine.add("GPU", work_ns, priority=WORK, kind="expert", number=expert.expert)
            if expert.pcie_ns:
                engine.add("PCIe", expert.pcie_ns, kind="transfer", number=expert.expert)
            _read(engine, instance, expert, expert.gpu_dram_ns)
        elif domain == "cpu":
            engine.add("CPU", expert.cpu_ns, kind="expert", number=expert.expert)
            _read(engine, instance, expert, expert.cpu_dram_ns)
        else:
            own, length = f"DIMM {expert.dimm}", expert.ndp_ns or 0
            engine.add(own, length, priority=WORK, kind="expert", number=expert.expert)
    engine.run()
    timeline = engine.timeline()
    return Executed(timeline, timeline.makespan_ns)


def _read(engine: Engine, instance: Instance, expert: Expert, length_ns: int) -> None:
    """Occupy every DIMM that the expert lies on, and their channels."""
    if length_ns:
        where = range(instance.dimms) if expert.dimm is None else [expert.dimm]
        busy = {f"DIMM {dimm}": instance.charge_ns(expert, length_ns) for dimm in where}
        if instance.channels is not None:
            busy |= {f"channel {instance.channels[dimm]}": length_ns for dimm in where}
        for name, length in busy.items():
            engine.add(name, length, priority=READS_FIRST, kind="read", number=expert.expert)
