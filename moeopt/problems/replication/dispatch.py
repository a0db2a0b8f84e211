"""Which tokens go to which copy, with kernel times and a free split: rules, and improvements.

An even split's shares follow from the copies, and a free one's of tokens alone are found by the
checker; here they are a part of the decision.
"""

from collections.abc import Callable, Sequence

import numpy as np

from moeopt.core.clock import spend

from .check import even_shares, free_flow
from .instance import Instance, Solution

MOST_MOVES = 2000
"""Changes of one window's shares, at most."""

CHANGES_PER_UNIT = 2e6
"""Pairs of copies that are looked at in a second of one core."""

Rows = Sequence[Sequence[int]]
Tokens = list[list[int]]


def shared_evenly(instance: Instance, copies: Rows) -> Solution:
    """Return the solution in which copies have equal shares, where there are shares."""
    return _shared(instance, copies, lambda loads: _even(loads, copies))


def single_copies(instance: Instance, copies: Rows) -> Solution:
    """Return the solution in which all of an expert's tokens go to one copy (METRO).

    Experts with the fewest copies come first, then those with the most tokens; each goes where the
    fewest experts are read so far, then where the fewest tokens are.
    """
    return _shared(instance, copies, lambda loads: _single(instance, loads, copies))


def linear_shares(instance: Instance, copies: Rows) -> Solution:
    """Return the solution whose shares balance tokens best in each window (LPLB)."""
    return _shared(instance, copies, lambda loads: _linear(instance, loads, copies))


def static_shares(instance: Instance, copies: Rows) -> Solution:
    """Return the solution whose shares in all windows are those that balance their sum best.

    Tokens that shares do not divide go to the largest remainders.
    """
    summed = [
        sum(w.weight * w.loads[expert] for w in instance.windows) for expert in range(len(copies))
    ]
    parts = _linear(instance, summed, copies)

    def static(loads: Sequence[int]) -> Tokens:
        rows = []
        for load, part, total in zip(loads, parts, summed, strict=True):
            whole = [load * n // max(1, total) for n in part]
            rest = [-(load * n % max(1, total)) for n in part]
            for place in sorted(range(len(part)), key=lambda at: (rest[at], at)):
                whole[place] += sum(whole) < load
            rows.append(whole)
        return rows

    return _shared(instance, copies, static)


def best_shares(instance: Instance, copies: Rows) -> Solution:
    """Return the solution with the best shares that the rules above find, improved."""

    def best(loads: Sequence[int]) -> Tokens:
        tried = [
            _even(loads, copies), _single(instance, loads, copies), _linear(instance, loads, copies)
        ]  # fmt: skip
        found = [_Dispatch(instance, copies, tokens).improved() for tokens in tried]
        return min(found, key=lambda one: max(one.times)).tokens

    return _shared(instance, copies, best)


class _Dispatch:
    """Shares of one window, and the devices' times, multiplied by the instance's scale."""

    def __init__(self, instance: Instance, copies: Rows, tokens: Tokens) -> None:
        self.copies, self.tokens = copies, [list(row) for row in tokens]
        self.read = instance.scaled_read_ns
        self.compute = (instance.token_ns or 1) * instance.scale
        self.link = instance.scaled_link_ns
        self.here, self.reads = [0] * instance.devices, [0] * instance.devices
        self.on: list[set[tuple[int, int]]] = [set() for _ in range(instance.devices)]
        for expert, (row, of_expert) in enumerate(zip(copies, tokens, strict=True)):
            for place, (device, count) in enumerate(zip(row, of_expert, strict=True)):
                self.here[device] += count
                self.reads[device] += count > 0
                if len(row) > 1:
                    self.on[device].add((expert, place))
        self.times = [self.time(d, self.here[d], self.reads[d]) for d in range(instance.devices)]

    def time(self, device: int, tokens: int, reads: int) -> int:
        """Return the time of a device with so many tokens and readings."""
        return max(self.read * reads, self.compute * tokens) + self.link[device] * tokens

    def improved(self) -> "_Dispatch":
        """Move tokens of the slowest device to other copies while both stay below its time."""
        for _ in range(MOST_MOVES):
            slowest = self.times.index(max(self.times))
            best: tuple[int, int, int, int, int] | None = None
            seen = 0
            for expert, place in sorted(self.on[slowest]):
                held = self.tokens[expert][place]
                for other, device in enumerate(self.copies[expert]):
                    if other == place or not held:
                        continue
                    seen += 1
                    even = max(1, (self.here[slowest] - self.here[device] + 1) // 2)
                    for count in {held, min(held, even)}:
                        worst = max(self._after(expert, place, other, count))
                        if best is None or worst < best[0]:
                            best = worst, expert, place, other, count
            spend(seen / CHANGES_PER_UNIT)
            if best is None or best[0] >= self.times[slowest]:
                break
            self._move(*best[1:])
        return self

    def _after(self, expert: int, place: int, other: int, count: int) -> tuple[int, int]:
        here, there = self.copies[expert][place], self.copies[expert][other]
        emptied = self.tokens[expert][place] == count
        begun = self.tokens[expert][other] == 0
        return (
            self.time(here, self.here[here] - count, self.reads[here] - emptied),
            self.time(there, self.here[there] + count, self.reads[there] + begun),
        )

    def _move(self, expert: int, place: int, other: int, count: int) -> None:
        here, there = self.copies[expert][place], self.copies[expert][other]
        self.times[here], self.times[there] = self._after(expert, place, other, count)
        self.reads[here] -= self.tokens[expert][place] == count
        self.reads[there] += self.tokens[expert][other] == 0
        self.here[here] -= count
        self.here[there] += count
        self.tokens[expert][place] -= count
        self.tokens[expert][other] += count


def _even(loads: Sequence[int], copies: Rows) -> Tokens:
    return [even_shares(load, row) for load, row in zip(loads, copies, strict=True)]


def _single(instance: Instance, loads: Sequence[int], copies: Rows) -> Tokens:
    reads, here = np.zeros((2, instance.devices), dtype=np.int64)
    found = [[0] * len(row) for row in copies]
    order = sorted(range(len(copies)), key=lambda e: (len(copies[e]), -loads[e], e))
    for expert in order:
        if loads[expert] == 0:
            continue
        place = min(
            range(len(copies[expert])),
            key=lambda at: (reads[d := copies[expert][at]], here[d], d),
        )
        found[expert][place] = loads[expert]
        reads[copies[expert][place]] += 1
        here[copies[expert][place]] += loads[expert]
    return found


def _linear(instance: Instance, loads: Sequence[int], copies: Rows) -> Tokens:
    flow = free_flow(loads, copies, instance.devices)
    return [[flow[device].get(expert, 0) for device in row] for expert, row in enumerate(copies)]


def _shared(instance: Instance, copies: Rows, rule: Callable[[Sequence[int]], Tokens]) -> Solution:
    """Return the solution with copies in order of devices, and a rule's shares where there are any.

    The rule gets each window's loads.
    """
    order = [sorted(range(len(row)), key=row.__getitem__) for row in copies]
    rows = tuple(tuple(row[at] for at in places) for row, places in zip(copies, order, strict=True))
    if not instance.has_shares:
        return Solution(instance=instance.name, copies=rows)
    shares = tuple(
        tuple(
            tuple(row[at] for at in places)
            for row, places in zip(rule(window.loads), order, strict=True)
        )
        for window in instance.windows
    )
    return Solution(instance=instance.name, copies=rows, shares=shares)
