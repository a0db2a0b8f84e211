"""Widths that differ, in words, and what rounding can hide; there is no schedule to look at."""

from collections.abc import Iterator

from moeopt.core.view import Changes, Difference, replaced

from .check import objective
from .instance import Expert, Instance, Solution


def facts(instance: Instance, solution: Solution) -> dict[str, str | int]:
    """Return how far rounding may matter, if the instance says that its losses are rounded.

    `rounding_error` is in units of loss: an optimum loses at most so much more than the best widths
    by the table that was rounded. `rounding_share` is that over the solution's loss.
    """
    if all(layer.loss_error is None for layer in instance.layers):
        return {}
    error, loss = instance.loss_error, objective(instance, solution)
    share = "unknown" if error and not loss else f"{100 * error / max(loss, 1):.2g} %"
    return {"rounding_error": error, "rounding_share": share}


def precision(instance: Instance, solution: Solution) -> str | None:
    """Return in words how much an optimum may lose more than the best widths by the table."""
    known = facts(instance, solution)
    if not known:
        return None
    units, share = known["rounding_error"], known["rounding_share"]
    return f"losses are rounded; by the table an optimum is within {units} ({share}) of the best"


def differences(instance: Instance, ours: Solution, best: Solution) -> Iterator[Difference]:
    """Yield the experts that have different widths, by the difference of their losses."""
    for number, layer in enumerate(instance.layers):
        for expert, a, b in zip(layer.experts, ours.bits[number], best.bits[number], strict=True):
            if a != b:
                matters = abs(_loss(instance, expert, a) - _loss(instance, expert, b))
                yield matters, f"layer {number}, expert {expert.expert}", _bits(a), _bits(b)


def changes(instance: Instance, solution: Solution) -> Changes:
    """Yield other widths of an expert, and exchanges within a layer, by the loss that results.

    Where the granularity ties experts together, other widths of all that are tied.
    """
    if instance.granularity != "expert":
        layers = [*range(len(instance.layers))]
        for tied in [layers] if instance.granularity == "model" else [[at] for at in layers]:
            for width in instance.bits:
                rows = solution.bits
                for at in tied:
                    rows = replaced(rows, at, (width,) * len(rows[at]))
                if rows != solution.bits:
                    what = f"layer {tied[0]}" if len(tied) == 1 else "all layers"
                    words = f"{what}: {_bits(width)}"
                    yield words, solution.model_copy(update={"bits": rows})
        return
    found = []
    for number, (layer, widths) in enumerate(zip(instance.layers, solution.bits, strict=True)):
        losses = [[_loss(instance, e, width) for width in instance.bits] for e in layer.experts]
        at = [instance.bits.index(width or 0) for width in widths]
        for one, (mine, now) in enumerate(zip(losses, at, strict=True)):
            found += [
                (loss - mine[now], number, one, one, place)
                for place, loss in enumerate(mine)
                if place != now
            ]
            for two in range(one + 1, len(at)):
                if at[two] != now:
                    gain = mine[at[two]] - mine[now] + losses[two][now] - losses[two][at[two]]
                    found.append((gain, number, one, two, at[two]))
    for _, number, one, two, place in sorted(found):
        experts, widths = instance.layers[number].experts, solution.bits[number]
        new = replaced(widths, one, instance.bits[place])
        words = f"layer {number}, expert {experts[one].expert}: {_bits(new[one])}"
        words += f" and not {_bits(widths[one])}"
        if one != two:
            new = replaced(new, two, widths[one])
            words += f", expert {experts[two].expert} the other way round"
        yield words, solution.model_copy(update={"bits": replaced(solution.bits, number, new)})


def _loss(instance: Instance, expert: Expert, width: int | None) -> int:
    return 0 if width is None else expert.loss[instance.bits.index(width)]


def _bits(width: int | None) -> str:
    return "no width" if width is None else f"{width} bit{'s' if width != 1 else ''}"
