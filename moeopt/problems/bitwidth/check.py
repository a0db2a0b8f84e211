"""The checker: what makes widths valid and what they cost. Knows nothing of solvers."""

from collections.abc import Iterator
from itertools import product

from .instance import Instance, Solution

CONSTRAINTS = {
    "BW-C1": "every expert has exactly one of the widths",
    "BW-C2": "the widths of a layer sum to at most its budget_bits",
    "BW-C3": "where model_budget_bits is given, it limits the sum of all widths instead",
    "BW-C4": "experts that the granularity ties together have the same width",
    "BW-C5": "in every layer at least min_count experts have exactly the width it names",
}

OBJECTIVE = ("summed_loss",)
"""What is minimised: the sum of the losses, in units of each layer's or the instance's scale."""

Found = Iterator[tuple[str, str]]


def violations(
    instance: Instance, solution: Solution, claim: int | None = None
) -> list[tuple[str, str]]:
    """Return what is wrong with a solution, as (constraint ID, sentence); empty if it is valid.

    Parameters
    ----------
    instance, solution
        The problem and the solution to check.
    claim
        The loss claimed for it; no constraint ties it, so it is not looked at.
    """
    found = list(_shape(instance, solution))
    if found:
        return found
    return [*_widths(instance, solution), *_budgets(instance, solution), *_ties(instance, solution)]


def objective(instance: Instance, solution: Solution) -> int:
    """Return the summed loss of the experts that have one of the widths."""
    column = {width: number for number, width in enumerate(instance.bits)}
    return sum(
        expert.loss[column[width]]
        for layer, widths in zip(instance.layers, solution.bits, strict=False)
        for expert, width in zip(layer.experts, widths, strict=False)
        if width in column
    )


def _shape(instance: Instance, solution: Solution) -> Found:
    if len(solution.bits) != len(instance.layers):
        yield "BW-C1", f"{len(solution.bits)} lists of widths for {len(instance.layers)} layers"
    for number, (layer, widths) in enumerate(zip(instance.layers, solution.bits, strict=False)):
        if len(widths) != len(layer.experts):
            experts = len(layer.experts)
            yield "BW-C1", f"bits[{number}]: {len(widths)} widths for {experts} experts"


def _widths(instance: Instance, solution: Solution) -> Found:
    for number, widths in enumerate(solution.bits):
        for row, width in enumerate(widths):
            if width is None:
                yield "BW-C1", f"bits[{number}][{row}]: the expert has no width"
            elif width not in instance.bits:
                yield "BW-C1", f"bits[{number}][{row}]: {width} is none of the widths"


def _budgets(instance: Instance, solution: Solution) -> Found:
    used = [sum(width or 0 for width in widths) for widths in solution.bits]
    if instance.model_budget_bits is not None:
        if sum(used) > instance.model_budget_bits:
            budget = f"model_budget_bits is {instance.model_budget_bits}"
            yield "BW-C3", f"the widths sum to {sum(used)}, {budget}"
        return
    for number, (layer, bits) in enumerate(zip(instance.layers, used, strict=True)):
        if layer.budget_bits is not None and bits > layer.budget_bits:
            budget = f"its budget_bits is {layer.budget_bits}"
            yield "BW-C2", f"layer {number}: the widths sum to {bits}, {budget}"


def _ties(instance: Instance, solution: Solution) -> Found:
    for number, widths in enumerate(solution.bits):
        if instance.granularity != "expert" and len(set(widths)) > 1:
            yield "BW-C4", f"layer {number}: has experts of different widths"
        for width, least in instance.min_count.items():
            if (count := widths.count(width)) < least:
                yield "BW-C5", f"layer {number}: {count} experts of {width} bits, not {least}"
    if instance.granularity == "model" and len({widths[0] for widths in solution.bits}) > 1:
        yield "BW-C4", "the layers' first experts have different widths"


MAX_CANDIDATES = 4**9


def count(instance: Instance) -> int:
    """Return how many candidates `candidates` yields."""
    experts = sum(len(layer.experts) for layer in instance.layers)
    return int(len(instance.bits) ** experts)


def candidates(instance: Instance) -> Iterator[Solution]:
    """Yield every choice of a width per expert, valid or not: checking is the checker's work."""
    sizes = [len(layer.experts) for layer in instance.layers]
    ends = [sum(sizes[: number + 1]) for number in range(len(sizes))]
    for flat in product(instance.bits, repeat=ends[-1]):
        bits = tuple(flat[end - size : end] for size, end in zip(sizes, ends, strict=True))
        yield Solution.model_construct(problem="bitwidth", instance=instance.name, bits=bits)
