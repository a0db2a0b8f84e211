"""layout: equal experts by number, and weights of which no DIMM holds more than so much.

One scenario. Experts of equal costs are alike: the model has the number of a class on each path.
Solutions with q striped reads leave each DIMM the same room, q shares less. For any weights
of the lengths let V(q) be the most that one DIMM's items weigh within that room and its slots: all
items together weigh at most V(q) times the number of DIMMs. With weight 1 for all lengths from some
length on that is the pigeonhole principle, with the length itself as weight the sum of all work;
further weights come with the certificate, and V is computed here. What a host takes is a sum of
costs, so at most the largest sum within the makespan.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import gcd
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from moeopt.certificates.lemmas.rows import LemmaModel, Term
from moeopt.core.errors import InputError

if TYPE_CHECKING:
    from moeopt.problems.layout import Instance

WEIGHTS = "equal experts are counted, and all DIMMs together weigh what the heaviest may, for each"

MOST_WEIGHT, MOST_VALUE, MOST_ROWS = 10_000, 100_000, 2_000
"""Largest weight, largest weight of a DIMM, and most rows of weights."""

MOST_ROOM = 10**8
"""Most sums of costs that are looked at."""

NEVER = 2**62
"""More than any length of work."""

Ints = NDArray[np.int64]
Class = tuple[int, ...]
"""Costs of an expert: hit, GPU striped and localized, PCIe likewise, CPU likewise, NDP."""


@dataclass(frozen=True)
class Packing:
    """What the DIMMs of an instance are to hold in solutions within a makespan.

    Attributes
    ----------
    limit
        The makespan.
    """

    instance: "Instance"
    limit: int

    @cached_property
    def classes(self) -> dict[Class, int]:
        """Costs -> number of experts with tokens that have them, by falling NDP time."""
        one = self.instance.scenarios[0]
        gpu = (one.gpu_miss_striped_ns, one.gpu_miss_localized_ns)
        pcie: tuple[Sequence[int], ...] = ([0] * len(one.tokens),) * 2
        if one.gpu_calc_ns is not None:
            gpu = (one.gpu_calc_ns, one.gpu_calc_ns)
            pcie = (one.pcie_striped_ns or (), one.pcie_localized_ns or ())
        columns = (one.gpu_hit_ns, *gpu, *pcie, one.cpu_striped_ns, one.cpu_localized_ns)
        counts: dict[Class, int] = {}
        for expert, tokens in enumerate(one.tokens):
            if tokens:
                costs = (*(column[expert] for column in columns), one.ndp_ns[expert])
                counts[costs] = counts.get(costs, 0) + 1
        return dict(sorted(counts.items(), key=lambda pair: -pair[0][-1]))

    @cached_property
    def lengths(self) -> list[int]:
        """Lengths of items, falling: NDP times, and a localized read."""
        return sorted({costs[-1] for costs in self.classes} | {self.instance.dram_localized_ns})[
            ::-1
        ]

    @cached_property
    def numbers(self) -> list[int]:
        """Most items of each length."""
        experts = sum(self.classes.values())
        own = dict.fromkeys(self.lengths, 0)
        for costs, count in self.classes.items():
            own[costs[-1]] += count
        return [experts if n == self.instance.dram_localized_ns else own[n] for n in self.lengths]

    @cached_property
    def rooms(self) -> list[int]:
        """A DIMM's room by the number of striped reads, as far as they fit.

        It is rounded down to a multiple of the lengths' divisor.
        """
        read = self.instance.dram_striped_ns
        share = self.instance.striped_charge_ns(read)
        most = sum(self.classes.values())
        if share:
            most = min(most, self.limit // share)
        if self.instance.channels and read:
            most = min(most, self.limit // read)
        unit = gcd(*self.lengths) or 1
        return [(self.limit - number * share) // unit * unit for number in range(most + 1)]

    def largest_sum(self, columns: Sequence[int], limit: int) -> int:
        """Return the most within a limit that experts add up to, each with one of these costs."""
        used = {cost: [cost[column] for column in columns] for cost in self.classes}
        unit = gcd(*(number for numbers in used.values() for number in numbers)) or 1
        room = limit // unit
        if not 0 <= room <= MOST_ROOM:
            return limit
        sums, mask = 1, 2 ** (room + 1) - 1  # a bit for each sum that is reached
        for cost, count in self.classes.items():
            shifts = {number // unit for number in used[cost]}
            for _ in range(count):
                new = sums
                for shift in shifts:
                    new |= sums << shift
                sums = new & mask
        return (sums.bit_length() - 1) * unit

    def least_loads(
        self, weights: Sequence[int], room: int
    ) -> tuple[Ints, list[tuple[int, NDArray[np.bool_]]]]:
        """Return the least length of items by number and weight, and what was changed by which.

        Of each length as many as fit into a room; items that weigh nothing are left out.
        """
        slots = self.instance.dimm_slots
        fit = [
            min(number, room // length if length else number, *([] if slots is None else [slots]))
            for length, number in zip(self.lengths, self.numbers, strict=True)
        ]
        used = [(n, w, k) for n, w, k in zip(self.lengths, weights, fit, strict=True) if w and k]
        most = sum(weight * count for _, weight, count in used)
        free = sum(weight * count for length, weight, count in used if not length)
        heaviest = max((weight / length for length, weight, _ in used if length), default=0)
        most = min(most, free + int(heaviest * room) + 1)
        if most > MOST_VALUE:
            raise InputError("form: weights: too large")
        binds = slots is not None and slots < sum(count for *_, count in used)
        loads = np.full(
            (slots + 1 if binds and slots is not None else 1, most + 1), NEVER, np.int64
        )
        loads[0, 0] = 0
        steps = []
        for place, (length, weight) in enumerate(zip(self.lengths, weights, strict=True)):
            for _ in range(fit[place] if weight else 0):
                above = np.full_like(loads, NEVER)
                if binds:
                    above[1:, weight:] = loads[:-1, : most + 1 - weight] + length
                else:
                    above[:, weight:] = loads[:, : most + 1 - weight] + length
                steps.append((place, above < loads))
                loads = np.minimum(loads, above)
        return loads, steps

    def heaviest(self, weights: Sequence[int]) -> list[int]:
        """Return V: the most that a DIMM's items weigh, by the number of striped reads."""
        loads, _ = self.least_loads(weights, self.rooms[0])
        least = loads.min(axis=0)
        return [int(np.flatnonzero(least <= room)[-1]) for room in self.rooms]


def checked_weights(packing: Packing, given: Any) -> list[list[int]]:
    """Return the weights of a form, one list per row with an entry per length."""
    rows: list[Any] = given if isinstance(given, list) else [None]
    for row in rows:
        sound = isinstance(row, list) and len(row) == len(packing.lengths)
        if not sound or not all(type(w) is int and 0 <= w <= MOST_WEIGHT for w in row):
            raise InputError("form: weights: must be lists of integers, one for each length")
    if len(rows) > MOST_ROWS:
        raise InputError(f"form: weights: must be at most {MOST_ROWS} lists")
    return rows


@dataclass
class Counted:
    """The model of a packing before any weights, and where its items and flags are."""

    packing: Packing
    made: LemmaModel
    reads: list[int]
    items: dict[int, list[Term]]

    def weigh(self, weights: Sequence[int]) -> None:
        """Add the row of some weights."""
        value = self.packing.heaviest(weights)
        dimms = self.packing.instance.dimms
        held = [(flag, -dimms * v) for flag, v in zip(self.reads, value, strict=True)]
        some = zip(self.packing.lengths, weights, strict=True)
        weighed = [(j, w) for length, w in some for j, _ in self.items[length]]
        self.made.row([*weighed, *held], "<=", 0, "weights")


def packing_weights(instance: "Instance", below: int, form: Mapping[str, Any]) -> LemmaModel:
    """Return the model: the number of striped reads, and of each class on each path."""
    model = counted(instance, below)
    for weights in checked_weights(model.packing, form.get("weights", [])):
        model.weigh(weights)
    return model.made


def counted(instance: "Instance", below: int) -> Counted:
    """Return the model without weights."""
    if len(instance.scenarios) != 1:
        raise InputError("form: weights are for one scenario")
    weight = instance.scenarios[0].weight
    packing = Packing(instance, (below - 1) // max(weight, 1))
    made = LemmaModel(WEIGHTS, tighten=False)
    makespan = made.whole(0, packing.limit)
    reads = made.flags(len(packing.rooms))
    made.choice = len(made.rows)
    made.one(reads, "LA-C7")
    gpu, cpu, pcie = ([(makespan, -1)] for _ in range(3))
    hits: list[Term] = []
    striped = [(flag, -number) for number, flag in enumerate(reads)]
    localized: list[Term] = []
    items: dict[int, list[Term]] = {length: [] for length in packing.lengths}
    paths: list[list[int]] = [[] for _ in range(5)]
    for costs, count in packing.classes.items():
        hit, gpu_striped, gpu_own, pcie_striped, pcie_own, cpu_striped, cpu_own, ndp = costs
        x = [made.whole(0, count) for _ in range(6)]
        made.row([(one, 1) for one in x], "=", count, "LA-C1")
        for path, one in zip(paths, x, strict=False):
            path.append(one)
        hits.append((x[0], 1))
        gpu += [(x[0], hit), (x[1], gpu_striped), (x[2], gpu_own)]
        pcie += [(x[1], pcie_striped), (x[2], pcie_own)]
        cpu += [(x[3], cpu_striped), (x[4], cpu_own)]
        striped += [(x[1], 1), (x[3], 1)]
        localized += [(x[2], 1), (x[4], 1)]
        items[ndp].append((x[5], 1))
    items[instance.dram_localized_ns] += localized
    made.row(gpu, "<=", -instance.base_ns, "LA-C5")
    made.row(cpu, "<=", 0, "LA-C6")
    made.row(pcie, "<=", 0, "LA-C9")
    bases = (instance.base_ns, 0, 0)
    columns = ((0, 1, 2), (5, 6), (3, 4))
    for (_, *load), base, column, rule in zip(
        (gpu, cpu, pcie), bases, columns, ("LA-C5", "LA-C6", "LA-C9"), strict=True
    ):
        made.row(load, "<=", packing.largest_sum(column, packing.limit - base), rule)
    made.row(hits, "<=", instance.hbm_slots, "LA-C3")
    made.row(striped, "<=", 0, "LA-C7")
    channels = len(set(instance.channels or ()))
    read = instance.dram_localized_ns
    if channels and read:
        room = [packing.limit - q * instance.dram_striped_ns for q in range(len(reads))]
        most = [(flag, -channels * (left // read)) for flag, left in zip(reads, room, strict=True)]
        made.row([*localized, *most], "<=", 0, "LA-C8")
    work = [(j, length) for length, some in items.items() for j, _ in some]
    room_of = [
        (flag, -instance.dimms * left) for flag, left in zip(reads, packing.rooms, strict=True)
    ]
    made.row([*work, *room_of], "<=", 0, "LA-C7")
    slots, experts = instance.dimm_slots, sum(packing.classes.values())
    hosts = made.whole(0, experts)
    made.row([*localized, (hosts, -1)], "=", 0, "sum")
    made.first = [hosts]
    for path in paths:  # numbers on each path: experts of few tokens cost all the same there
        total = made.whole(0, experts)
        made.first.append(total)
        made.row([*((x, 1) for x in path), (total, -1)], "=", 0, "sum")
    before = None
    for length in packing.lengths:
        longer = made.whole(0, experts)
        made.first.append(longer)
        made.row([*items[length], (longer, -1), *([(before, 1)] if before else [])], "=", 0, "sum")
        before = longer
        fit = [left // length if length else experts for left in packing.rooms]
        fit = [min(count, experts if slots is None else slots) for count in fit]
        held = [
            (flag, -min(instance.dimms * n, experts)) for flag, n in zip(reads, fit, strict=True)
        ]
        made.row([(longer, 1), *held], "<=", 0, "LA-C7")
    made.objective = [[makespan, weight]]
    return Counted(packing, made, reads, items)
