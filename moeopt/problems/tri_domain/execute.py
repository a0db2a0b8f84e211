"""Executing a tri_domain solution: one layer's experts on GPU, CPU and DIMMs (TriMoE 4.2).

Eq. 5: GPU and CPU are serial. Eq. 6: a DIMM serves host reads and its own NDP work, one after the
other, and a read does not delay the host's own task. Eq. 7: the makespan is when all is done.
Schema 2: the GPU has its base load first, transfers go over a PCIe link of their own, and a read
keeps its channels busy besides the DIMMs.
"""

from moeopt.problems.tri_domain.check import used_copy
from moeopt.problems.tri_domain.expert import Copy, Expert
from moeopt.problems.tri_domain.instance import Instance, Solution
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
    dimms = [Resource(f"DIMM {number}") for number in range(instance.dimms)]
    more = [Resource("PCIe")] if instance.two_parts else []
    more += [Resource(f"channel {number}") for number in sorted(set(instance.channels or ()))]
    engine = Engine([Resource("GPU"), Resource("CPU"), *dimms, *more])
    if instance.base_ns:
        engine.add("GPU", instance.base_ns, priority=READS_FIRST, kind="base")
    pairs = zip(instance.experts, solution.assignment, strict=True)
    for row, (expert, domain) in enumerate(pairs):
        number, lie = expert.expert, used_copy(expert, solution.source_of(row)) or expert
        if domain == "gpu":
            engine.add("GPU", lie.gpu_work_ns, priority=WORK, kind="expert", number=number)
            if lie.pcie_ns:
                engine.add("PCIe", lie.pcie_ns, kind="transfer", number=number)
            _read(engine, instance, number, lie, lie.gpu_dram_ns)
        elif domain == "cpu":
            engine.add("CPU", lie.cpu_ns, kind="expert", number=number)
            _read(engine, instance, number, lie, lie.cpu_dram_ns)
        else:
            own, length = f"DIMM {lie.dimm}", lie.ndp_ns or 0
            engine.add(own, length, priority=WORK, kind="expert", number=number)
    return engine.executed()


def _read(
    engine: Engine, instance: Instance, number: int, lie: Expert | Copy, length_ns: int
) -> None:
    """Occupy every DIMM that a copy lies on, and their channels."""
    if length_ns:
        where = range(instance.dimms) if lie.dimm is None else [lie.dimm]
        busy = {f"DIMM {dimm}": instance.charge_ns(lie, length_ns) for dimm in where}
        if instance.channels is not None:
            busy |= {f"channel {instance.channels[dimm]}": length_ns for dimm in where}
        for name, length in busy.items():
            engine.add(name, length, priority=READS_FIRST, kind="read", number=number)
