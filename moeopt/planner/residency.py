"""Which experts stay on the GPU: the problem placement, with sizes that may differ."""

from moeopt.problems.bitwidth.solution import Solution as Bits
from moeopt.problems.envelope import InstanceEnvelope
from moeopt.sim.generate import generate
from moeopt.sim.generators.placement import memory_of
from moeopt.sim.trace import Trace

from .decision import Decision, decided
from .request import Request

METHOD = "price-and-swap"
"""The exact method of placement."""


def memory(request: Request) -> dict[str, int]:
    """Return what the GPU's memory goes to, in bytes; see `memory_of`."""
    return memory_of(
        request.machine, request.model, request.batch, request.context, request.reserved_gib
    )


def whole_instance(
    request: Request, kept: Trace, steps: int, bits: Bits | None
) -> InstanceEnvelope:
    """Return the placement instance in which all of the GPU's room is for residents.

    Parameters
    ----------
    bits
        Widths that were decided before; None: the model's. Slots then count bits per weight, and
        times are those of the average width.
    """
    model = request.model
    if bits is not None:
        model = model.quantized(request.average_bits or model.bits)
    instance = generate(
        "placement",
        machine=request.machine,
        model=model,
        trace=kept,
        batch=request.batch,
        steps=steps,
        context=request.context,
        reserved_gib=request.reserved_gib,
        seed=request.seed,
        quantum_ns=request.quantum_ns,
    )
    if bits is None:
        return instance
    bytes_per_bit = request.model.expert_bytes / request.model.bits
    room = int(memory(request)["experts"] / bytes_per_bit)
    return instance.model_copy(update={"expert_slots": bits.bits, "gpu_slots": room})


def residency(request: Request, whole: InstanceEnvelope, slots: int, share: float) -> Decision:
    """Decide the residents for a part of the GPU's room."""
    name = f"{whole.name}-{slots}"
    instance = whole.model_copy(update={"gpu_slots": slots, "name": name})
    found = decided(instance, METHOD, request, share)
    counts = [len(layer) for layer in found.solution.gpu]  # type: ignore[union-attr]
    says = f"{sum(counts)} experts on the GPU, {min(counts)} to {max(counts)} per layer"
    return Decision("residency", instance, found, says)
