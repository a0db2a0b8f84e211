"""How many bits each expert gets: the problem bitwidth, one budget for the whole model."""

from collections import Counter

from moeopt.problems.bitwidth.solution import Solution
from moeopt.sim.generate import generate
from moeopt.sim.trace import Trace

from .decision import Decision, decided
from .request import Request


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
        bits=request.bits,
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
