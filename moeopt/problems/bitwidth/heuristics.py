"""The paper's prefix split and the named baselines; each says what its source leaves unsaid."""

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .check import objective, violations
from .instance import Instance, Layer, Solution


@dataclass(frozen=True)
class Unit:
    """An expert, or all experts of a layer.

    Attributes
    ----------
    layer
        Its position.
    experts
        How many experts it has.
    losses
        Summed over them, by width.
    """

    layer: int
    experts: int
    losses: tuple[int, ...]


def units_of(instance: Instance) -> list[Unit]:
    """Return every expert, or every layer if the granularity is not "expert", in order."""
    if instance.granularity == "expert":
        return [
            Unit(number, 1, expert.loss)
            for number, layer in enumerate(instance.layers)
            for expert in layer.experts
        ]
    return [
        Unit(number, len(layer.experts), summed_losses(layer))
        for number, layer in enumerate(instance.layers)
    ]


def summed_losses(layer: Layer) -> tuple[int, ...]:
    """Return what a layer loses with all experts at one width, by width."""
    return tuple(map(sum, zip(*(expert.loss for expert in layer.experts), strict=True)))


def widths_for_all(instance: Instance, layer: Layer) -> list[int]:
    """Return the widths, by position, that keep BW-C5 if all experts of the layer have them."""
    required = {width: least for width, least in instance.min_count.items() if least}
    return [
        column
        for column, width in enumerate(instance.bits)
        if set(required) <= {width} and required.get(width, 0) <= len(layer.experts)
    ]


def solution_of(instance: Instance, units: Sequence[Unit], columns: Sequence[int]) -> Solution:
    """Return the solution in which each unit has the width at its position in `bits`."""
    bits: list[list[int]] = [[] for _ in instance.layers]
    for unit, column in zip(units, columns, strict=True):
        bits[unit.layer] += [instance.bits[column]] * unit.experts
    return Solution(instance=instance.name, bits=tuple(map(tuple, bits)))


def least_columns(instance: Instance) -> list[int | None] | None:
    """Return the least bits that keep BW-C5: by unit a position in `bits`, None for the narrowest.

    With single experts, the widest width with a minimum count takes the experts that gain most from
    it, and so on down; those that must have the narrowest are the ones that gain least. None as a
    whole if nothing keeps BW-C5.
    """
    if instance.granularity == "expert":
        return _single_experts(instance)
    columns: list[int | None] = []
    for layer in instance.layers:
        allowed = widths_for_all(instance, layer)
        if not allowed:
            return None
        columns.append(allowed[0] if len(allowed) < len(instance.bits) else None)
    return columns


def _single_experts(instance: Instance) -> list[int | None] | None:
    found: list[int | None] = []
    for layer in instance.layers:
        losses = [expert.loss for expert in layer.experts]
        columns: list[int | None] = [None] * len(losses)
        for column in reversed(range(len(instance.bits))):
            needed = instance.min_count.get(instance.bits[column], 0)
            free = [row for row, taken in enumerate(columns) if taken is None]
            if needed > len(free):
                return None
            if column:
                free.sort(key=lambda row: losses[row][column] - losses[row][0])
            else:
                free.sort(key=lambda row: losses[row][0] - min(losses[row]))
            for row in free[:needed]:
                columns[row] = column
        found += columns
    return found


def upgraded(
    instance: Instance, units: Sequence[Unit], columns: list[int | None]
) -> list[int] | None:
    """Return the widths, by position, after greedy upgrades; None if the start is over a budget.

    Parameters
    ----------
    instance, units
        The problem, and what is decided at once in it.
    columns
        Where each unit starts; those at None start at the narrowest and may be upgraded.
    """
    shared = instance.model_budget_bits
    free = [limit or 0 for limit in instance.layer_budgets] if shared is None else [shared]
    bits = instance.bits

    def account(unit: Unit) -> int:
        return unit.layer if shared is None else 0

    for unit, column in zip(units, columns, strict=True):
        free[account(unit)] -= bits[column or 0] * unit.experts
    if min(free) < 0:
        return None
    chosen = [column or 0 for column in columns]
    heap = [
        step
        for row, column in enumerate(columns)
        if column is None
        for step in _steps(units[row], row, 0, bits)
    ]
    heapq.heapify(heap)
    while heap:
        _, needed, row, start, end = heapq.heappop(heap)
        if chosen[row] == start and needed <= free[account(units[row])]:
            free[account(units[row])] -= needed
            chosen[row] = end
            for step in _steps(units[row], row, end, bits):
                heapq.heappush(heap, step)
    return chosen


def _steps(
    unit: Unit, row: int, start: int, bits: Sequence[int]
) -> Iterator[tuple[float, int, int, int, int]]:
    """Yield the upgrades that gain: (-gain per bit, bits, row, from, to)."""
    for end in range(start + 1, len(bits)):
        gain = unit.losses[start] - unit.losses[end]
        if gain > 0:
            needed = (bits[end] - bits[start]) * unit.experts
            yield -gain / needed, needed, row, start, end


def greedy_columns(instance: Instance) -> tuple[list[Unit], list[int]] | None:
    """Return the units and their widths after greedy upgrades; None if nothing is feasible."""
    units, start = units_of(instance), least_columns(instance)
    chosen = None if start is None else upgraded(instance, units, start)
    return None if chosen is None else (units, chosen)


def uniform(instance: Instance) -> Solution | None:
    """Give every expert the same width: the widest that keeps all rules. None if none does."""
    for width in reversed(instance.bits):
        solution = one_width(instance, width)
        if not violations(instance, solution):
            return solution
    return None


def greedy_marginal(instance: Instance) -> Solution | None:
    """Start narrow, then take the upgrade of most gain per bit that fits, until none gains.

    An upgrade goes to any wider width, which a table that is not convex needs. Ties go to the least
    bits, then to the first layer and expert. `min_count` is kept from the start, see
    `least_columns`. Where the whole model has one width, that of least loss is taken.
    Returns None exactly if nothing is feasible.
    """
    if instance.granularity == "model":
        return best_uniform(instance)
    found = greedy_columns(instance)
    return None if found is None else solution_of(instance, *found)


def best_uniform(instance: Instance) -> Solution | None:
    """Return the solution with one width for all that loses least, or None if none is feasible."""
    made = (one_width(instance, width) for width in instance.bits)
    feasible = [solution for solution in made if not violations(instance, solution)]
    return min(feasible, key=lambda solution: objective(instance, solution), default=None)


def one_width(instance: Instance, width: int) -> Solution:
    """Return the solution in which every expert has the same width."""
    bits = tuple((width,) * len(layer.experts) for layer in instance.layers)
    return Solution(instance=instance.name, bits=bits)


WARM_START = greedy_marginal
"""The heuristic whose solution the exact methods start from."""
