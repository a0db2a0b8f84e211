"""Slices of a layer's experts that the GPU takes from the units (edge GPU-NDP, Eq. 1-3)."""

from dataclasses import dataclass
from math import ceil

import numpy as np

from moeopt.problems.balance.heuristics import framework
from moeopt.problems.balance.instance import Instance, Solution

from .clock import LayerWork, OnGpu
from .system import RunState
from .work import Integers
from .world import World


@dataclass(frozen=True)
class Slices:
    """What a layer's slices take, in ns.

    Attributes
    ----------
    gpu_ns, upload_ns
        Shape (items,): computing and transfer of each slice on the GPU, in order.
    ndp_ns
        Shape (units,): what each unit computes.
    delay_ns
        What the activations add until the units' outputs are there.
    """

    gpu_ns: Integers
    upload_ns: Integers
    ndp_ns: Integers
    delay_ns: int


def slices_instance(state: RunState, layer: int, tokens: Integers) -> Instance:
    """Return the instance of `balance` for a layer's tokens, one slice of each expert on a unit.

    In decoding the activations of all tokens go over the link together; in prompts they follow one
    another without latency.
    """
    world = state.world
    costs, model, link = world.costs, world.model, world.machine.pcie
    active = np.flatnonzero(tokens)
    units = world.machine.ndp_units
    columns = model.expert_intermediate_size
    share = ceil(columns / units) / columns
    size = 2 * model.hidden_size
    if state.prompt:
        activation = link.stream_s(size)
        length: int | None = max(2, int(tokens.sum()) // model.top_k)
    else:
        activation = link.transfer_s(float(size * world.batch))
        length = None

    def to_ns(seconds: object) -> Integers:
        return np.ceil(np.asarray(seconds, dtype=float) * 1e9 - 1e-6).astype(np.int64)

    made: Instance = Instance.from_arrays(
        expert=active,
        tokens=tokens[active],
        resident=state.resident[layer, active],
        slice_gpu_ns=to_ns(share * costs.computation_s("gpu", tokens[active])),
        slice_ndp_ns=to_ns(share * costs.computation_s("ndp", tokens[active])),
        slice_transfer_ns=int(to_ns(link.stream_s(model.expert_bytes * share))),
        activation_ns=int(to_ns(activation)),
        ndp_units=units,
        slices_per_unit=1,
        name=f"layer{layer}",
        seq_len=length,
    )
    return made


def balanced_slices(state: RunState, layer: int, tokens: Integers) -> Slices:
    """Return the work of the slices that the paper's equations give the GPU."""
    instance = slices_instance(state, layer, tokens)
    return slices_of(instance, framework(instance))


def slices_of(instance: Instance, solution: Solution) -> Slices:
    """Return the work of a solution; the GPU takes its slices in Johnson's order."""
    pulled = np.array(solution.gpu_slices)
    counts = pulled.sum(axis=1)
    gpu = np.array([expert.slice_gpu_ns for expert in instance.experts])
    ndp = np.array([expert.slice_ndp_ns for expert in instance.experts])
    resident = np.array([expert.resident for expert in instance.experts])
    kept = instance.slices_per_unit - pulled
    due = bool((kept > 0).any())
    order = [row for row in instance.flow_shop_order if counts[row]]
    items = np.repeat(order, counts[order]).astype(np.int64) if order else np.zeros(0, np.int64)
    gpu_ns, upload_ns = gpu[items], np.where(resident[items], 0, instance.slice_transfer_ns)
    if due and instance.gpu_overhead_ns:
        # Activations of a prompt keep the link busy before the slices (Eq. 2).
        gpu_ns = np.concatenate([[0], gpu_ns])
        upload_ns = np.concatenate([[instance.gpu_overhead_ns], upload_ns])
    return Slices(
        gpu_ns=gpu_ns,
        upload_ns=upload_ns,
        ndp_ns=(kept * ndp[:, None]).sum(axis=0),
        delay_ns=instance.ndp_overhead_ns if due else 0,
    )


def work_of_slices(world: World, found: Slices) -> LayerWork:
    """Return what a layer's slices ask of each device."""
    return LayerWork(
        gpu=OnGpu.of(found.gpu_ns, found.upload_ns),
        ndp_ns=found.ndp_ns,
        to_host_ns=world.sync_ns,
        to_gpu_ns=world.sync_ns,
        ndp_delay_ns=found.delay_ns,
    )
