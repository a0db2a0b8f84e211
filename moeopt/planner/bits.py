"""How many bits the weights get; each expert by the problem bitwidth, one budget for the model."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from moeopt.core.errors import InputError
from moeopt.core.wording import shown
from moeopt.problems.bitwidth.check import objective
from moeopt.problems.bitwidth.instance import Instance, Solution
from moeopt.sim.models.model_shape import ModelShape
from moeopt.sim.models.quantisations import at_bits, is_name
from moeopt.sim.traces.trace import Trace

from .decision import Decision, decided, made
from .request import Request

WIDTHS = "2,4,8,16"
"""What experts may have if only their average is given."""

PRIOR_CHOICES = 1.0
"""Added to every expert's choices (Laplace's rule of succession): an expert that was not chosen in
the steps decided on is chosen in later ones, so that its loss counts."""


@dataclass(frozen=True)
class Losses:
    """What the widths lose: the mean loss of an expert that is chosen, over layers and choices.

    Attributes
    ----------
    expected
        Of the plan, by the choices of the part decided on and `PRIOR_CHOICES`: what was minimised,
        so that a larger average never makes it larger.
    held_out
        Of the plan, on the held-out part.
    uniform_bits, uniform
        The widest width that every expert may have on the same average, and what it loses on the
        held-out part.
    table
        Where the losses come from.
    """

    expected: float
    held_out: float
    uniform_bits: int
    uniform: float
    table: str


def widths_of(bits: str | None) -> tuple[int, ...]:
    """Return the widths to choose from, rising.

    Raises
    ------
    InputError
        If they are no whole numbers from 1 to 64.
    """
    parts = [part.strip() for part in (bits or WIDTHS).split(",")]
    if not all(part.isascii() and part.isdigit() and 1 <= int(part[:3]) <= 64 for part in parts):
        reason = "must be whole numbers from 1 to 64, comma-separated, with average_bits"
        raise InputError(f"{reason}, not {shown(bits)}", field="bits")
    return tuple(sorted({int(part) for part in parts}))


def check_average(
    average_bits: float | None, bits: str | None, loss_table: Path | None, *, budget: bool = False
) -> None:
    """Check what is said about widths of single experts.

    Parameters
    ----------
    budget
        Whether a budget of quality decides on widths instead of an average.

    Raises
    ------
    InputError
        If no choice of widths has such an average, or there is no average for a table of losses.
    """
    if average_bits is None:
        if budget:
            widths_of(bits)
        elif loss_table is not None:
            raise InputError(
                "needs average_bits: without it no width is decided", field="loss_table"
            )
        return
    widths = widths_of(bits)
    if average_bits < widths[0]:
        listed = ", ".join(map(str, widths))
        least = f"{widths[0]}, the least of the widths {listed}"
        raise InputError(f"must be at least {least}, not {average_bits:g}", field="average_bits")


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
        Mean width of the routed experts, and the width of everything else, which is no wider than
        experts may be.
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
    for named, value in (
        ("average_bits", average_bits),
        ("other_bits", other_bits),
        ("kv_bits", kv_bits),
    ):
        if value is not None and not 0.5 <= value <= 64:
            raise InputError(f"{named}: must be from 0.5 to 64, not {value:g}")
    others = other_bits
    if average_bits is None:
        if "," in str(bits):
            reason = "a width or a quantisation's name, or widths of experts with average_bits"
            raise InputError(f"must be {reason}, not {shown(bits)}", field="bits")
        model = model if bits is None else at_bits(model, bits)
    elif bits is not None and is_name(bits):
        reason = "widths of experts beside average_bits, not the name of a quantisation"
        raise InputError(f"must be {reason}, {shown(bits)}", field="bits")
    elif others is None:
        others = min(average_bits, float(widths_of(None if bits is None else str(bits))[-1]))
    if others is not None:  # with an average the experts get widths of their own later
        model = model.quantized(model.bits, others)
    return model if kv_bits is None else model.with_kv_bits(kv_bits)


def bits(request: Request, kept: Trace, share: float) -> Decision | None:
    """Decide the widths; None where every expert keeps the model's."""
    if request.average_bits is None:
        return None
    instance = _instance(request, kept, PRIOR_CHOICES)

    def says(solution: Solution) -> str:
        widths = Counter(width for layer in solution.bits for width in layer)
        parts = [f"{count} of {width} bits" for width, count in sorted(widths.items())]
        return f"experts: {', '.join(parts)}"

    return decided("bits", instance, Solution, "dp", request, share, says)


def losses(request: Request, decision: Decision, rest: Trace) -> Losses:
    """Return what the decided widths lose, as often as each expert is chosen."""
    solution, before = decision.solved_as(Solution), decision.of(Instance)
    average = request.average_bits or request.model.bits
    uniform = max(width for width in widths_of(request.bits) if width <= average)
    alike = solution.model_copy(
        update={"bits": tuple((uniform,) * len(layer) for layer in solution.bits)}
    )
    after = _instance(request, rest, 0.0)
    facts = (before.provenance or {}).get("losses", {})
    return Losses(
        expected=_mean_loss(before, solution),
        held_out=_mean_loss(after, solution),
        uniform_bits=uniform,
        uniform=_mean_loss(after, alike),
        table=str(facts.get("name", "")),
    )


def _instance(request: Request, part: Trace, prior_choices: float) -> Instance:
    """Return the choice of widths on a part of the trace, all of whose tokens count."""
    return made(
        Instance,
        request,
        part,
        average_bits=request.average_bits,
        bits=",".join(map(str, widths_of(request.bits))),
        budget="model",
        phase="all",
        prior_choices=prior_choices,
        loss_table=request.loss_table,
    )


def _mean_loss(instance: Instance, solution: Solution) -> float:
    """Return the mean over the layers of the loss, in units of the table."""
    return objective(instance, solution) * (instance.loss_scale or 1.0) / len(instance.layers)
