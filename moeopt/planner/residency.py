"""Which experts stay on the GPU: the problem placement, with what the engine charges.

Each expert has the times and the size of its own width. What a layer pays for offloading is both
hand-overs, less the shared experts, which the GPU computes meanwhile: where hand-overs take longer
the problem's objective is the engine's time less what no plan changes, as long as nothing is
deferred or cached. The room that is left goes to experts that cost nothing on the steps decided on,
most used first in all that is known of the trace.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from moeopt.problems.bitwidth.instance import Solution as Bits
from moeopt.problems.placement.bounds import capacity_of
from moeopt.problems.placement.check import objective
from moeopt.problems.placement.fields import Known
from moeopt.problems.placement.instance import Instance, Solution, held_of, solution_of
from moeopt.sim.plan import Times
from moeopt.sim.traces.trace import Trace
from moeopt.systems.cost_table import cost_table

from .budget import memory
from .decision import Decision, decided, made
from .request import Request

METHOD = "price-and-swap"
"""The exact method of placement."""

ENOUGH_GAP = 0.001
"""Where so little is left, proofs can take minutes that nobody's latency is worth."""

Flags = NDArray[np.bool_]


def whole_instance(
    request: Request, kept: Trace, steps: int, bits: Bits | None, times: Times
) -> Instance:
    """Return the placement instance in which all of the GPU's room is for residents.

    Parameters
    ----------
    kept
        The part of the trace that is decided on: its first steps are served, all of it is counted.
    bits
        Widths that were decided before; None: the model's. Slots then count bits per weight, and
        each expert has the times of its own.
    times
        What layers cost besides their experts, one number for all layers.
    """
    instance = made(
        Instance,
        request,
        kept,
        batch=request.batch,
        steps=steps,
        context=request.cache.depth,
        reserved_gib=request.kept_gib,
        quantum_ns=request.quantum_ns,
    )
    tokens = np.arange(kept.tokens)
    counts = [kept.counts(tokens, layer, instance.experts) for layer in range(instance.layers)]
    shared_ns = 0 if times.shared_ns is None else times.shared_ns[0]
    hand_over_ns = max(0, times.to_host_ns[0] + times.to_gpu_ns[0] - shared_ns)
    changes = {
        "schema_version": 2,
        "known": Known(profile_counts=np.array(counts)),
        "layer_offload_fixed_ns": hand_over_ns,
    }
    if bits is not None:
        changes |= _by_width(request, instance, bits)
    return instance.model_copy(update=changes)


def _by_width(request: Request, instance: Instance, bits: Bits) -> dict[str, object]:
    """Return the fields that say what each width takes, in memory and in time."""
    widths = sorted({width or 0 for layer in bits.bits for width in layer})
    number = {width: place for place, width in enumerate(widths, 1)}
    most = len(instance.gpu_expert_ns) - 1
    quantum_ns = instance.quantum_ns or 1
    costs = cost_table(request.costs, most, tuple(map(float, widths)), quantum_ns)
    costs.require("cpu_striped")
    bytes_per_bit = request.model.expert_bytes / request.model.bits
    return {
        "expert_slots": bits.bits,
        "gpu_slots": int(memory(request)["experts"] / bytes_per_bit),
        "expert_width": tuple(tuple(number[width or 0] for width in row) for row in bits.bits),
        "width_gpu_ns": tuple(map(tuple, costs.path_ns["gpu_hit"].tolist())),
        "width_offload_ns": tuple(map(tuple, costs.path_ns["cpu_striped"].tolist())),
    }


def residency(request: Request, whole: Instance, slots: int, share: float) -> Decision:
    """Decide the residents for a part of the GPU's room, and fill what is left of it."""
    name = f"{whole.name}-{slots}"
    instance = whole.model_copy(update={"gpu_slots": slots, "name": name})

    def says(solution: Solution) -> str:
        counts = [len(layer) for layer in solution.gpu]
        return f"{sum(counts)} experts on the GPU, {min(counts)} to {max(counts)} per layer"

    found = decided("residency", instance, Solution, METHOD, request, share, says, ENOUGH_GAP)
    if instance.restriction is not None:
        return found
    chosen = held_of(found.solved_as(Solution), instance.layers, instance.experts)
    solution = solution_of(instance, _filled(instance, chosen))
    result = replace(found.result, solution=solution, objective=objective(instance, solution))
    return replace(found, result=result, says=says(solution))


def _filled(instance: Instance, held: Flags) -> Flags:
    """Return the placement with more experts, as far as they fit and no layer becomes slower.

    Most of them have no tokens in the steps decided on: they come in the order of the counts, of
    equals the lower layer and expert first.
    """
    held = held.copy()
    left = capacity_of(instance).most - int(instance.sizes[held].sum())
    known = instance.known
    counts = instance.tokens if known is None else np.array(known.profile_counts)
    layers, fixed_ns = instance.layer_steps, instance.layer_offload_fixed_ns
    cost = [of.cost_ns(row, fixed_ns) for of, row in zip(layers, held, strict=True)]
    for place in np.argsort(-counts, axis=None, kind="stable").tolist():
        layer, expert = divmod(place, instance.experts)
        size = int(instance.sizes[layer, expert])
        if held[layer, expert] or size > left:
            continue
        held[layer, expert] = True
        ns = cost[layer]
        if instance.tokens[layer, expert]:
            ns = layers[layer].cost_ns(held[layer], fixed_ns)
        if ns > cost[layer]:
            held[layer, expert] = False
            continue
        cost[layer] = ns
        left -= size
    return held
