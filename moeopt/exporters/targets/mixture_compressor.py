"""Bits of every expert as Mixture-Compressor's ``main.py --precisions`` loads them.

The file is a pickle of ``{layer: {expert: code}}``, all of them integers. With ``--mixed_type
mixed`` the tool knows two codes: 1 is one bit less than ``--wbits`` and 3 is one bit more; any
other code, and an expert that is not listed, gets ``--wbits``. So it can hold plans whose widths
lie within three that follow each other, whatever they are. For other plans the best such plan is
computed. The pickle is put together from the few instructions that build dicts of integers.
"""

import shlex

from moeopt.core.objective import entries
from moeopt.exporters.exported import Exported, Job, Loss, NoPlanError
from moeopt.exporters.plans import best_restricted, hidden_layers
from moeopt.exporters.target import Target, by_class, classes_of
from moeopt.problems.bitwidth.instance import Instance, Solution

from .ktransformers import pickled_int

LOW, PLAIN, HIGH = 1, 2, 3
"""Codes for one bit less than ``--wbits``, as many, and one more."""

MOST = 8
"""The tool's largest width."""

MIDDLES = (2, 3, 4, 5, 6, 7, 8, 1)
"""Values of ``--wbits``, in the order in which they are tried."""

TARGET = "mixture-compressor"

FORM = "widths of three that follow each other"

Bits = dict[int, dict[int, int]]


def export(job: Job) -> Exported:
    """Return the codes of a bitwidth plan, brought to three neighbouring widths if it has others.

    Layers have the model's numbers where the model is known, and count from 0 otherwise.
    """
    instance = job.given(Instance)
    plan, middle, loss = _of_three_widths(job)
    known = job.shape is not None
    layers = len(instance.layers)
    numbers = hidden_layers(job, layers) if known else tuple(range(layers))
    bits = {
        number: {one.expert: width or 0 for one, width in zip(layer.experts, widths, strict=True)}
        for number, layer, widths in zip(numbers, instance.layers, plan.bits, strict=True)
    }
    counted = "by the model's layers" if known else "from 0 over the layers with experts"
    options = f"--wbits {middle}bit --mixed_type mixed --precisions"
    notes = {"layers_counted": counted, "wbits": middle}
    return Exported(
        pickled({la: {e: w - middle + PLAIN for e, w in row.items()} for la, row in bits.items()}),
        lambda path: f"{options} {shlex.quote(str(path))}",
        notes,
        loss,
        warnings=_unlisted(job, bits, middle),
    )


def middle_of(plan: Solution) -> int | None:
    """Return a ``--wbits`` whose codes can say all widths of a plan, or None if there is none."""
    widths = {width or 0 for row in plan.bits for width in row}
    return next((m for m in MIDDLES if all(_near(width, m) for width in widths)), None)


def pickled(codes: Bits) -> bytes:
    """Return a pickle of a dict of dicts of integers."""
    rows = (pickled_int(number) + _dict(row) for number, row in codes.items())
    return b"\x80\x02}(" + b"".join(rows) + b"u."


def other_models(job: Job) -> tuple[str, ...]:
    """Return that the tool does not load the model, if it does not."""
    if by_class(TARGET)(job) != "no":
        return ()
    only = " and ".join(classes_of(TARGET)["yes"])
    return (f"Mixture-Compressor loads {only} only, not {job.model_class}",)


def _of_three_widths(job: Job) -> tuple[Solution, int, Loss | None]:
    """Return the job's plan or the best that the tool can take, its ``--wbits``, and the loss.

    The best is found by solving for each three widths that follow each other.
    """
    instance, given = job.given(Instance), job.plan(Solution)
    if (own := middle_of(given)) is not None:
        return given, own, None
    allowed = {tuple(w for w in instance.bits if _near(w, m)) for m in MIDDLES}
    needed = {width for width, count in instance.min_count.items() if count}
    triples = [widths for widths in sorted(allowed) if widths and needed <= set(widths)]
    best: tuple[Solution, int, Loss] | None = None
    infeasible = True
    for widths in triples:
        try:
            solution, loss = best_restricted(job, Solution, _only(instance, widths), FORM)
        except NoPlanError as error:
            infeasible &= error.exit_code == 3
            continue
        middle = middle_of(solution)
        better = best is None or entries(loss.exported) < entries(best[2].exported)
        if middle is not None and better:
            best = solution, middle, loss
    if best is None:
        raise NoPlanError(f"{instance.name}: {FORM}: none found", infeasible)
    return best


def _only(instance: Instance, widths: tuple[int, ...]) -> dict[str, object]:
    """Return the fields of an instance that has some of the widths only."""
    columns = [instance.bits.index(width) for width in widths]
    layers = instance.model_dump()["layers"]
    for layer in layers:
        for expert in layer["experts"]:
            expert["loss"] = [expert["loss"][column] for column in columns]
    counts = {width: count for width, count in instance.min_count.items() if count}
    return {"bits": widths, "layers": layers, "min_count": counts}


def _near(width: int, middle: int) -> bool:
    """Tell whether codes for this ``--wbits`` can say a width."""
    return abs(width - middle) <= 1 and width <= MOST


def _unlisted(job: Job, bits: Bits, middle: int) -> tuple[str, ...]:
    """Return that experts which the instance leaves out are quantised nevertheless."""
    if job.shape is None:
        return ()
    missing = sum(job.shape.routed_experts - len(row) for row in bits.values())
    if not missing:
        return ()
    return (f"the tool gives the {missing} experts that the plan leaves out {middle} bits each",)


def _dict(row: dict[int, int]) -> bytes:
    items = b"".join(pickled_int(key) + pickled_int(value) for key, value in row.items())
    return b"}(" + items + b"u"


TARGETS = (
    Target(
        TARGET,
        "Mixture-Compressor: main.py --precisions, a pickle of bits",
        ("bitwidth",),
        ".pkl",
        export,
        holds="widths within three that follow each other, of Mixtral's experts",
        loses="other widths",
        honoured=by_class(TARGET),
        warn=other_models,
    ),
)
