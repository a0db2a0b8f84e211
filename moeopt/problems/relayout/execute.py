"""Executing a relayout solution: migrations on their links, then the layer (TriMoE 4.2 and 4.3).

Prefetches run on PCIe and moves of host copies on DIMM-Link, one after the other on each. They are
over when the layer starts, which then runs as in tri_domain: GPU and CPU are serial (Eq. 5), a DIMM
serves host reads and its own NDP work (Eq. 6). Schema 2: the GPU has its base load first, transfers
go over PCIe, a read keeps its channels busy besides the DIMMs, every DIMM may have its own link.
"""

from moeopt.problems.relayout.instance import Expert, Instance, Migration, Solution
from moeopt.sim.engine.core import Engine, Executed
from moeopt.sim.engine.timeline import Resource

READS_FIRST, WORK = 0, 1
"""Priorities on a DIMM; the order is free in Eq. 6, and this one is how `view.lanes` draws it."""


def execute(instance: Instance, solution: Solution) -> Executed:
    """Run every expert in its domain on the layout after the migrations, all ready at time 0.

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
    migrating = {migration.expert: migration for migration in solution.migrations}
    for expert, domain in zip(instance.experts, solution.assignment, strict=True):
        if domain is not None:
            _run(engine, instance, expert, domain, migrating.get(expert.expert))
    return engine.executed()


def _run(
    engine: Engine, instance: Instance, expert: Expert, domain: str, migration: Migration | None
) -> None:
    """Occupy the domain and, where the host copy is read, the DIMMs that it lies on."""
    number, dimm, in_memory = expert.expert, expert.dimm, expert.resident
    if migration is not None:
        in_memory = in_memory or migration.kind == "prefetch"
        dimm = dimm if migration.kind == "prefetch" else migration.dimm
    if domain == "ndp":
        own = f"DIMM {dimm}"
        engine.add(own, expert.ndp_ns, priority=WORK, kind="expert", number=number)
        return
    striped = dimm is None
    if domain == "gpu":
        work_ns = expert.gpu_work_ns(in_memory=in_memory, striped=striped)
        engine.add("GPU", work_ns, priority=WORK, kind="expert", number=number)
        if in_memory:
            return
        if transfer_ns := expert.pcie_ns(striped=striped):
            engine.add("PCIe", transfer_ns, kind="transfer", number=number)
    else:
        cpu_ns = expert.cpu_striped_ns if striped else expert.cpu_localized_ns
        engine.add("CPU", cpu_ns, kind="expert", number=number)
    read_ns = instance.dram_striped_ns if striped else instance.dram_localized_ns
    charge_ns = instance.striped_charge_ns(read_ns) if striped else read_ns
    where = range(instance.dimms) if dimm is None else [dimm]
    busy = {f"DIMM {place}": charge_ns for place in where}
    if instance.channels is not None:
        busy |= {f"channel {instance.channels[place]}": read_ns for place in where}
    for name, length_ns in busy.items():
        if length_ns:
            engine.add(name, length_ns, priority=READS_FIRST, kind="read", number=number)
