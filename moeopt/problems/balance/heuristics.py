"""The paper's rules for how much the GPU takes, and the baselines.

All of them move experts in one order: resident ones first, then by falling tokens, then by lowest
number. Part of an expert is taken slice by slice from one unit after the other, so that the units
stay as even as slices allow.
"""

from collections.abc import Callable
from fractions import Fraction
from math import floor

from .check import objective
from .equations import balanced_experts, largest_resident_share, whole_experts
from .instance import Instance
from .solution import Solution


def balance_equation(instance: Instance) -> Solution:
    """Take what Eq. 1 (decode) or Eq. 2 (prefill) balances, rounded to slices.

    The real number of experts is rounded down, up and to the nearest slice; the best is returned.
    The paper does not say how it rounds.
    """
    slices = balanced_experts(instance) * instance.slices
    counts = {floor(slices), -floor(-slices), floor(slices + Fraction(1, 2))}
    options = [take(instance, count) for count in sorted(counts)]
    return min(options, key=lambda option: objective(instance, option))


def e_max(instance: Instance) -> Solution:
    """Compute as many resident experts on the GPU as Eq. 3 allows, the rest on the NDP units.

    Eq. 3 gives a real number, rounded down here. It never pulls an expert over the link.
    """
    return take(instance, floor(largest_resident_share(instance)) * instance.slices)


def framework(instance: Instance) -> Solution:
    """Follow the paper's switch: Eq. 3 where an active expert is resident, else Eq. 1 or 2."""
    if any(expert.resident for expert in instance.experts):
        return e_max(instance)
    return balance_equation(instance)


def monde(instance: Instance) -> Solution:
    """Take whole experts until their transfers balance the NDP work, as MoNDE does.

    Its units hold whole experts. Slices of every expert lie on every unit here, so this is its rule
    on the other system's placement: the comparison is about the rule.
    """
    return take(instance, whole_experts(instance) * instance.slices)


def all_ndp(instance: Instance) -> Solution:
    """Leave everything to the NDP units: tensor parallelism without the GPU."""
    return take(instance, 0)


def all_gpu(instance: Instance) -> Solution:
    """Take everything."""
    return take(instance, instance.slices * len(instance.experts))


def take(instance: Instance, slices: int) -> Solution:
    """Return the solution that takes a number of slices, expert by expert.

    Parameters
    ----------
    instance
        Says in which order; see the module's text.
    slices
        How many in all, from 0 to all there are.
    """
    experts = instance.experts
    order = sorted(
        range(len(experts)),
        key=lambda row: (not experts[row].resident, -experts[row].tokens, experts[row].expert),
    )
    rows: list[tuple[int, ...]] = [()] * len(experts)
    for row in order:
        count = min(slices, instance.slices)
        slices -= count
        each, more = divmod(count, instance.ndp_units)
        rows[row] = tuple(each + (unit < more) for unit in range(instance.ndp_units))
    return Solution(instance=instance.name, gpu_slices=tuple(rows))


HEURISTICS: dict[str, Callable[..., Solution]] = {
    "balance-equation": balance_equation,
    "e-max": e_max,
    "framework": framework,
    "monde": monde,
    "all-ndp": all_ndp,
    "all-gpu": all_gpu,
}


def best_of_all(instance: Instance) -> Solution:
    """Return the best solution of all heuristics."""
    options = [heuristic(instance) for heuristic in HEURISTICS.values()]
    return min(options, key=lambda option: objective(instance, option))


WARM_START = best_of_all
"""The heuristic whose solution the exact methods start from."""
