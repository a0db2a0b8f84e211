"""Executing a balance solution: slices on link, GPU and NDP units (edge GPU-NDP, Eq. 1-3).

The link carries one slice at a time, the GPU computes one slice at a time, each once it is there,
and each NDP unit computes what it keeps. If any unit keeps something, the activations pass first on
the units' side, and on the link when all slices are through, as Eq. 2 charges them.
"""

from moeopt.sim.engine.core import Engine, Executed
from moeopt.sim.engine.timeline import Resource

from .instance import Instance, Solution


def execute(instance: Instance, solution: Solution) -> Executed:
    """Run every slice where the solution has it.

    Parameters
    ----------
    instance, solution
        The solution is valid for the instance.

    Returns
    -------
    Executed
        With the makespan in ns as objective.
    """
    units = [Resource(f"NDP {number}") for number in range(instance.ndp_units)]
    engine = Engine([Resource("link"), Resource("GPU"), *units, Resource("hand-over", delay=True)])
    due = any(count < instance.slices_per_unit for row in solution.gpu_slices for count in row)
    computed = _pulled(engine, instance, solution)
    if due and instance.gpu_overhead_ns:
        engine.add("link", instance.gpu_overhead_ns, after=computed, kind="activations")
    handed = engine.add(
        "hand-over", instance.ndp_overhead_ns if due else 0, kind="activations"
    )  # fmt: skip
    for expert, row in zip(instance.experts, solution.gpu_slices, strict=True):
        for unit, count in enumerate(row):
            for _ in range(instance.slices_per_unit - count):
                engine.add(
                    f"NDP {unit}", expert.slice_ndp_ns, after=[handed], kind="slice",
                    number=expert.expert,
                )  # fmt: skip
    return engine.executed()


def _pulled(engine: Engine, instance: Instance, solution: Solution) -> list[int]:
    """Add the transfers and computations of the GPU's slices; return the computations."""
    computed = []
    for row in instance.flow_shop_order:
        expert = instance.experts[row]
        for _ in range(sum(solution.gpu_slices[row])):
            after = []
            if not expert.resident:
                after.append(
                    engine.add(
                        "link", instance.slice_transfer_ns, kind="transfer", number=expert.expert
                    )
                )
            computed.append(
                engine.add(
                    "GPU", expert.slice_gpu_ns, after=after, kind="slice", number=expert.expert
                )
            )
    return computed
