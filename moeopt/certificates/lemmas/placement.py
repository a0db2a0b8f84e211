"""placement: what a row costs by how many of its experts are on the GPU, as a convex function.

A row's time depends on how many of its experts of equal times are on the GPU, whichever they are.
With free dispatch it is the least over how many of these the GPU computes. No point is below the
convex envelope of these times, and numbers between two whole ones cost what the envelope says.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise, product
from math import lcm, prod
from typing import TYPE_CHECKING, Any

from moeopt.certificates.lemmas.rows import LemmaModel, Term
from moeopt.core.errors import InputError

if TYPE_CHECKING:
    from moeopt.problems.placement import Instance

ENVELOPES = "a row costs no less than the envelope of its costs by the number of experts on the GPU"

APART = "rows that are on the GPU as a whole cost what they cost, others what the envelope says"

MOST_NUMBERS = 64
"""Most combinations of numbers in a row with experts of several times."""

Times = tuple[int, int]
"""An expert's time on the GPU, and on the other side."""

Piece = tuple[Fraction, Fraction]
"""Of a convex function: what it would be at 0, and its slope."""


def envelopes(instance: "Instance", below: int, form: Mapping[str, Any]) -> LemmaModel:
    """Return the model: who is on the GPU, and what each row costs above a line."""
    return _Rows(instance, LemmaModel(ENVELOPES, tighten=False), apart=False).model()


def envelopes_and_full_rows(
    instance: "Instance", below: int, form: Mapping[str, Any]
) -> LemmaModel:
    """Return the model in which rows that are on the GPU as a whole have a flag, where it helps."""
    return _Rows(instance, LemmaModel(f"{ENVELOPES}; {APART}", tighten=False), apart=True).model()


@dataclass
class _Rows:
    """Adds up what all rows cost.

    Attributes
    ----------
    apart
        Whether rows that are on the GPU as a whole are told from others.
    """

    instance: "Instance"
    made: LemmaModel
    apart: bool
    cost: dict[int, Fraction] = field(default_factory=dict)
    constant: Fraction = Fraction(0)

    def model(self) -> LemmaModel:
        """Return the model of all rows."""
        instance, made = self.instance, self.made
        width = instance.experts
        if instance.restriction == "whole-layers":  # PL-C4
            held = [made.flags(1) * width for _ in range(instance.layers)]
        else:
            held = [made.flags(width) for _ in range(instance.layers)]
        _rules(instance, made, held)
        for flags, steps in zip(held, instance.layer_steps, strict=True):
            experts = [flags[expert] for expert in steps.expert.tolist()]
            times = list(zip(steps.gpu_ns.tolist(), steps.offload_ns.tolist(), strict=True))
            parts = pairwise(steps.start.tolist())
            for (begin, end), weight in zip(parts, steps.weight.tolist(), strict=True):
                kinds: dict[Times, list[int]] = {}
                for expert, pair in zip(experts[begin:end], times[begin:end], strict=True):
                    kinds.setdefault(pair, []).append(expert)
                self._row(kinds, weight)
        whole = lcm(self.constant.denominator, *(c.denominator for c in self.cost.values()))
        made.denominator, made.constant = whole, int(self.constant * whole)
        made.objective = [[j, int(one * whole)] for j, one in self.cost.items() if one]
        return made

    def _pay(self, variables: Iterable[int], price: Fraction | int) -> None:
        for variable in variables:
            self.cost[variable] = self.cost.get(variable, Fraction(0)) + price

    def _row(self, kinds: Mapping[Times, list[int]], weight: int) -> None:
        """Add what a row costs at least."""
        fixed, free = self.instance.layer_offload_fixed_ns, self.instance.dispatch == "free"
        costs = costs_by_numbers({t: len(of) for t, of in kinds.items()}, fixed, free)
        experts = [expert for of in kinds.values() for expert in of]
        *some, whole = costs
        if self.instance.restriction == "whole-layers":
            slope = Fraction(costs[whole] - costs[some[0]], len(experts))
            self.constant += weight * costs[some[0]]
            self._pay(experts, weight * slope)
        elif len(kinds) > 1:
            self._numbers(kinds, costs, weight)
        elif not self.apart or not _bends(list(costs.values())):
            self._pieces(experts, envelope(list(costs.values())), weight)
        else:
            full = self._full(experts)
            self._pieces(experts, envelope(list(costs.values())[:-1]), weight, full, costs[whole])

    def _full(self, experts: list[int]) -> int:
        """Add a flag that is 1 only if all experts are on the GPU."""
        full = self.made.whole(0, 1)
        for expert in experts:
            self.made.row([(full, 1), (expert, -1)], "<=", 0, "PL-C8")
        return full

    def _numbers(
        self, kinds: Mapping[Times, list[int]], costs: Mapping[tuple[int, ...], int], weight: int
    ) -> None:
        """Add a row with experts of several times: which combination of numbers it has."""
        names = [self.made.real(0, None) for _ in costs]
        self.made.one(names, "PL-C6")
        for kind, of in enumerate(kinds.values()):
            terms = [(name, n[kind]) for name, n in zip(names, costs, strict=True)]
            self.made.row([*terms, *((expert, -1) for expert in of)], "=", 0, "PL-C6")
        if self.apart:
            for expert in (expert for of in kinds.values() for expert in of):
                self.made.row([(names[-1], 1), (expert, -1)], "<=", 0, "PL-C8")
        for name, cost in zip(names, costs.values(), strict=True):
            self._pay([name], weight * cost)

    def _pieces(
        self, experts: list[int], pieces: list[Piece], weight: int, full: int = -1, cost: int = 0
    ) -> None:
        """Add a row of equal experts: one piece, and a variable for what others are above it.

        With a flag, pieces are of the rows where it is 0, and `cost` is that of the others: by
        their pieces they would cost `start + slope * k`, which the flag takes back.
        """
        at, slope = base = min(pieces, key=lambda piece: piece[1].denominator)
        self.constant += weight * at
        self._pay(experts, weight * slope)
        if full >= 0:
            self._pay([full], weight * (cost - at - slope * len(experts)))
        above = [piece for piece in pieces if piece != base]
        extra = self.made.real(0, None) if above else -1
        if above:
            self._pay([extra], weight)
        for start, rise in above:
            unit = lcm((start - at).denominator, (rise - slope).denominator)
            more, step = int((start - at) * unit), int((rise - slope) * unit)
            terms = [(extra, unit), *((expert, -step) for expert in experts)]
            if full >= 0:
                terms.append((full, more + step * len(experts)))
            self.made.row(terms, ">=", more, "PL-C7")


def _rules(instance: "Instance", made: LemmaModel, held: list[list[int]]) -> None:
    """Say which sets of experts may be on the GPU."""
    sizes = instance.sizes.tolist()
    used: list[Term] = [
        (flag, size)
        for flags, row in zip(held, sizes, strict=True)
        for flag, size in zip(flags, row, strict=True)
    ]
    made.row(used, "<=", instance.gpu_slots, "PL-C1")
    if instance.fill:
        made.row(used, ">=", instance.gpu_slots, "PL-C2")
    if instance.host_slots is not None:
        total = sum(map(sum, sizes))
        if not instance.host_copy:
            made.row(used, ">=", total - instance.host_slots, "PL-C3")
        elif total > instance.host_slots:
            made.row([(held[0][0], 0)], ">=", 1, "PL-C3")
    if instance.restriction == "equal-counts":
        count = made.whole(0, instance.experts)
        made.first.append(count)
        for flags in held:
            made.row([(count, -1), *((flag, 1) for flag in flags)], "=", 0, "PL-C5")


def costs_by_numbers(
    kinds: Mapping[Times, int], fixed: int, free: bool
) -> dict[tuple[int, ...], int]:
    """Return a row's time by how many of each kind are on the GPU.

    Raises
    ------
    InputError
        If a row has too many combinations.
    """
    if len(kinds) > 1 and prod(count + 1 for count in kinds.values()) > MOST_NUMBERS:
        raise InputError(f"form: a row has more than {MOST_NUMBERS} combinations of numbers")
    costs: dict[tuple[int, ...], int] = {}
    for numbers in product(*(range(count + 1) for count in kinds.values())):
        gpu = sum(n * times[0] for n, times in zip(numbers, kinds, strict=True))
        off = sum(
            (count - n) * times[1] for n, (times, count) in zip(numbers, kinds.items(), strict=True)
        )
        charge = fixed if sum(numbers) < sum(kinds.values()) else 0
        costs[numbers] = max(gpu, off + charge)
        if free:  # one less of some kind computed there, the best of that known already
            fewer = (
                costs[(*numbers[:kind], n - 1, *numbers[kind + 1 :])]
                for kind, n in enumerate(numbers)
                if n
            )
            costs[numbers] = min([costs[numbers], *fewer])
    return costs


def envelope(costs: list[int]) -> list[Piece]:
    """Return the pieces of the largest convex function below costs at 0, 1, ...: start, slope."""
    corners: list[int] = []
    for number, cost in enumerate(costs):
        while len(corners) > 1:
            first, second = corners[-2:]
            rise = (costs[second] - costs[first]) * (number - first)
            if rise < (cost - costs[first]) * (second - first):
                break
            corners.pop()
        corners.append(number)
    slopes = [(a, Fraction(costs[b] - costs[a], b - a)) for a, b in pairwise(corners)]
    return [(costs[a] - slope * a, slope) for a, slope in slopes]


def _bends(costs: list[int]) -> bool:
    """Tell whether the last cost is below what the others lead to."""
    return len(costs) > 2 and costs[-1] - costs[-2] < costs[-2] - costs[-3]
