"""Simulated annealing over placements with an even split, compiled.

A *state* is `slot`, the expert in each slot of each device (-1: none), with what follows from it:
`count`, the copies of each expert; `where`, the devices that hold them, in order; `load` and
`reads`, the tokens and the experts with tokens of each device in each window. Changes: two slots of
different devices change contents; or a slot takes a copy of another expert, which then has one
more, in place of one whose expert has others, or of none; or a slot is left empty.

Both works are one: a device takes the larger of its tokens and its readings, each times what one
costs, and the tokens' way there. Where tokens alone count, reading and ways cost nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from moeopt.core.clock import spend
from moeopt.core.compiled import compiled

from .instance import Instance, Ints, Solution

Floats = NDArray[np.float64]

EMPTY = -1

HEAT, HOT, COLD = 3e-3, 0.1, 1e-5
"""First temperature, one for starts that are to be forgotten, and the last, as shares of peaks."""

SMOOTH = 0.5
"""What the sum of squared times, over the mean of all, counts beside the peaks."""

CHUNK = 5e7
"""Steps between two looks at the clock, times devices times windows and a constant: some 50 ms."""

STEP, STEPS_PER_UNIT = 240, 4e9
"""A step is as long as this and devices times windows; so much of that is a second of one core."""


@compiled
def anneal(
    share: Ints,
    extra: Ints,
    weight: Ints,
    slot: Ints,
    count: Ints,
    where: Ints,
    load: Ints,
    reads: Ints,
    moved: Ints,
    best: Ints,
    costs: Ints,
    numbers: Ints,
    factors: Floats,
) -> int:
    """Run some steps of simulated annealing; return the cost of the best state.

    One random number of xorshift (Marsaglia 2003) per step decides all: its parts are a window, a
    slot of that one's slowest device (at times of any), another slot of the node, and the change.

    Parameters
    ----------
    share, extra
        What a copy has at least by number of copies, and how many of them have one more, shape
        (windows, experts, most + 1).
    weight
        Of the windows, shape (windows,).
    slot, count, where, load, reads
        The state: shapes (devices, slots), (experts,), (experts, most), (windows, devices) twice.
    moved
        What a copy costs on a device, shape (experts, devices) or (1, 1), which is nothing.
    best
        The best slots so far, overwritten.
    costs
        Of a reading, of computing a token, of a copy beyond one; and of a token's way to each
        device, shape (3 + devices,).
    numbers
        Consecutive devices that make up a node, which nothing leaves; the number of steps; and the
        state of the random numbers, not 0, overwritten.
    factors
        The first temperature; its factor per step; and what the squares of times over their mean
        count beside the peaks.
    """
    windows, devices = load.shape
    slots, most = slot.shape[1], where.shape[1]
    moving = moved.shape[0] > 1
    per_node, steps, random = numbers[0], numbers[1], np.uint64(numbers[2])
    heat, cooling, smooth = factors[0], factors[1], factors[2]
    more = np.zeros((windows, devices), dtype=np.int64)
    more_reads = np.zeros((windows, devices), dtype=np.int64)
    time = np.zeros((windows, devices), dtype=np.int64)
    after_time = np.zeros((windows, devices), dtype=np.int64)
    slowest = np.zeros(windows, dtype=np.int64)
    before = np.zeros((2, most), dtype=np.int64)
    cost, total = 0, 0
    for w in range(windows):
        top = 0
        for g in range(devices):
            tokens = load[w, g]
            time[w, g] = max(costs[0] * reads[w, g], costs[1] * tokens) + costs[3 + g] * tokens
            total += time[w, g]
            if time[w, g] > time[w, top]:
                top = g
        slowest[w] = top
        cost += weight[w] * time[w, top]
    copies = 0
    for g in range(devices):
        for s in range(slots):
            best[g, s] = slot[g, s]
            copies += slot[g, s] != EMPTY
            if moving and slot[g, s] != EMPTY:
                cost += moved[slot[g, s], g]
    cost += costs[2] * (copies - count.shape[0])
    # The windows' mean stands for each: they are of a size, and zero loads are no trouble.
    smooth = smooth * windows / max(1, total)
    least = cost
    for _ in range(steps):
        heat *= cooling
        random ^= random << np.uint64(13)
        random ^= random >> np.uint64(7)
        random ^= random << np.uint64(17)
        kind = int(random >> np.uint64(61))
        g = slowest[int(random >> np.uint64(45) & np.uint64(0xFFFF)) % windows]
        if kind == 0:
            g = int(random >> np.uint64(29) & np.uint64(0xFFFF)) % devices
        s = int(random >> np.uint64(33) & np.uint64(0xFFF)) % slots
        h = g // per_node * per_node + int(random >> np.uint64(16) & np.uint64(0x1FFFF)) % per_node
        t = int(random >> np.uint64(4) & np.uint64(0xFFF)) % slots
        a, b = slot[g, s], slot[h, t]
        # A change: `a` leaves g for h where it is not EMPTY, and b leaves h for g. Or `added` has
        # one copy more, in `place` of device `at`, and `dropped` one less there; either is EMPTY.
        swap = kind < 5
        added, dropped, at, place = a, b, h, t
        if kind == 5:
            added, dropped, at, place = b, a, g, s
        if kind == 6 and a != EMPTY and int(random >> np.uint64(40)) % 4 == 0:
            added, dropped, at, place = EMPTY, a, g, s
        first, second = (a, b) if swap else (added, dropped)
        if first == second or (swap and g == h):
            continue
        if not swap and added != EMPTY and count[added] == most:
            continue
        if not swap and dropped != EMPTY and count[dropped] == 1:
            continue
        wrong = False
        for k in range(most):
            if swap:
                wrong |= a != EMPTY and k < count[a] and where[a, k] == h
                wrong |= b != EMPTY and k < count[b] and where[b, k] == g
            else:
                wrong |= added != EMPTY and k < count[added] and where[added, k] == at
        if wrong:
            continue
        # Take both experts' tokens away, change their devices, and add the tokens again.
        for turn in range(2):
            e = second if turn else first
            if e == EMPTY:
                continue
            n = count[e]
            for k in range(n):
                d = where[e, k]
                before[turn, k] = d
                for w in range(windows):
                    tokens = share[w, e, n] + (k < extra[w, e, n])
                    more[w, d] -= tokens
                    more_reads[w, d] -= tokens > 0
            out, into = at, at
            if swap:
                out, into = (h, g) if turn else (g, h)
            if swap or turn == 1:  # it leaves `out`
                k = 0
                while where[e, k] != out:
                    k += 1
                n -= 1
                while k < n:
                    where[e, k] = where[e, k + 1]
                    k += 1
            if swap or turn == 0:  # it comes to `into`
                k = n
                while k > 0 and where[e, k - 1] > into:
                    where[e, k] = where[e, k - 1]
                    k -= 1
                where[e, k] = into
                n += 1
            for k in range(n):
                d = where[e, k]
                for w in range(windows):
                    tokens = share[w, e, n] + (k < extra[w, e, n])
                    more[w, d] += tokens
                    more_reads[w, d] += tokens > 0
        after, rough = 0, 0.0
        for w in range(windows):
            top, squares = 0, 0.0
            for d in range(devices):
                now = time[w, d]
                if more[w, d] != 0 or more_reads[w, d] != 0:
                    tokens = load[w, d] + more[w, d]
                    readings = reads[w, d] + more_reads[w, d]
                    then = max(costs[0] * readings, costs[1] * tokens) + costs[3 + d] * tokens
                    squares += float(then - now) * float(then + now)
                    now = then
                after_time[w, d] = now
                top = max(top, now)
            after += weight[w] * (top - time[w, slowest[w]])
            rough += weight[w] * squares
        if moving and swap:
            if a != EMPTY:
                after += moved[a, h] - moved[a, g]
            if b != EMPTY:
                after += moved[b, g] - moved[b, h]
        elif not swap:
            if added != EMPTY:
                after += costs[2] + (moved[added, at] if moving else 0)
            if dropped != EMPTY:
                after -= costs[2] + (moved[dropped, at] if moving else 0)
        worse = after + smooth * rough
        # The low bits again: which of two changes is tried has nothing to do with whether it is
        # accepted.
        drawn = float(random >> np.uint64(11)) / 9007199254740992.0
        drawn = (drawn * 12345.6789) % 1.0
        accepted = worse <= 0 or worse < -heat * np.log(drawn + 1e-300)
        for w in range(windows):
            top = 0
            for d in range(devices):
                if accepted:
                    load[w, d] += more[w, d]
                    reads[w, d] += more_reads[w, d]
                    time[w, d] = after_time[w, d]
                    if time[w, d] > time[w, top]:
                        top = d
                more[w, d] = 0
                more_reads[w, d] = 0
            if accepted:
                slowest[w] = top
        if not accepted:
            for turn in range(2):
                e = second if turn else first
                if e != EMPTY:
                    for k in range(count[e]):
                        where[e, k] = before[turn, k]
            continue
        cost += after
        if swap:
            slot[g, s], slot[h, t] = b, a
        else:
            slot[at, place] = added
            if added != EMPTY:
                count[added] += 1
            if dropped != EMPTY:
                count[dropped] -= 1
        if cost < least:
            least = cost
            for g in range(devices):
                for s in range(slots):
                    best[g, s] = slot[g, s]
    numbers[2] = np.int64(random)
    return int(least)


@dataclass(frozen=True)
class Arrays:
    """What does not change: see `anneal`."""

    instance: Instance
    share: Ints
    extra: Ints
    moved: Ints
    costs: Ints

    @classmethod
    def of(cls, instance: Instance) -> "Arrays":
        """Return the arrays of an instance."""
        i, most = instance, instance.most_copies
        share = np.zeros((len(i.windows), i.experts, most + 1), dtype=np.int64)
        extra = np.zeros_like(share)
        for copies in range(1, most + 1):
            share[:, :, copies], extra[:, :, copies] = np.divmod(i.loads_units, copies)
        moved = np.zeros((1, 1), dtype=np.int64)
        if i.current is not None and i.move_cost:
            moved = np.full((i.experts, i.devices), i.move_cost * i.scale, dtype=np.int64)
            for expert, devices in enumerate(i.current):
                moved[expert, list(devices)] = 0
        each = (i.token_ns or 1) * i.scale
        costs = [i.scaled_read_ns, each, i.slot_cost * i.scale, *i.scaled_link_ns]
        return cls(i, share, extra, moved, np.array(costs, dtype=np.int64))

    def annealed(
        self,
        start: Solution,
        steps: int,
        seed: int,
        stopped: Callable[[], bool],
        heat: float = HEAT,
    ) -> Solution:
        """Return the best placement that some steps of annealing find, `start` at worst.

        Parameters
        ----------
        start
            A valid placement.
        steps, seed
            How many steps, and what the random numbers come from.
        stopped
            Asked every 50 ms or so whether to end.
        heat
            The first temperature, as a share of the peaks.
        """
        i = self.instance
        slot = slots_of(i, start)
        count = np.array([len(row) for row in start.copies], dtype=np.int64)
        where = np.zeros((i.experts, i.most_copies), dtype=np.int64)
        load = np.zeros((len(i.windows), i.devices), dtype=np.int64)
        reads = np.zeros_like(load)
        for expert, row in enumerate(start.copies):
            where[expert, : len(row)] = sorted(row)
            for place, device in enumerate(sorted(row)):
                tokens = self.share[:, expert, len(row)] + (place < self.extra[:, expert, len(row)])
                load[:, device] += tokens
                reads[:, device] += tokens > 0
        state = (slot, count, where, load, reads)
        step = load.size + STEP
        at_once = max(1, int(CHUNK / step))
        times = np.maximum(self.costs[0] * reads, self.costs[1] * load) + self.costs[3:] * load
        cooling = (COLD / heat) ** (1 / steps)
        heat *= float(i.weights @ times.max(axis=1))
        found, here = slot.copy(), slot.copy()
        least = None
        numbers = np.array([i.devices_per_node, 0, 2 * seed + 1], dtype=np.int64)
        for done in range(0, steps, at_once):
            if stopped():
                break
            part = min(at_once, steps - done)
            numbers[1] = part
            factors = np.array([heat, cooling, SMOOTH])
            fixed = (self.moved, here, self.costs, numbers, factors)
            cost = anneal(self.share, self.extra, i.weights, *state, *fixed)
            spend(part * step / STEPS_PER_UNIT)
            heat *= cooling**part
            if least is None or cost < least:
                least, found[:] = cost, here
        return solution_of(i, found)


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
    rows: list[list[int]] = [[] for _ in range(instance.experts)]
    for device, held in enumerate(slot.tolist()):
        for expert in held:
            if expert != EMPTY:
                rows[expert].append(device)
    return Solution(instance=instance.name, copies=tuple(map(tuple, rows)))
