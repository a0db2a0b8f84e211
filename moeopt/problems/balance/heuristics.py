"""The paper's rules for how much the GPU takes, and the baselines.

All of them move resident experts first, the others in one order (assumption `taken_first`). Part of
an expert is taken slice by slice from one unit after the other, so that the units stay as even as
slices allow. Arguments other than the instance are assumptions, see `assumptions`.

The paper's balance conditions, solved in exact fractions (edge GPU-NDP, Eq. 1-3).

Their symbols are times of one whole expert: T_w to transfer it, T_g to compute it on the GPU, T_n
on the NDP units that share it; TopK is the number of active experts. The equations have one T_g and
one T_n. Where active experts differ (in prefill, by tokens) each counts with its own, or the mean
over all of them stands for every one: the assumption `balance_times`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import floor

from .check import objective
from .instance import Instance, Solution


def taken_order(instance: Instance, taken_first: str = "hot") -> list[int]:
    """Return the rows of the experts in the order in which the GPU takes them over.

    Residents come first. `taken_first` is the assumption of that name; ties go to the lowest
    number.
    """
    experts, sign = instance.experts, {"hot": -1, "cold": 1, "number": 0}[taken_first]
    return sorted(
        range(len(experts)),
        key=lambda e: (not experts[e].resident, sign * experts[e].tokens, experts[e].expert),
    )


@dataclass(frozen=True)
class Symbols:
    """The equations' symbols for an instance, times in ns.

    `gpu` and `ndp` have one entry per active expert, in the order in which the GPU takes them.
    """

    units: int
    transfer: Fraction
    gpu: tuple[Fraction, ...]
    ndp: tuple[Fraction, ...]
    gpu_overhead: int
    ndp_overhead: int

    @classmethod
    def of(
        cls, instance: Instance, balance_times: str = "own", taken_first: str = "hot"
    ) -> "Symbols":
        """Take every expert's own times, or their means for all."""
        experts = [instance.experts[row] for row in taken_order(instance, taken_first)]
        gpu = [Fraction(e.slice_gpu_ns * instance.slices) for e in experts]
        ndp = [Fraction(e.slice_ndp_ns * instance.slices_per_unit) for e in experts]
        if balance_times == "mean":
            gpu, ndp = (
                [sum(times, Fraction(0)) / len(experts)] * len(experts) for times in (gpu, ndp)
            )
        return cls(
            units=instance.ndp_units,
            transfer=Fraction(instance.slice_transfer_ns * instance.slices),
            gpu=tuple(gpu),
            ndp=tuple(ndp),
            gpu_overhead=instance.gpu_overhead_ns,
            ndp_overhead=instance.ndp_overhead_ns,
        )

    @property
    def top_k(self) -> int:
        """The number of active experts."""
        return len(self.ndp)

    def remaining(self, share: Fraction) -> Fraction:
        """Return T_n E_n: what is left to the units if the GPU takes the first `share` experts."""
        whole = floor(share)
        left = sum(self.ndp[whole:], Fraction(0))
        return left - (share - whole) * self.ndp[whole] if share > whole else left


def balanced_experts(
    instance: Instance, balance_times: str = "own", taken_first: str = "hot"
) -> Fraction:
    """Return E_g, the real number of experts at which Eq. 1 or 2 balances.

    The left side less the right rises with E_g, but for drops of T_g/N at integers, where E_g'
    begins anew; the least root is taken. At multiples of N E_g' is 1/N, as the paper says, and at
    the other integers 0. Without a root it is 0 (the GPU is late anyway) or TopK.

    Parameters
    ----------
    instance
        One layer.
    balance_times, taken_first
        Assumptions, see `assumptions`.
    """
    s = Symbols.of(instance, balance_times, taken_first)
    return _least_root(
        s.gpu_overhead - s.ndp_overhead - s.remaining(Fraction(0)),
        [s.transfer + n for n in s.ndp],
        [g / s.units for g in s.gpu],
        s.units,
    )


def fluid_makespan(instance: Instance, balance_times: str = "own") -> Fraction:
    """Return the makespan that the balance condition predicts, in ns: its later side at E_g.

    It is no lower bound: E_g' charges computation that slices would hide.
    """
    s = Symbols.of(instance, balance_times)
    share = balanced_experts(instance, balance_times)
    if share == s.top_k:  # no NDP work remains: the left side, without activations
        return s.transfer * share + s.gpu[-1] / s.units
    right = s.ndp_overhead + s.remaining(share)
    return right if share else max(right, Fraction(s.gpu_overhead))


def largest_resident_share(
    instance: Instance, balance_times: str = "own", taken_first: str = "hot"
) -> Fraction:
    """Return E_max of Eq. 3, from 0 to the number of active experts that are resident."""
    s = Symbols.of(instance, balance_times, taken_first)
    resident = sum(expert.resident for expert in instance.experts)
    both = [g + n for g, n in zip(s.gpu, s.ndp, strict=True)]
    return _least_root(-s.ndp_overhead - s.remaining(Fraction(0)), both[:resident])


def whole_experts(instance: Instance, balance_times: str = "own", taken_first: str = "hot") -> int:
    """Return how many whole experts MoNDE moves: transfer time balances NDP time, rounded."""
    s = Symbols.of(instance, balance_times, taken_first)
    share = _least_root(-s.remaining(Fraction(0)), [s.transfer + n for n in s.ndp])
    return floor(share + Fraction(1, 2))


def _least_root(
    start: Fraction | int,
    rises: Sequence[Fraction],
    drops: Sequence[Fraction] | None = None,
    nominal: int = 1,
) -> Fraction:
    """Return where a function of E, linear between integers, is 0 for the first time.

    Parameters
    ----------
    start
        Its value at 0; from 0 on, 0 is returned.
    rises
        How much it rises from each integer to the next, drops left out. If it stays negative, their
        number is returned.
    drops
        What it rises besides, and loses again at the next integer.
    nominal
        At which integers it has the value before the drop: the multiples of this number.
    """
    value = Fraction(start)
    if value >= 0:
        return Fraction(0)
    for whole, rise in enumerate(rises):
        drop = Fraction(0) if drops is None else drops[whole]
        end = value + rise + drop
        if end > 0 or (end == 0 and (not drop or (whole + 1) % nominal == 0)):
            return whole - value / (rise + drop)
        value += rise
    return Fraction(len(rises))


def balance_equation(
    instance: Instance,
    balance_times: str = "own",
    rounding: str = "best",
    taken_first: str = "hot",
) -> Solution:
    """Take what Eq. 1 (decode) or Eq. 2 (prefill) balances, rounded to slices."""
    share = balanced_experts(instance, balance_times, taken_first)
    slices = share * instance.slices
    options = [take(instance, count, taken_first) for count in _rounded(instance, slices, rounding)]
    return min(options, key=lambda option: objective(instance, option))


def _rounded(instance: Instance, slices: Fraction, rounding: str) -> list[int]:
    """Return the numbers of slices that an assumption of `rounding` makes of a real number."""
    if rounding == "down":
        return [floor(slices)]
    if rounding == "nearest":
        return [floor(slices + Fraction(1, 2))]
    steps = [1, instance.ndp_units] if rounding == "best" else [1]
    return sorted({sign * floor(sign * slices / n) * n for n in steps for sign in (1, -1)})


def e_max(instance: Instance, balance_times: str = "own", taken_first: str = "hot") -> Solution:
    """Compute as many resident experts on the GPU as Eq. 3 allows, the rest on the NDP units.

    They are whole experts, since the paper has a maximum number of experts.
    It never pulls an expert over the link.
    """
    share = largest_resident_share(instance, balance_times, taken_first)
    return take(instance, floor(share) * instance.slices, taken_first)


def framework(
    instance: Instance,
    balance_times: str = "own",
    rounding: str = "best",
    taken_first: str = "hot",
) -> Solution:
    """Follow the paper's switch: Eq. 3 where an active expert is resident, else Eq. 1 or 2."""
    if any(expert.resident for expert in instance.experts):
        return e_max(instance, balance_times, taken_first)
    return balance_equation(instance, balance_times, rounding, taken_first)


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
        In which order, see `taken_order`.
    """
    rows: list[tuple[int, ...]] = [()] * len(instance.experts)
    for row in taken_order(instance, taken_first):
        count = min(slices, instance.slices)
        slices -= count
        each, more = divmod(count, instance.ndp_units)
        rows[row] = tuple(each + (unit < more) for unit in range(instance.ndp_units))
    return Solution(instance=instance.name, gpu_slices=tuple(rows))


def best_of_all(instance: Instance) -> Solution:
    """Return the best solution of all heuristics."""
    rules = (balance_equation, e_max, framework, monde, all_ndp, all_gpu)
    options = [heuristic(instance) for heuristic in rules]
    return min(options, key=lambda option: objective(instance, option))


WARM_START = best_of_all
"""The heuristic whose solution the exact methods start from."""
