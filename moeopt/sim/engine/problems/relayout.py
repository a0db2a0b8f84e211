"""Executing a relayout solution: migrations on their links, then the layer (TriMoE 4.2 and 4.3).

Prefetches run on PCIe and moves of host copies on DIMM-Link, one after the other on each. They are
over when the layer starts, which then runs as in tri_domain: GPU and CPU are serial (Eq. 5), a DIMM
serves host reads and its own NDP work (Eq. 6).
"""

from moeopt.problems.relayout.instance import Expert, Instance
from moeopt.problems.relayout.solution import Migration, Solution
from moeopt.sim.engine.core import Engine
from moeopt.sim.engine.problems.execute import Executed
from moeopt.sim.engine.resource import Resource
from moeopt.sim.engine.timeline import Timeline

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
    engine = Engine([Resource("GPU"), Resource("CPU"), *dimms])
    migrating = {migration.expert: migration for migration in solution.migrations}
    for expert, domain in zip(instance.experts, solution.assignment, strict=True):
        if domain is not None:
            _run(engine, instance, expert, domain, migrating.get(expert.expert))
    engine.run()
    timeline = engine.timeline()
    return Executed(timeline, timeline.makespan_ns)


def execute_migrations(instance: Instance, solution: Solution) -> Timeline:
    """Run the migrations, each on its link, from time 0: PCIe and DIMM-Link."""
    engine = Engine([Resource("PCIe"), Resource("DIMM-Link")])
    length = {
        "prefetch": ("PCIe", instance.prefetch_ns),
        "localize": ("DIMM-Link", instance.relayout_ns),
        "stripe": ("DIMM-Link", instance.relayout_ns),
        "rebalance": ("DIMM-Link", instance.rebalance_ns),
    }
    for migration in solution.migrations:
        link, length_ns = length[migration.kind]
        engine.add(link, length_ns, kind=migration.kind, number=migration.expert)
    engine.run()
    return engine.timeline()


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
    if domain == "gpu" and in_memory:
        engine.add("GPU", expert.gpu_hit_ns, kind="expert", number=number)
        return
    if dimm is None:
        host_ns = {"gpu": expert.gpu_miss_striped_ns, "cpu": expert.cpu_striped_ns}[domain]
        where, read_ns = range(instance.dimms), instance.dram_striped_ns
    else:
        host_ns = {"gpu": expert.gpu_miss_localized_ns, "cpu": expert.cpu_localized_ns}[domain]
        where, read_ns = range(dimm, dimm + 1), instance.dram_localized_ns
    engine.add(domain.upper(), host_ns, kind="expert", number=number)
    for place in where:
        if read_ns:
            name = f"DIMM {place}"
            engine.add(name, read_ns, priority=READS_FIRST, kind="read", number=number)
