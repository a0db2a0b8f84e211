"""Executing a layout solution: the scenarios one after the other on one machine (TriMoE 4.2, 4.3).

Eq. 5: GPU and CPU are serial. Eq. 6: a DIMM serves host reads and its own NDP work, one after the
other, and a read does not delay the host's own task. Eq. 7: a scenario's makespan is when all of it
is done; the next scenario starts then. Each is run once, whatever its weight.
"""

from moeopt.problems.layout.instance import Instance
from moeopt.problems.layout.solution import Domain, Solution
from moeopt.sim.engine.core import Engine
from moeopt.sim.engine.problems.execute import Executed
from moeopt.sim.engine.resource import Resource

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
    dimms = [Resource(f"DIMM {number}") for number in range(instance.dimms)]
    engine = Engine([Resource("GPU"), Resource("CPU"), *dimms])
    objective = clock = 0
    for number, scenario in enumerate(instance.scenarios):
        for expert, domain in enumerate(solution.assignment[number]):
            if domain is not None:
                _run(engine, instance, solution, (number, expert), domain, clock)
        engine.run()
        end = max(clock, engine.timeline().makespan_ns)
        objective += scenario.weight * (end - clock)
        clock = end
    return Executed(engine.timeline(), objective)


def _run(
    engine: Engine,
    instance: Instance,
    solution: Solution,
    which: tuple[int, int],
    domain: Domain,
    start_ns: int,
) -> None:
    """Add one expert's tasks in one scenario: on its device, and the read that feeds it."""
    number, expert = which
    scenario, dimm = instance.scenarios[number], solution.dimm[expert]
    striped, read = dimm is None, True
    if domain == "gpu" and solution.resident[expert]:
        length, read = scenario.gpu_hit_ns[expert], False
    elif domain == "gpu":
        of = scenario.gpu_miss_striped_ns if striped else scenario.gpu_miss_localized_ns
        length = of[expert]
    elif domain == "cpu":
        length = (scenario.cpu_striped_ns if striped else scenario.cpu_localized_ns)[expert]
    else:
        length, read = scenario.ndp_ns[expert], False
    device = f"DIMM {dimm}" if domain == "ndp" else domain.upper()
    engine.add(
        device, length, release_ns=start_ns, priority=WORK, kind="expert", number=expert
    )  # fmt: skip
    read_ns = instance.dram_striped_ns if striped else instance.dram_localized_ns
    if read and read_ns:
        for where in range(instance.dimms) if dimm is None else [dimm]:
            engine.add(
                f"DIMM {where}", read_ns, release_ns=start_ns, priority=READS_FIRST, kind="read",
                number=expert,
            )  # fmt: skip
