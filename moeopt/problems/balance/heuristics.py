"""The paper's rules for how much the GPU takes, and the baselines.

All of them move resident experts first, the others in one order (settlement `taken_first`). Part of
an expert is taken slice by slice from one unit after the other, so that the units stay as even as
slices allow. Arguments other than the instance are settlements, see `settlements`.
"""

from collections.abc import Callable
from fractions import Fraction
from math import floor

from .check import objective
from .equations import balanced_experts, largest_resident_share, taken_order, whole_experts
from .instance import Instance, Solution


def balance_equation(
    instance: Instance,
    balance_times: str = "own",
    unhidden_part: str = "multiples of N",
    rounding: str = "best",
    taken_first: str = "hot",
) -> Solution:
    """Take what Eq. 1 (decode) or Eq. 2 (prefill) balances, rounded to slices."""
    share = balanced_experts(instance, balance_times, unhidden_part, taken_first)
    slices = share * instance.slices
    options = [take(instance, count, taken_first) for count in _rounded(instance, slices, rounding)]
    return min(options, key=lambda option: objective(instance, option))


def _rounded(instance: Instance, slices: Fraction, rounding: str) -> list[int]:
    """Return the numbers of slices that a settlement of `rounding` makes of a real number."""
    if rounding == "down":
        return [floor(slices)]
    if rounding == "nearest":
        return [floor(slices + Fraction(1, 2))]
    steps = [1, instance.ndp_units] if rounding == "best" else [1]
    return sorted({sign * floor(sign * slices / n) * n for n in steps for sign in (1, -1)})


def e_max(
    instance: Instance,
    balance_times: str = "own",
    taken_first: str = "hot",
    resident_part: str = "whole experts",
) -> Solution:
    """Compute as many resident experts on the GPU as Eq. 3 allows, the rest on the NDP units.

    It never pulls an expert over the link.
    """
    share = largest_resident_share(instance, balance_times, taken_first)
    if resident_part == "slices":
        return take(instance, floor(share * instance.slices), taken_first)
    return take(instance, floor(share) * instance.slices, taken_first)


def framework(
    instance: Instance,
    balance_times: str = "own",
    unhidden_part: str = "multiples of N",
    rounding: str = "best",
    taken_first: str = "hot",
    resident_part: str = "whole experts",
) -> Solution:
    """Follow the paper's switch: Eq. 3 where an active expert is resident, else Eq. 1 or 2."""
    if any(expert.resident for expert in instance.experts):
        return e_max(instance, balance_times, taken_first, resident_part)
    return balance_equation(instance, balance_times, unhidden_part, rounding, taken_first)


def monde(instance: Instance, balance_times: str = "own", taken_first: str = "hot") -> Solution:
    """Take whole experts until their transfers balance the NDP work, as MoNDE does.

    Its units hold whole experts. Slices of every expert lie on every unit here, so this is its rule
    on the other system's placement: the comparison is about the rule.
    """
    count = whole_experts(instance, balance_times, taken_first)
    return take(instance, count * instance.slices, taken_first)


def all_ndp(instance: Instance) -> Solution:
    """Leave everything to the NDP units: tensor parallelism without the GPU."""
    return take(instance, 0)


def all_gpu(instance: Instance) -> Solution:
    """Take everything."""
    return take(instance, instance.slices * len(instance.experts))


def take(instance: Instance, slices: int, taken_first: str = "hot") -> Solution:
    """Return the solution that takes a number of slices, expert by expert.

    Parameters
    ----------
    instance
        One layer.
    slices
        How many in all, from 0 to all there are.
    taken_first
        In which order, see `equations.taken_order`.
    """
    rows: list[tuple[int, ...]] = [()] * len(instance.experts)
    for row in taken_order(instance, taken_first):
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
