"""Simulated annealing over placements with an even split, compiled.

A *state* is `slot`, the expert in each slot of each device (-1: none). Changes: two slots of
different devices change contents; or a slot takes a copy of another expert, which then has one
more, in place of one whose expert has others, or of none; or a slot is left empty.

Peaks alone do not lead: few changes lower one. So what devices have above a target between bound
and peak counts, too, squared.

Both works are one: a device takes the larger of its tokens and its readings, each times what one
costs, and the tokens' way there. Where tokens alone count, reading and ways cost nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from moeopt.core.clock import spend
from moeopt.core.compiled import compiled
from moeopt.core.search import Search

from .bounds import window_bounds
from .eplb import rows_of
from .instance import Instance, Ints, Solution

Floats = NDArray[np.float64]

EMPTY = -1

HOT, COLD = 0.1, 1e-5
"""First temperature for starts that are to be forgotten, and the last, as shares of peaks."""

SMOOTH, STEEP, TARGET = 0.5, 20.0, 3
"""What squares count beside the peaks, of one window's times and of several windows' excess over a
target; and the target's part of the way from bound to peak."""

CHUNK = 5e7
"""Steps between two looks at the clock, times windows and a constant: some 50 ms."""

PART, MIDDLE, SLOPE = (0.62, 0.75), 0.13, (0.6, 2.0)
"""The targets' part of the way from bounds to peaks, with one window and with several; temperature
of exchanges halfway, as a share of that way squared, and half of its logarithm before and after."""

SPLIT = 8
"""What half a token on a device counts twice with one window, in squares of the way to targets."""

PARTS, LOOKED = 64, 0.05
"""Temperatures at least, and units of work of each at most."""

SORTED, MOST_PAIRS = 5000, 4096
"""Steps after which experts and pairs of slots are sorted again, and pairs at most."""

EXCHANGE, EXCHANGES_PER_UNIT = 12, 6.4e8
"""An exchange is as long as this and windows; so much of that is a second of one core."""

STEP, STEPS_PER_UNIT = 240, 4e9
"""A step is as long as this and devices times windows; so much of that is a second of one core."""


@compiled
def anneal(
    share: Ints,
    extra: Ints,
    weight: Ints,
    slot: Ints,
    moved: Ints,
    best: Ints,
    costs: Ints,
    bounds: Ints,
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
        (experts, most + 1, windows).
    weight, bounds
        Of the windows, and a bound on the slowest device's time in each, shape (windows,).
    slot, best
        The state, and the best one, overwritten: shape (devices, slots).
    moved
        What a copy costs on a device, shape (experts, devices) or (1, 1), which is nothing.
    costs
        Of a reading, of computing a token, of a copy beyond one; and of a token's way to each
        device, shape (3 + devices,).
    numbers
        Consecutive devices that make up a node, which nothing leaves; the number of steps; the
        state of the random numbers, not 0, overwritten; and the first peaks, filled in if 0.
    factors
        The first temperature, as a share of the first peaks, and its factor per step.
    """
    (devices, slots), (experts, most, windows) = slot.shape, share.shape
    moving = moved.shape[0] > 1
    per_node, steps, random = numbers[0], numbers[1], np.uint64(numbers[2])
    # The copies of each expert, and the devices that hold them, in order.
    count, where = np.zeros(experts, dtype=np.int64), np.zeros((experts, most), dtype=np.int64)
    # Tokens and experts with tokens of each device in each window: now, what a change adds, times.
    load = np.zeros((devices, windows), dtype=np.int64)
    reads, more, more_reads = load.copy(), load.copy(), load.copy()
    time, after_time = load.copy(), load.copy()
    slowest, target = np.zeros(windows, dtype=np.int64), np.zeros(windows, dtype=np.int64)
    before = np.zeros((2, most), dtype=np.int64)
    # Devices that a change touches, and the last step that touched each.
    touched, last = np.zeros(devices, dtype=np.int64), np.zeros(devices, dtype=np.int64)
    keep(slot, best)
    cost, peaks, excess, weights = -costs[2] * experts, 0, 0, 0
    for g in range(devices):
        last[g] = -1
        for s in range(slots):
            e = slot[g, s]
            if e != EMPTY:
                where[e, count[e]] = g
                count[e] += 1
                cost += costs[2] + (moved[e, g] if moving else 0)
    for e in range(experts):
        for k in range(count[e]):
            for w in range(windows):
                tokens = share[e, count[e], w] + (k < extra[e, count[e], w])
                load[where[e, k], w] += tokens
                reads[where[e, k], w] += tokens > 0
    for w in range(windows):
        for g in range(devices):
            tokens = load[g, w]
            time[g, w] = max(costs[0] * reads[g, w], costs[1] * tokens) + costs[3 + g] * tokens
            if time[g, w] > time[slowest[w], w]:
                slowest[w] = g
        top = time[slowest[w], w]
        peaks += weight[w] * top
        if windows > 1:
            target[w] = bounds[w] + (top - bounds[w]) // TARGET
            excess += weight[w] * (top - target[w]) * devices
        else:
            for g in range(devices):
                excess += weight[w] * time[g, w]
        weights += weight[w]
    cost += peaks
    numbers[3] = numbers[3] or peaks
    least, heat, cooling = cost, factors[0] * numbers[3], factors[1]
    smooth = (STEEP if windows > 1 else SMOOTH) * weights / max(1, excess)
    for step in range(steps):
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
        a = slot[g, s]
        b = slot[h, t]
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
        if not swap and added != EMPTY and count[added] == most - 1:
            continue
        if not swap and dropped != EMPTY and count[dropped] == 1:
            continue
        wrong = False
        if first != EMPTY:
            for k in range(count[first]):
                wrong |= where[first, k] == (h if swap else at)
        if swap and b != EMPTY:
            for k in range(count[b]):
                wrong |= where[b, k] == g
        if wrong:
            continue
        # Take both experts' tokens away, change their devices, and add the tokens again.
        touches = 0
        for turn in range(2):
            e = second if turn else first
            if e == EMPTY:
                continue
            n = count[e]
            for k in range(most):
                before[turn, k] = where[e, k]
            for sign in (-1, 1):
                for k in range(n):
                    d = where[e, k]
                    if last[d] != step:
                        last[d], touched[touches] = step, d
                        touches += 1
                    for w in range(windows):
                        tokens = share[e, n, w] + (k < extra[e, n, w])
                        more[d, w] += sign * tokens
                        more_reads[d, w] += sign * (tokens > 0)
                if sign == 1:
                    break
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
        after, rough = 0, 0.0
        for w in range(windows):
            top = 0
            for number in range(touches):
                d = touched[number]
                tokens = load[d, w] + more[d, w]
                computed = max(costs[0] * (reads[d, w] + more_reads[d, w]), costs[1] * tokens)
                after_time[d, w] = computed + costs[3 + d] * tokens
                top = max(top, after_time[d, w])
                above = float(max(0, after_time[d, w] - target[w]))
                above_now = float(max(0, time[d, w] - target[w]))
                rough += weight[w] * (above - above_now) * (above + above_now)
            # The slowest device may have got faster, and another be the slowest now.
            now = time[slowest[w], w]
            if last[slowest[w]] != step:
                top = max(top, now)
            elif top < now:
                for d in range(devices):
                    if last[d] != step:
                        top = max(top, time[d, w])
            after += weight[w] * (top - now)
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
        for number in range(touches):
            d = touched[number]
            for w in range(windows):
                if accepted:
                    load[d, w] += more[d, w]
                    reads[d, w] += more_reads[d, w]
                    time[d, w] = after_time[d, w]
                more[d, w] = 0
                more_reads[d, w] = 0
        if not accepted:
            for turn in range(2):
                e = second if turn else first
                if e != EMPTY:
                    for k in range(most):
                        where[e, k] = before[turn, k]
            continue
        for w in range(windows):
            slowest[w] = 0
            for d in range(1, devices):
                if time[d, w] > time[slowest[w], w]:
                    slowest[w] = d
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
            keep(slot, best)
    numbers[2] = np.int64(random)
    return int(least)


@compiled
def keep(slot: Ints, best: Ints) -> None:
    """Copy a state; an assignment of whole arrays takes a second longer to compile."""
    for g in range(slot.shape[0]):
        for s in range(slot.shape[1]):
            best[g, s] = slot[g, s]


@compiled
def exchange(
    now: Floats,
    sets: Ints,
    ranks: Ints,
    slot: Ints,
    best: Ints,
    level: Floats,
    fixed: Floats,
    state: Floats,
) -> None:
    """Run some steps of annealing by what devices have above targets, squared.

    A copy, or two, and as many of another device that are about as large change places: numbers of
    copies stay, and remainders are left out.

    Parameters
    ----------
    now
        Tokens of a copy by expert, and of none, shape (experts + 1, windows).
    sets, ranks
        Device and slots of single copies, then of pairs; and their order by tokens, overwritten.
    slot, best, level
        The state, the one with the least cost, and tokens, then readings, by device: overwritten.
    fixed
        Weights, targets and, of reading, computing and what comes besides, costs; then what makes a
        token, and what half a token off counts twice: rows.
    state
        Temperature, steps, random number, least cost and least sum of squares, overwritten.
    """
    (devices, slots), windows, mask = slot.shape, now.shape[1], np.uint64(0xFFFF)
    single, read, compute, way = devices * slots, fixed[2, 0], fixed[2, 1], fixed[2, 2]
    token, dear = fixed[2, 3], fixed[2, 4]
    each, random, total = len(ranks) // single - 1, np.uint64(state[2]), 0.0
    place, key, size = ranks.copy(), np.zeros(len(ranks)), np.zeros(len(now))
    on, energy, chance = np.zeros((len(now), devices)), np.zeros(devices), np.zeros(256)
    apart = 1.0
    for q in range(len(chance)):
        chance[q] = -state[0] * np.log((q + 0.5) / len(chance))
    for e in range(len(now)):
        for w in range(windows):
            size[e] += fixed[0, w] * now[e, w]
        apart = max(apart, 2 * size[e] + 1)
    for g in range(devices):
        for s in range(slots):
            on[slot[g, s], g] = 1
        for w in range(windows):
            time = max(read * level[devices + g, w], compute * level[g, w]) + way * level[g, w]
            energy[g] += fixed[0, w] * max(0.0, time - fixed[1, w]) ** 2
            energy[g] += dear * abs(level[g, w] / token - np.rint(level[g, w] / token))
        total += energy[g]
    for g in range(devices):
        on[EMPTY, g] = 0
    for step in range(int(state[1])):
        if step % SORTED == 0:
            for q in range(len(ranks)):
                g, t, u = sets[q, 0], sets[q, 1], sets[q, 2]
                key[q] = size[slot[g, t]] + (size[slot[g, u]] + apart if q >= single else 0.0)
            _sort(ranks, place, key)
        random ^= random << np.uint64(13)
        random ^= random >> np.uint64(7)
        random ^= random << np.uint64(17)
        mine = np.int64((random & mask) * np.uint64(single) >> np.uint64(16))
        limit = chance[np.int64(random >> np.uint64(16) & np.uint64(255))]
        low, far = 0, single >> 4 + int(random >> np.uint64(24) & np.uint64(1))
        if random >> np.uint64(25) & np.uint64(3) and each:
            mine = (
                single
                + mine * each
                + np.int64((random >> np.uint64(32) & mask) * np.uint64(each) >> np.uint64(16))
            )
            low, far = single, far * each
        far = max(2, far)
        other = (
            place[mine]
            + np.int64((random >> np.uint64(48)) * np.uint64(2 * far + 1) >> np.uint64(16))
            - far
        )
        if other < low or other >= (len(ranks) if low else single):
            continue
        theirs = ranks[other]
        g, s, u = sets[mine, 0], sets[mine, 1], sets[mine, 2]
        h, t, v = sets[theirs, 0], sets[theirs, 1], sets[theirs, 2]
        if g == h or energy[g] + energy[h] == 0.0:
            continue
        a, b, c, d = slot[g, s], slot[h, t], EMPTY, EMPTY
        if low:
            c, d = slot[g, u], slot[h, v]
        worse, mended = -energy[g] - energy[h], 0.0
        for w in range(windows):
            more = now[b, w] + now[d, w] - now[a, w] - now[c, w]
            one, two = level[g, w] + more, level[h, w] - more
            if dear > 0.0:
                split = dear * abs(one / token - np.rint(one / token))
                mended += split
                worse += split + dear * abs(two / token - np.rint(two / token))
            one, two = compute * one, compute * two
            if read > 0.0:
                seen = min(1.0, now[b, w]) + min(1.0, now[d, w])
                seen -= min(1.0, now[a, w]) + min(1.0, now[c, w])
                one = max(one, read * (level[devices + g, w] + seen)) + way * (level[g, w] + more)
                two = max(two, read * (level[devices + h, w] - seen)) + way * (level[h, w] - more)
            one, two = max(0.0, one - fixed[1, w]), max(0.0, two - fixed[1, w])
            mended += fixed[0, w] * one * one
            worse += fixed[0, w] * (one * one + two * two)
            if worse > limit:
                break
        if worse > limit or on[a, h] or on[c, h] or on[b, g] or on[d, g]:
            continue
        slot[g, s], slot[h, t], on[a, g], on[a, h], on[b, h], on[b, g] = b, a, 0, 1, 0, 1
        if low:
            slot[g, u], slot[h, v], on[c, g], on[c, h], on[d, h], on[d, g] = d, c, 0, 1, 0, 1
        on[EMPTY, g] = on[EMPTY, h] = 0
        total, energy[h], energy[g] = total + worse, worse + energy[g] + energy[h] - mended, mended
        for w in range(windows):
            more = now[b, w] + now[d, w] - now[a, w] - now[c, w]
            seen = min(1.0, now[b, w]) + min(1.0, now[d, w])
            seen -= min(1.0, now[a, w]) + min(1.0, now[c, w])
            level[g, w] += more
            level[h, w] -= more
            level[devices + g, w] += seen
            level[devices + h, w] -= seen
        if total < state[4]:
            state[4], cost = total, 0.0
            for w in range(windows):
                top = 0.0
                for g in range(devices):
                    time = max(read * level[devices + g, w], compute * level[g, w])
                    top = max(top, time + way * level[g, w])
                cost += fixed[0, w] * top
            if cost < state[3]:
                state[3] = cost
                keep(slot, best)
    state[2] = np.float64(random >> np.uint64(11))


@compiled
def _sort(order: Ints, place: Ints, key: Floats) -> None:
    """Sort by insertion, as little is out of order; `place` says where each is."""
    for i in range(len(order)):
        j, one = i, order[i]
        while j > 0 and key[order[j - 1]] > key[one]:
            order[j] = order[j - 1]
            j -= 1
        order[j] = one
    for i in range(len(order)):
        place[order[i]] = i


@dataclass(frozen=True)
class Arrays:
    """What does not change: see `anneal`; `bounds` are those of the windows, scaled."""

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
        share, extra = np.divmod(loads, np.maximum(1, numbers)[:, None])
        moved = np.zeros((1, 1), dtype=np.int64)
        if i.current is not None and i.move_cost:
            moved = np.full((i.experts, i.devices), i.move_cost * i.scale, dtype=np.int64)
            for expert, devices in enumerate(i.current):
                moved[expert, list(devices)] = 0
        each = (i.token_ns or 1) * i.scale
        costs = [i.scaled_read_ns, each, i.slot_cost * i.scale, *i.scaled_link_ns]
        bounds = window_bounds(i) * i.scale
        return cls(i, share, extra, moved, np.array(costs, dtype=np.int64), bounds)

    def annealed(
        self, start: Solution, steps: int, seed: int, stopped: Callable[[], bool], heat: float
    ) -> Solution:
        """Return the best placement that some steps of annealing find, `start` at worst.

        `stopped` is asked every 50 ms or so; `heat` is the first temperature, as a share of peaks.
        """
        i = self.instance
        here = slots_of(i, start)
        found, best, least = here, here.copy(), None
        step = i.devices * len(i.windows) + STEP
        at_once = max(1, int(CHUNK / step))
        cooling = (COLD / heat) ** (1 / steps)
        numbers = np.array([i.devices_per_node, 0, 2 * seed + 1, 0], dtype=np.int64)
        for done in range(0, steps, at_once):
            if stopped():
                break
            numbers[1] = part = min(at_once, steps - done)
            state = (self.share, self.extra, i.weights, here, self.moved, best)
            factors = np.array([heat * cooling**done, cooling])
            cost = anneal(*state, self.costs, self.bounds, numbers, factors)
            spend(part * step / STEPS_PER_UNIT)
            if least is None or cost < least:
                least, found = cost, best.copy()
        return solution_of(i, found)

    def exchanged(self, start: Solution, units: float, search: Search) -> Solution:
        """Return the placement with the least cost that so much work on exchanges finds.

        Targets are part of the way from the bounds to the peaks of the best solution.
        """
        i, weight = self.instance, self.instance.weights.astype(float)
        here, now, level = self._levels(start)
        best, slots, bound = here.copy(), i.devices * i.slots, float(weight @ self.bounds)
        tokens, reads = self._levels(search.solution)[2].reshape(2, i.devices, -1)
        read, compute, way = costs = self.costs[[0, 1, 3]].astype(float)
        peaks = (np.maximum(read * reads, compute * tokens) + way * tokens).max(axis=0)
        several = int(len(weight) > 1)
        gap = max(0.0, PART[several] * (weight @ peaks / max(1.0, bound) - 1))
        unit = weight @ (gap * self.bounds) ** 2 / len(weight)
        fixed = np.zeros((3, max(5, len(weight))))
        fixed[0, : len(weight)], fixed[1, : len(weight)] = weight, self.bounds * (1 + gap)
        split = SPLIT * unit * (not several and i.work == "tokens")
        fixed[2, :5] = *costs, i.units_per_token, split
        each = min(i.slots // 2, MOST_PAIRS // slots)
        places = [(g, s) for g in range(i.devices) for s in range(i.slots)]
        pairs = [(g, s, (s + k) % i.slots) for g, s in places for k in range(1, each + 1)]
        sets = np.array([(g, s, s) for g, s in places] + pairs)
        part = min(units / PARTS, LOOKED)
        steps = max(1, int(part * EXCHANGES_PER_UNIT / (len(weight) + EXCHANGE)))
        state = np.array([0.0, steps, 2 * search.seed + 1, np.inf, np.inf])
        ranks, begin = np.arange(len(sets)), search.remaining_s
        while state[4] > 0 and begin - search.remaining_s < units and not search.stopped:
            x = 1 - 2 * (begin - search.remaining_s) / units
            state[0] = unit * MIDDLE * np.exp(SLOPE[several] * x * (1 + x * x))
            exchange(now, sets, ranks, here, best, level, fixed, state)
            spend(part)
        return solution_of(i, best)

    def _levels(self, solution: Solution) -> tuple[Ints, Floats, Floats]:
        """Return slots, a copy's tokens by expert, and devices' tokens, then readings."""
        here = slots_of(self.instance, solution)
        now = self.instance.loads_units.T / [[len(row)] for row in solution.copies]
        now = np.vstack([now, np.zeros((1, now.shape[1]))])
        return here, now, np.vstack([now[here].sum(axis=1), np.minimum(1, now)[here].sum(axis=1)])


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
