"""A plan from the widths of `bitwidth`: what they mean for decode steps on a machine."""

from moeopt.core.errors import InputError
from moeopt.problems.bitwidth.instance import Instance, Solution
from moeopt.sim.machines.machine import Machine
from moeopt.sim.models.model_shape import ModelShape
from moeopt.sim.plan.schema import Assignment, Plan


def plan_of_widths(
    instance: Instance,
    solution: Solution,
    machine: Machine,
    model: ModelShape,
    layers: int | None = None,
) -> Plan:
    """Return the plan that runs each expert at its width where it lies (CXL-NDP, Algorithm 1).

    Experts that get a width are off the GPU. On a machine with NDP units they run there, each
    localized on one DIMM, the experts of a layer in turn; else they run on the CPU and are striped.
    All others of the model are the GPU's, at the model's own width. Fewer bits are fewer bytes to
    read; whether they compute faster is the machine's to say (``ndp.gflops_bits``).

    Parameters
    ----------
    instance, solution
        The solution is valid for the instance.
    machine, model
        The experts' numbers are the model's.
    layers
        The first so many alone; by default all that the instance has.

    Raises
    ------
    InputError
        If the instance has an expert or layer that the model has not, or has too few layers.
    """
    there = len(model.moe_layers)
    if len(instance.layers) > there:
        raise InputError(f"layers: {len(instance.layers)} where {model.name} has {there}")
    if layers is not None and not 1 <= layers <= len(instance.layers):
        raise InputError(f"layers: {instance.name} has {len(instance.layers)}, not {layers}")
    resident, layout, bits, assigned = [], [], [], []
    for number, layer in enumerate(instance.layers[:layers]):
        width = {
            expert.expert: float(of or 0)
            for expert, of in zip(layer.experts, solution.bits[number], strict=True)
        }
        if max(width) >= model.routed_experts:
            where = f"layers[{number}]: expert {max(width)}"
            raise InputError(f"{where} is not one of {model.name}'s {model.routed_experts}")
        every = range(model.routed_experts)
        away = [expert for expert in every if expert in width]
        place = {expert: turn % machine.dram.dimms for turn, expert in enumerate(away)}
        resident.append(tuple(expert for expert in every if expert not in width))
        bits.append(tuple(width.get(expert, model.bits) for expert in every))
        if machine.ndp is not None:
            layout.append(tuple(place.get(expert) for expert in every))
            assigned.append(Assignment(layer=number, ndp=tuple(away)))
    return Plan(
        name="bitwidth",
        resident=tuple(resident),
        layout=tuple(layout) or None,
        assignments=tuple(assigned),
        bits=tuple(bits),
    )
