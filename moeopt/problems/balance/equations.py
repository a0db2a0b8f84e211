"""The paper's balance conditions, solved in exact fractions (edge GPU-NDP, Eq. 1-3).

Their symbols are times of one whole expert: T_w to transfer it, T_g to compute it on the GPU, T_n
on the NDP units that share it. The equations have one of each; where active experts differ (in
prefill, by tokens) the mean over them is taken, and TopK is the number of active experts.
"""

from dataclasses import dataclass
from fractions import Fraction
from math import floor

from .instance import Instance


@dataclass(frozen=True)
class Symbols:
    """The equations' symbols for an instance, times in ns."""

    top_k: int
    units: int
    transfer: Fraction
    gpu: Fraction
    ndp: Fraction
    gpu_overhead: int
    ndp_overhead: int

    @classmethod
    def of(cls, instance: Instance) -> "Symbols":
        """Take the means over the active experts."""
        experts = instance.experts
        gpu = Fraction(sum(e.slice_gpu_ns for e in experts), len(experts))
        ndp = Fraction(sum(e.slice_ndp_ns for e in experts), len(experts))
        return cls(
            top_k=len(experts),
            units=instance.ndp_units,
            transfer=Fraction(instance.slice_transfer_ns * instance.slices),
            gpu=gpu * instance.slices,
            ndp=ndp * instance.slices_per_unit,
            gpu_overhead=instance.gpu_overhead_ns,
            ndp_overhead=instance.ndp_overhead_ns,
        )


def balanced_experts(instance: Instance) -> Fraction:
    """Return E_g, the real number of experts at which Eq. 1 or 2 balances.

    E_g' is 0 at 0, a fractional part divided by N, and 1/N at every positive integer (so the paper
    calls it nominal). The left side less the right then rises, but for drops of T_g/N just after
    integers; the least root is taken. Without a root it is 0 (the GPU is late anyway) or TopK.
    """
    s = Symbols.of(instance)
    slope = s.transfer + s.gpu / s.units + s.ndp
    at_zero = s.gpu_overhead - s.ndp_overhead - s.top_k * s.ndp
    if at_zero >= 0:
        return Fraction(0)
    for whole in range(s.top_k):
        after = at_zero + whole * (s.transfer + s.ndp)
        if after + slope >= 0:
            return whole - after / slope
    return Fraction(s.top_k)


def fluid_makespan(instance: Instance) -> Fraction:
    """Return the makespan that the balance condition predicts, in ns: its later side at E_g.

    It is no lower bound: E_g' charges computation that slices would hide.
    """
    s = Symbols.of(instance)
    share = balanced_experts(instance)
    if share == s.top_k:  # no NDP work remains: the left side, without activations
        return s.transfer * share + s.gpu / s.units
    right = s.ndp_overhead + s.ndp * (s.top_k - share)
    return right if share else max(right, Fraction(s.gpu_overhead))


def largest_resident_share(instance: Instance) -> Fraction:
    """Return E_max of Eq. 3, from 0 to the number of active experts that are resident."""
    s = Symbols.of(instance)
    resident = sum(expert.resident for expert in instance.experts)
    if not s.gpu + s.ndp:
        return Fraction(resident)
    return min(Fraction(resident), (s.top_k * s.ndp + s.ndp_overhead) / (s.gpu + s.ndp))


def whole_experts(instance: Instance) -> int:
    """Return how many whole experts MoNDE moves: transfer time balances NDP time, rounded."""
    s = Symbols.of(instance)
    if not s.transfer + s.ndp:
        return 0
    return floor(s.top_k * s.ndp / (s.transfer + s.ndp) + Fraction(1, 2))
