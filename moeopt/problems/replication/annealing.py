"""Simulated annealing over placements with an even split, in two neighbourhoods.

A *state* is `slot`, the expert in each slot of each device (-1: none). `walked`: two slots of
different devices change contents; or a slot takes a copy of another expert, which then has one
more, in place of one whose expert has others, or of none; or a slot is left empty. Peaks alone do
not lead: few changes lower one. So what devices have above a target between bound and peak counts,
too, squared.

`exchanged`: a copy, or two, and as many of another device that are about as large change places.
Numbers of copies stay, remainders are left out, and only the squares above targets count; so a move
takes a few ns, and experts of equal size are found.

Both works are one: a device takes the larger of its tokens and its readings, each times what one
costs, and the tokens' way there. Where tokens alone count, reading and ways cost nothing.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from moeopt.algorithms.annealing import (
    IMPOSSIBLE,
    Annealing,
    Random,
    below,
    drawn,
    falling,
    seeded,
)
from moeopt.core.compiled import part, step
from moeopt.core.search import Search

from .bounds import window_bounds
from .eplb import rows_of
from .instance import Instance, Ints, Solution

Floats = NDArray[np.float64]

EMPTY = -1
"""The expert in a slot without one."""

NOWHERE = -1
"""The device that a copy comes from which is made, or goes to which is given up."""

HOT = 0.1
"""First temperature for starts that are to be forgotten, as a share of the peaks."""

COLD = 1e-5
"""Last temperature, as a share of the peaks."""

SMOOTH = 0.5
"""What squares of times count beside the peaks with one window."""

STEEP = 20.0
"""What squares of the excess over targets count beside the peaks with several windows."""

TARGET = 3
"""With several windows the target is one part in so many of the way from bound to peak."""

CHUNK = 5e7
"""Steps at one temperature at most, times their length: some 50 ms."""

LEVELS = 64
"""Temperatures at least."""

STEP = 240
"""A step is as long as this and devices times windows."""

STEPS_PER_UNIT = 4e9
"""So much of that is a second of one core."""

PART = 0.62, 0.75
"""Where exchanges' targets lie between bounds and peaks: with one window, with several."""

MIDDLE = 0.13
"""Temperature of exchanges halfway, in squares of the way from bounds to targets."""

SLOPE = 0.6, 2.0
"""Half of what the temperature's logarithm falls by: with one window, with several."""

SPLIT = 8
"""Price of a device that is half a token off a whole number, in the same squares; one window."""

LOOKED = 0.05
"""Units of work at one temperature of exchanges at most."""

SORTED = 5000
"""Steps after which experts and pairs of slots are sorted again."""

MOST_PAIRS = 4096
"""Pairs of slots at most."""

EXCHANGE = 12
"""An exchange is as long as this and windows."""

EXCHANGES_PER_UNIT = 6.4e8
"""So much of that is a second of one core."""


class WalkCosts(NamedTuple):
    """What does not change in a walk.

    Attributes
    ----------
    share, extra
        What a copy has at least by number of copies, and how many of them have one more, shape
        (experts, most + 1, windows).
    weight, target
        Of the windows, shape (windows,).
    moved
        What a copy costs on a device, shape (experts, devices) or (1, 1), which is nothing.
    costs
        Of a reading, of computing a token, of a copy beyond one; and of a token's way to each
        device, shape (3 + devices,).
    smooth
        What squares count, shape (1,).
    per_node
        Consecutive devices that make up a node, which nothing leaves.
    """

    share: Ints
    extra: Ints
    weight: Ints
    target: Ints
    moved: Ints
    costs: Ints
    smooth: Floats
    per_node: int


class Held(NamedTuple):
    """A placement and what follows from it.

    Attributes
    ----------
    slot, best
        The state, and the best one, shape (devices, slots).
    copies, where
        The copies of each expert, and the devices that hold them, in order.
    load, reads, time
        Tokens, experts with tokens, and time of each device in each window.
    slowest
        The slowest device of each window.
    cost
        Of the state, and of the best one.
    """

    slot: Ints
    best: Ints
    copies: Ints
    where: Ints
    load: Ints
    reads: Ints
    time: Ints
    slowest: Ints
    cost: Ints


class CopyChange(NamedTuple):
    """The change that was proposed last.

    Attributes
    ----------
    copies
        Two rows: an expert (or `EMPTY`), the device that a copy of it leaves, and the one that it
        comes to; either may be `NOWHERE`.
    slots
        Two rows: device, slot, and the expert in it afterwards.
    touched, last, number
        Devices whose times change, the step that touched each last; how many there are, the step,
        and by how much the cost rises.
    more, more_reads, after
        What is added to tokens and readings of devices, and their times then.
    """

    copies: Ints
    slots: Ints
    touched: Ints
    last: Ints
    number: Ints
    more: Ints
    more_reads: Ints
    after: Ints


class CopyWalk(NamedTuple):
    """What changes in a walk."""

    held: Held
    change: CopyChange


TOUCHES, STEPS, RISE = 0, 1, 2
"""Entries of `CopyChange.number`."""


@part
def draw(of: WalkCosts, walk: CopyWalk, random: Random) -> bool:
    """Draw a change of a slot of some window's slowest device, at times of any; False: none."""
    held, copies, slots = walk.held, walk.change.copies, walk.change.slots
    kind, (devices, size) = below(random, 8), held.slot.shape
    g = held.slowest[below(random, len(held.slowest))]
    if kind == 0:
        g = below(random, devices)
    h = g // of.per_node * of.per_node + below(random, of.per_node)
    s, t = below(random, size), below(random, size)
    a, b = held.slot[g, s], held.slot[h, t]
    if kind < 5:  # they change places
        copies[0, 0], copies[0, 1], copies[0, 2] = a, g, h
        copies[1, 0], copies[1, 1], copies[1, 2] = b, h, g
        slots[0, 0], slots[0, 1], slots[0, 2] = g, s, b
        slots[1, 0], slots[1, 1], slots[1, 2] = h, t, a
        if g == h:
            return False
    else:  # one has a copy more where the other has one less
        added, dropped, at, place = a, b, h, t
        if kind == 5:
            added, dropped, at, place = b, a, g, s
        if kind == 6 and a != EMPTY and below(random, 4) == 0:
            added, dropped, at, place = EMPTY, a, g, s
        copies[0, 0], copies[0, 1], copies[0, 2] = added, NOWHERE, at
        copies[1, 0], copies[1, 1], copies[1, 2] = dropped, at, NOWHERE
        for n in range(2):
            slots[n, 0], slots[n, 1], slots[n, 2] = at, place, added
        if added != EMPTY and held.copies[added] == held.where.shape[1]:
            return False
        if dropped != EMPTY and held.copies[dropped] == 1:
            return False
    if copies[0, 0] == copies[1, 0]:
        return False
    for n in range(2):
        e, into = copies[n, 0], copies[n, 2]
        if e != EMPTY and into != NOWHERE:
            for k in range(held.copies[e]):
                if held.where[e, k] == into:
                    return False
    return True


@step
def carry(held: Held, e: int, out: int, into: int) -> None:
    """Let a copy leave a device and come to another, either of which may be `NOWHERE`."""
    if out != NOWHERE:
        k = 0
        while held.where[e, k] != out:
            k += 1
        held.copies[e] -= 1
        while k < held.copies[e]:
            held.where[e, k] = held.where[e, k + 1]
            k += 1
    if into != NOWHERE:
        k = held.copies[e]
        while k > 0 and held.where[e, k - 1] > into:
            held.where[e, k] = held.where[e, k - 1]
            k -= 1
        held.where[e, k] = into
        held.copies[e] += 1


@step
def tally(of: WalkCosts, walk: CopyWalk, e: int, sign: int) -> None:
    """Add an expert's tokens and readings to what the change adds; with `sign` -1, take away."""
    held, change, n = walk.held, walk.change, walk.held.copies[e]
    for k in range(n):
        d = held.where[e, k]
        if change.last[d] != change.number[STEPS]:
            change.last[d] = change.number[STEPS]
            change.touched[change.number[TOUCHES]] = d
            change.number[TOUCHES] += 1
        for w in range(len(of.weight)):
            tokens = of.share[e, n, w] + (k < of.extra[e, n, w])
            change.more[d, w] += sign * tokens
            change.more_reads[d, w] += sign * (tokens > 0)


@part
def propose(
    of: WalkCosts, walk: CopyWalk, random: Random, most: float, temperature: float
) -> float:
    """Draw a change and make it, but for slots and loads, which `commit` changes."""
    held, change = walk.held, walk.change
    if not draw(of, walk, random):
        return IMPOSSIBLE
    change.number[STEPS] += 1
    change.number[TOUCHES], rise, rough = 0, 0, 0.0
    for n in range(2):
        e, out, into = change.copies[n, 0], change.copies[n, 1], change.copies[n, 2]
        if e != EMPTY:
            tally(of, walk, e, -1)
            carry(held, e, out, into)
            tally(of, walk, e, 1)
            if out != NOWHERE:
                rise -= of.costs[2] + (of.moved[e, out] if len(of.moved) > 1 else 0)
            if into != NOWHERE:
                rise += of.costs[2] + (of.moved[e, into] if len(of.moved) > 1 else 0)
    for w in range(len(of.weight)):
        top, now = 0, held.time[held.slowest[w], w]
        for n in range(change.number[TOUCHES]):
            d = change.touched[n]
            tokens = held.load[d, w] + change.more[d, w]
            reading = of.costs[0] * (held.reads[d, w] + change.more_reads[d, w])
            after = max(reading, of.costs[1] * tokens) + of.costs[3 + d] * tokens
            change.after[d, w] = after
            top = max(top, after)
            above = float(max(0, after - of.target[w]))
            above_now = float(max(0, held.time[d, w] - of.target[w]))
            rough += of.weight[w] * (above - above_now) * (above + above_now)
        # The slowest device may have got faster, and another be the slowest now.
        if change.last[held.slowest[w]] != change.number[STEPS]:
            top = max(top, now)
        elif top < now:
            for d in range(len(held.time)):
                if change.last[d] != change.number[STEPS]:
                    top = max(top, held.time[d, w])
        rise += of.weight[w] * (top - now)
    change.number[RISE] = rise
    return float(rise + of.smooth[0] * rough)


@part
def revert(of: WalkCosts, walk: CopyWalk) -> None:
    """Take a change back."""
    held, change = walk.held, walk.change
    for n in range(1, -1, -1):
        if change.copies[n, 0] != EMPTY:
            carry(held, change.copies[n, 0], change.copies[n, 2], change.copies[n, 1])
    forget(walk)


@step
def forget(walk: CopyWalk) -> None:
    """Set what the change adds to nothing."""
    change = walk.change
    for n in range(change.number[TOUCHES]):
        for w in range(change.more.shape[1]):
            change.more[change.touched[n], w] = change.more_reads[change.touched[n], w] = 0


@part
def commit(of: WalkCosts, walk: CopyWalk) -> None:
    """Make a change of slots and loads; keep the state if none before cost as little."""
    held, change = walk.held, walk.change
    for w in range(len(of.weight)):
        for n in range(change.number[TOUCHES]):
            d = change.touched[n]
            held.load[d, w] += change.more[d, w]
            held.reads[d, w] += change.more_reads[d, w]
            held.time[d, w] = change.after[d, w]
        slowest = 0
        for d in range(1, len(held.time)):
            if held.time[d, w] > held.time[slowest, w]:
                slowest = d
        held.slowest[w] = slowest
    forget(walk)
    for n in range(2):
        held.slot[change.slots[n, 0], change.slots[n, 1]] = change.slots[n, 2]
    held.cost[0] += change.number[RISE]
    if held.cost[0] < held.cost[1]:
        held.cost[1] = held.cost[0]
        keep(held.slot, held.best)


@step
def keep(slot: Ints, best: Ints) -> None:
    """Copy a state; an assignment of whole arrays takes a second longer to compile."""
    for g in range(slot.shape[0]):
        for s in range(slot.shape[1]):
            best[g, s] = slot[g, s]


anneal = Annealing(propose, commit, revert)


class Sizes(NamedTuple):
    """What does not change while copies are exchanged.

    Attributes
    ----------
    now
        Tokens of a copy by expert, and of none, shape (experts + 1, windows).
    size
        Their weighted sum, shape (experts + 1,).
    sets
        Device and slots of single copies, then of pairs.
    fixed
        Weights and targets of windows, by rows.
    read, compute, way
        What a reading, computing a token, and a token's way cost.
    token, dear
        What makes up a token, and twice the price of half a token off a whole number.
    apart
        More than the size of two copies.
    """

    now: Floats
    size: Floats
    sets: Ints
    fixed: Floats
    read: float
    compute: float
    way: float
    token: float
    dear: float
    apart: float


class Levels(NamedTuple):
    """What changes while copies are exchanged.

    Attributes
    ----------
    slot, best
        The state, and the one with the least cost.
    level
        Tokens of each device, then readings, shape (2 * devices, windows).
    on
        Whether an expert has a copy on a device, shape (experts + 1, devices).
    energy
        What each device has above its targets, squared.
    ranks, place, key
        Sets by rising size, each one's place there, and their sizes.
    drawn
        The two sets that were proposed last, and the steps so far.
    value
        The sum of squares, the least one, the least cost; and by how much the sum rises with what
        was proposed last, and what the first of the two devices would have.
    """

    slot: Ints
    best: Ints
    level: Floats
    on: Ints
    energy: Floats
    ranks: Ints
    place: Ints
    key: Floats
    drawn: Ints
    value: Floats


MINE, THEIRS, DRAWN = 0, 1, 2
"""Entries of `Levels.drawn`."""

TOTAL, LEAST, CHEAPEST, WORSE, MENDED = range(5)
"""Entries of `Levels.value`."""


@part
def sort(of: Sizes, at: Levels) -> None:
    """Sort sets by size, by insertion, as little is out of order."""
    single = at.slot.size
    for q in range(len(at.ranks)):
        g, t, u = of.sets[q, 0], of.sets[q, 1], of.sets[q, 2]
        at.key[q] = of.size[at.slot[g, t]]
        if q >= single:
            at.key[q] += of.size[at.slot[g, u]] + of.apart
    for i in range(len(at.ranks)):
        j, one = i, at.ranks[i]
        while j > 0 and at.key[at.ranks[j - 1]] > at.key[one]:
            at.ranks[j] = at.ranks[j - 1]
            j -= 1
        at.ranks[j] = one
    for i in range(len(at.ranks)):
        at.place[at.ranks[i]] = i


@part
def draw_sets(at: Levels, random: Random) -> bool:
    """Draw a set and one about as large, by the parts of one random number; False: none."""
    single, x = at.slot.size, drawn(random)
    each = len(at.ranks) // single - 1
    mine = np.int64((x & np.uint64(0xFFFF)) * np.uint64(single) >> np.uint64(16))
    low, end, far = 0, single, single >> (4 + np.int64(x >> np.uint64(24) & np.uint64(1)))
    if each and x >> np.uint64(25) & np.uint64(3):
        pair = (x >> np.uint64(32) & np.uint64(0xFFFF)) * np.uint64(each) >> np.uint64(16)
        mine = single + mine * each + np.int64(pair)
        low, end, far = single, len(at.ranks), far * each
    far = max(np.int64(2), far)
    apart = np.int64((x >> np.uint64(48)) * np.uint64(2 * far + 1) >> np.uint64(16)) - far
    other = at.place[mine] + apart
    if other < low or other >= end:
        return False
    at.drawn[MINE], at.drawn[THEIRS] = mine, at.ranks[other]
    return True


@part
def propose_exchange(
    of: Sizes, at: Levels, random: Random, most: float, temperature: float
) -> float:
    """Draw two sets and price their exchange; `commit_exchange` makes it."""
    if at.drawn[DRAWN] % SORTED == 0:
        sort(of, at)
    at.drawn[DRAWN] += 1
    if not draw_sets(at, random):
        return IMPOSSIBLE
    mine, theirs, devices = at.drawn[MINE], at.drawn[THEIRS], len(at.slot)
    g, s, u = of.sets[mine, 0], of.sets[mine, 1], of.sets[mine, 2]
    h, t, v = of.sets[theirs, 0], of.sets[theirs, 1], of.sets[theirs, 2]
    if g == h or at.energy[g] + at.energy[h] == 0.0:
        return IMPOSSIBLE
    a, b, c, d = at.slot[g, s], at.slot[h, t], EMPTY, EMPTY
    if u != s:
        c, d = at.slot[g, u], at.slot[h, v]
    worse, mended = -at.energy[g] - at.energy[h], 0.0
    for w in range(of.now.shape[1]):
        more = of.now[b, w] + of.now[d, w] - of.now[a, w] - of.now[c, w]
        one, two = at.level[g, w] + more, at.level[h, w] - more
        if of.dear > 0.0:
            split = of.dear * abs(one / of.token - np.rint(one / of.token))
            mended += split
            worse += split + of.dear * abs(two / of.token - np.rint(two / of.token))
        one, two = of.compute * one, of.compute * two
        if of.read > 0.0:
            seen = min(1.0, of.now[b, w]) + min(1.0, of.now[d, w])
            seen -= min(1.0, of.now[a, w]) + min(1.0, of.now[c, w])
            one = max(one, of.read * (at.level[devices + g, w] + seen))
            two = max(two, of.read * (at.level[devices + h, w] - seen))
            one += of.way * (at.level[g, w] + more)
            two += of.way * (at.level[h, w] - more)
        one, two = max(0.0, one - of.fixed[1, w]), max(0.0, two - of.fixed[1, w])
        mended += of.fixed[0, w] * one * one
        worse += of.fixed[0, w] * (one * one + two * two)
        if worse > most:
            return IMPOSSIBLE
    if at.on[a, h] or at.on[c, h] or at.on[b, g] or at.on[d, g]:
        return IMPOSSIBLE
    at.value[WORSE], at.value[MENDED] = worse, mended
    return float(worse)


@part
def revert_exchange(of: Sizes, at: Levels) -> None:
    """Leave all as it is: nothing has been changed."""


@part
def commit_exchange(of: Sizes, at: Levels) -> None:
    """Exchange the two sets; keep the state if none before cost as little."""
    mine, theirs, devices = at.drawn[MINE], at.drawn[THEIRS], len(at.slot)
    g, h, windows, seen = of.sets[mine, 0], of.sets[theirs, 0], of.now.shape[1], 0.0
    for n in range(1, 3 if of.sets[mine, 1] != of.sets[mine, 2] else 2):
        s, t = of.sets[mine, n], of.sets[theirs, n]
        a, b = at.slot[g, s], at.slot[h, t]
        at.slot[g, s], at.slot[h, t] = b, a
        at.on[a, g], at.on[a, h], at.on[b, h], at.on[b, g] = 0, 1, 0, 1
        at.on[EMPTY, g] = at.on[EMPTY, h] = 0
        for w in range(windows):
            more = of.now[b, w] - of.now[a, w]
            seen = min(1.0, of.now[b, w]) - min(1.0, of.now[a, w])
            at.level[g, w] += more
            at.level[h, w] -= more
            at.level[devices + g, w] += seen
            at.level[devices + h, w] -= seen
    at.value[TOTAL] += at.value[WORSE]
    both = at.value[WORSE] + at.energy[g] + at.energy[h]
    at.energy[g], at.energy[h] = at.value[MENDED], both - at.value[MENDED]
    if at.value[TOTAL] < at.value[LEAST]:
        at.value[LEAST], cost = at.value[TOTAL], 0.0
        for w in range(windows):
            top = 0.0
            for d in range(devices):
                time = max(of.read * at.level[devices + d, w], of.compute * at.level[d, w])
                top = max(top, time + of.way * at.level[d, w])
            cost += of.fixed[0, w] * top
        if cost < at.value[CHEAPEST]:
            at.value[CHEAPEST] = cost
            keep(at.slot, at.best)


FEW = 10_000
"""Exchanges that take some tenths of a second in plain Python: tiny placements need no more."""

exchange = Annealing(propose_exchange, commit_exchange, revert_exchange, FEW)


@dataclass(frozen=True)
class Arrays:
    """What does not change: see `WalkCosts`; `bounds` are those of the windows, scaled."""

    instance: Instance
    share: Ints
    extra: Ints
    moved: Ints
    costs: Ints
    bounds: Ints

    @classmethod
    def of(cls, instance: Instance) -> "Arrays":
        """Return the arrays of an instance."""
        i, numbers = instance, np.arange(instance.most_copies + 1)
        loads = i.loads_units.T[:, None, :]
        parts = np.divmod(loads, np.maximum(1, numbers)[:, None])
        share, extra = map(np.ascontiguousarray, parts)  # of several windows kernels are the same
        moved = np.zeros((1, 1), dtype=np.int64)
        if i.current is not None and i.move_cost:
            moved = np.full((i.experts, i.devices), i.move_cost * i.scale, dtype=np.int64)
            for expert, devices in enumerate(i.current):
                moved[expert, list(devices)] = 0
        each = (i.token_ns or 1) * i.scale
        costs = [i.scaled_read_ns, each, i.slot_cost * i.scale, *i.scaled_link_ns]
        bounds = window_bounds(i) * i.scale
        return cls(i, share, extra, moved, np.array(costs, dtype=np.int64), bounds)

    def walked(
        self, start: Solution, steps: int, seed: int, stopped: Callable[[], bool], heat: float
    ) -> Solution:
        """Return the best placement that some steps find, `start` at worst.

        `stopped` is asked every 50 ms or so; `heat` is the first temperature, as a share of peaks.
        """
        i, held = self.instance, self.held(start)
        length = i.devices * len(i.windows) + STEP
        levels = max(LEVELS, int(steps * length / CHUNK))
        of = self.costs_of()
        peaks = int(i.weights @ held.time.max(axis=0))

        def temperatures() -> Iterator[float]:
            for temperature in falling(heat * peaks, COLD * peaks, levels):
                self._aim(of, held)
                yield temperature

        anneal(
            of,
            CopyWalk(held, self.nothing()),
            seeded(seed),
            temperatures(),
            max(1, steps // levels),
            units=length / STEPS_PER_UNIT,
            stopped=stopped,
        )
        return solution_of(i, held.best)

    def held(self, start: Solution) -> Held:
        """Return a placement with what follows from it."""
        i, slot = self.instance, slots_of(self.instance, start)
        count = np.array([len(row) for row in start.copies])
        where = np.zeros((i.experts, i.most_copies), np.int64)
        load = np.zeros((i.devices, len(i.windows)), np.int64)
        reads, paid = load.copy(), 0
        for e, row in enumerate(start.copies):
            where[e, : len(row)] = devices = sorted(row)
            order = np.arange(len(row))[:, None]
            tokens = self.share[e, len(row)] + (order < self.extra[e, len(row)])
            load[devices] += tokens
            reads[devices] += tokens > 0
            paid += int(self.costs[2]) * (len(row) - 1)
            paid += int(self.moved[e, devices].sum()) if len(self.moved) > 1 else 0
        time = np.maximum(self.costs[0] * reads, self.costs[1] * load)
        time = time + self.costs[3:, None] * load
        cost = paid + int(i.weights @ time.max(axis=0))
        costs = np.array([cost, cost])
        return Held(slot, slot.copy(), count, where, load, reads, time, time.argmax(axis=0), costs)

    def costs_of(self) -> WalkCosts:
        """Return what does not change in a walk, targets aside."""
        i, target = self.instance, np.zeros(len(self.instance.windows), np.int64)
        return WalkCosts(
            *(self.share, self.extra, i.weights, target, self.moved, self.costs),
            *(np.zeros(1), i.devices_per_node),
        )

    def nothing(self) -> CopyChange:
        """Return the change that changes nothing."""
        devices, windows = self.instance.devices, len(self.instance.windows)
        return CopyChange(
            np.full((2, 3), EMPTY),
            np.zeros((2, 3), np.int64),
            np.zeros(devices, np.int64),
            np.full(devices, -1),
            np.zeros(3, np.int64),
            *(np.zeros((devices, windows), np.int64) for _ in range(3)),
        )

    def _aim(self, of: WalkCosts, held: Held) -> None:
        """Set targets and what squares count by the times that devices have now."""
        top, excess = held.time.max(axis=0), held.time.sum(axis=0)
        steep = SMOOTH
        if len(top) > 1:
            of.target[:] = self.bounds + (top - self.bounds) // TARGET
            excess, steep = (top - of.target) * len(held.time), STEEP
        of.smooth[0] = steep * of.weight.sum() / max(1, int(of.weight @ excess))

    def exchanged(self, start: Solution, units: float, search: Search) -> Solution:
        """Return the placement with the least cost that so much work on exchanges finds.

        Targets are part of the way from the bounds to the peaks of the best solution.
        """
        of, at, unit = self.exchanges(start, search.solution)
        several, windows = int(of.now.shape[1] > 1), of.now.shape[1]
        part = min(units / LEVELS, LOOKED)
        steps = max(1, int(part * EXCHANGES_PER_UNIT / (windows + EXCHANGE)))
        begin = search.remaining_s

        def temperatures() -> Iterator[float]:
            while at.value[TOTAL] > 0 and begin - search.remaining_s < units:
                x = 1 - 2 * (begin - search.remaining_s) / units
                yield unit * MIDDLE * float(np.exp(SLOPE[several] * x * (1 + x * x)))
                add_up(of, at)

        exchange(
            of,
            at,
            seeded(search.seed),
            temperatures(),
            steps,
            units=part / steps,
            stopped=lambda: search.stopped,
        )
        return solution_of(self.instance, at.best)

    def exchanges(self, start: Solution, best: Solution) -> tuple[Sizes, Levels, float]:
        """Return the beginning of a search by exchanges, and the square of the way to its targets.

        Targets lie between the bounds and the peaks of `best`.
        """
        i, weight = self.instance, self.instance.weights.astype(float)
        here, now, level = self.levels(start)
        tokens, reads = self.levels(best)[2].reshape(2, i.devices, -1)
        read, compute, way = self.costs[[0, 1, 3]].astype(float).tolist()
        peaks = (np.maximum(read * reads, compute * tokens) + way * tokens).max(axis=0)
        several, bound = int(len(weight) > 1), float(weight @ self.bounds)
        gap = max(0.0, PART[several] * float(weight @ peaks / max(1.0, bound) - 1))
        unit = float(weight @ (gap * self.bounds) ** 2) / len(weight)
        size = now @ weight
        of = Sizes(
            now,
            size,
            self._sets(),
            np.stack([weight, self.bounds * (1 + gap)]),
            *(read, compute, way, float(i.units_per_token)),
            float(SPLIT * unit * (not several and i.work == "tokens")),
            float(2 * size.max() + 1),
        )
        on = np.zeros((len(now), i.devices), np.int64)
        for device, row in enumerate(here):
            on[row, device] = 1
        on[EMPTY] = 0
        ranks = np.arange(len(of.sets))
        at = Levels(
            *(here, here.copy(), level, on, np.zeros(i.devices)),
            *(ranks, ranks.copy(), np.zeros(len(ranks))),
            *(np.zeros(3, np.int64), np.full(5, np.inf)),
        )
        add_up(of, at)
        return of, at, unit

    def _sets(self) -> Ints:
        i = self.instance
        each = min(i.slots // 2, MOST_PAIRS // (i.devices * i.slots))
        places = [(g, s) for g in range(i.devices) for s in range(i.slots)]
        pairs = [(g, s, (s + k) % i.slots) for g, s in places for k in range(1, each + 1)]
        return np.array([(g, s, s) for g, s in places] + pairs)

    def levels(self, solution: Solution) -> tuple[Ints, Floats, Floats]:
        """Return slots, a copy's tokens by expert, and devices' tokens, then readings."""
        here = slots_of(self.instance, solution)
        now = self.instance.loads_units.T / [[len(row)] for row in solution.copies]
        now = np.vstack([now, np.zeros((1, now.shape[1]))])
        return here, now, np.vstack([now[here].sum(axis=1), np.minimum(1, now)[here].sum(axis=1)])


def add_up(of: Sizes, at: Levels) -> None:
    """Add up what devices have above targets anew: floats that change by little drift."""
    tokens, reads = np.split(at.level, 2)
    time = np.maximum(of.read * reads, of.compute * tokens) + of.way * tokens
    off = np.abs(tokens / of.token - np.rint(tokens / of.token))
    above = np.maximum(0.0, time - of.fixed[1])
    at.energy[:] = above**2 @ of.fixed[0] + of.dear * off.sum(axis=1)
    at.value[TOTAL] = at.energy.sum()


def slots_of(instance: Instance, solution: Solution) -> Ints:
    """Return the expert in each slot, shape (devices, slots); `EMPTY` where there is none."""
    slot = np.full((instance.devices, instance.slots), EMPTY, dtype=np.int64)
    filled = [0] * instance.devices
    for expert, row in enumerate(solution.copies):
        for device in row:
            slot[device, filled[device]] = expert
            filled[device] += 1
    return slot


def solution_of(instance: Instance, slot: Ints) -> Solution:
    """Return the solution with these experts in the slots."""
    rows = rows_of(slot.tolist(), instance.experts)
    return Solution(instance=instance.name, copies=tuple(map(tuple, rows)))
