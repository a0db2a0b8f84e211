"""How many bits the weights get; each expert by the problem bitwidth, one budget for the model."""

from collections import Counter

from moeopt.errors import InputError
from moeopt.problems.bitwidth.solution import Solution
from moeopt.problems.wording import shown
from moeopt.sim.generate import generate
from moeopt.sim.model_shape import ModelShape
from moeopt.sim.quantisations import is_name, quantised
from moeopt.sim.trace import Trace

from .decision import Decision, decided
from .request import Request

WIDTHS = "2,4,8,16"
"""What experts may have if only their average is given."""


def model_at(
    model: ModelShape,
    bits: str | float | None,
    average_bits: float | None,
    other_bits: float | None,
    kv_bits: float | None,
) -> ModelShape:
    """Return a model whose weights have the widths that were asked for.

    Parameters
    ----------
    bits
        Without `average_bits` the width of every weight, one number, or the name of a quantisation
        (``moeopt list quantisations``) with its width of each kind of tensor; else the widths that
        experts may have, which `bits` decides on.
    average_bits
        Mean width of the routed experts, and the width of everything else.
    other_bits
        Width of everything but the routed experts, instead of that.
    kv_bits
        Width of the numbers in the KV cache, which nothing else changes.

    Raises
    ------
    InputError
        If there are several widths and no average, a name is unknown or beside an average, or a
        width is none.
    """
    if bits is not None and is_name(bits):
        if average_bits is not None:
            reason = "widths of experts beside average_bits, not the name of a quantisation"
            raise InputError(f"bits: must be {reason}, {shown(bits)}")
        model, bits = quantised(model, str(bits)), None
    width = average_bits
    if average_bits is None and bits is not None:
        try:
            width = float(bits)
        except ValueError:
            reason = "a width or a quantisation's name, or widths of experts with average_bits"
            raise InputError(f"bits: must be {reason}, not {shown(bits)}") from None
    others = width if other_bits is None else other_bits
    for name, value in (("bits", width), ("other_bits", others), ("kv_bits", kv_bits)):
        if value is not None and not 0.5 <= value <= 64:
            raise InputError(f"{name}: must be from 0.5 to 64, not {value:g}")
    if others is not None:
        # with an average the experts keep their width here: each gets one of its own
        experts = model.bits if width is None or average_bits is not None else width
        model = model.quantized(experts, others)
    return model if kv_bits is None else model.model_copy(update={"kv_bits": float(kv_bits)})


def bits(request: Request, kept: Trace, share: float) -> Decision | None:
    """Decide the widths; None where every expert keeps the model's."""
    if request.average_bits is None:
        return None
    instance = generate(
        "bitwidth",
        machine=request.machine,
        model=request.model,
        trace=kept,
        seed=request.seed,
        average_bits=request.average_bits,
        bits=request.bits or WIDTHS,
        budget="model",
        loss_table=request.loss_table,
    )
    found = decided(instance, "dp", request, share)
    solution = found.solution
    if not isinstance(solution, Solution):
        raise TypeError(f"{solution!r} is no solution of bitwidth")
    widths = Counter(width for layer in solution.bits for width in layer)
    parts = [f"{count} of {width} bits" for width, count in sorted(widths.items())]
    return Decision("bits", instance, found, f"experts: {', '.join(parts)}")
