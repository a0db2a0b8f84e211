"""Executing a layout solution: the scenarios one after the other on one machine (TriMoE 4.2, 4.3).

Eq. 5: GPU and CPU are serial. Eq. 6: a DIMM serves host reads and its own NDP work, one after the
other, and a read does not delay the host's own task. Eq. 7: a scenario's makespan is when all of it
is done; the next scenario starts then. Each is run once, whatever its weight.

In schema 2 the GPU begins each scenario with its base load, a host's read occupies memory channels
beside the DIMMs, and a miss in two parts occupies PCIe beside the GPU; none of these waits for
another. An expert with several copies is run from the one that the solution's `source` names.
"""

from collections.abc import Sequence

from moeopt.problems.layout.instance import Domain, Instance, Solution
from moeopt.problems.layout.view import channel_names
from moeopt.sim.engine.core import BETWEEN, Engine, Executed, Windows
from moeopt.sim.engine.timeline import Resource

READS_FIRST, WORK = 0, 1
"""Priorities on a DIMM; the order is free in Eq. 6, and this one is how `view.lanes` draws it."""


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
    devices = ["GPU", "CPU", *(f"DIMM {number}" for number in range(instance.dimms))]
    devices += channel_names(instance, range(instance.dimms))
    if instance.in_two_parts:
        devices.append("PCIe")
    engine = Engine([*(Resource(name) for name in devices), *[BETWEEN] * several])
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
            if domain is not None:
                _run(engine, instance, solution, (number, expert), domain, windows.before, label)
        objective += windows.end(scenario.weight, label)
    return Executed(engine.timeline(), objective, weights=windows.weights)


def _run(
    engine: Engine,
    instance: Instance,
    solution: Solution,
    which: tuple[int, int],
    domain: Domain,
    after: Sequence[int],
    label: str,
) -> None:
    """Add one expert's tasks in one scenario: on its device, and the read that feeds it."""
    number, expert = which
    scenario, dimm = instance.scenarios[number], solution.run_from(number, expert)
    striped, read, copy = dimm is None, True, 0
    if domain == "gpu" and solution.resident[expert]:
        length, read = scenario.gpu_hit_ns[expert], False
    elif domain == "gpu" and scenario.gpu_calc_ns is not None:
        of = scenario.pcie_striped_ns if striped else scenario.pcie_localized_ns
        length, copy = scenario.gpu_calc_ns[expert], of[expert] if of else 0
    elif domain == "gpu":
        of = scenario.gpu_miss_striped_ns if striped else scenario.gpu_miss_localized_ns
        length = of[expert]
    elif domain == "cpu":
        length = (scenario.cpu_striped_ns if striped else scenario.cpu_localized_ns)[expert]
    else:
        length, read = scenario.ndp_ns[expert], False

    def add(device: str, length_ns: int, priority: int, kind: str) -> None:
        engine.add(
            device, length_ns, after=after, priority=priority, kind=kind, label=label, number=expert
        )

    add(f"DIMM {dimm}" if domain == "ndp" else domain.upper(), length, WORK, "expert")
    if copy:
        add("PCIe", copy, WORK, "copy")
    full_ns = instance.dram_striped_ns if striped else instance.dram_localized_ns
    if read and full_ns:
        where = range(instance.dimms) if dimm is None else [dimm]
        read_ns = instance.striped_charge_ns(full_ns) if striped else full_ns
        for at in where:
            add(f"DIMM {at}", read_ns, READS_FIRST, "read")
        for channel in channel_names(instance, where):
            add(channel, full_ns, READS_FIRST, "read")
