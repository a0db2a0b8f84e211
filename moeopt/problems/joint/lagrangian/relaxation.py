"""The Lagrangian relaxation: its bound, in integers, with a subgradient.

For one context. Every row (layer l of step t) gets its own copy of where its experts are and at
which width, and multipliers `price` for agreement with the experts' own choice. Steps are longest
paths through two clocks (`kernels` has the five arcs of a row); `flow` is a unit flow from the
first to the last clock of every step. Memory of GPU and host and the loss have the multipliers
`gpu`, `host` and `loss`, not negative.

Proof (weak duality). Take any solution of this context, and its dispatch. A step takes at least as
long as any path, so at least as long as the average over the paths that make up its flow: the sum
over rows and arcs of flow times length. Adding price times (the expert's state - the row's copy of
it), which is 0, and each multiplier times (what is used - the budget), which is at most 0, leaves a
lower bound on the objective. It falls apart into

- a subproblem for each row, which `solve_rows` solves for each number of deferred experts; the
  rows of a layer share this number, so the least of their sums counts;
- a subproblem for each expert: the least over its states of prices, sizes and losses;
- constants.

Without experts on the CPU the row has no arc from a to c'. The length that stands for it is one
that no clock contradicts: c' = a + A + idle delays nothing, as the CPU of the next layer starts
after a + A + s anyway, and attention after it not before a + A + S + A' + S' >= c' + s. Likewise
arc 2 stands for all waits for deferred experts: without any, attention waited a layer before.

Caches. A cache of w ways finds an expert that is no resident if, since its last use, fewer than w
others were used that are none either. So rows may run on the GPU what was used before, and pay
`hit` for each; a layer with a cache is paid these for what it finds of its non-residents, and pays
for w times its widest non-resident. In layers of few experts all sets of residents are tried, which
makes the layer's part exact, by units of memory; in others any expert used before is found. And a
row that runs something on the GPU has an expert there: the row pays for the first, its layer is
paid for the second. Copies cost nothing.
"""

from dataclasses import dataclass, replace

import numpy as np

from moeopt.algorithms.lagrangian import Tangent, best_price
from moeopt.core.clock import spend
from moeopt.core.rounding import rounded

from .arrays import Arrays
from .gpu_memory import BITS, FEW_EXPERTS, cached_layers, least_within
from .kernels import ARCS, MOST_OPTIONS, TOP, Flags, Floats, Ints, all_steps, solve_rows

ROUGH = 24
"""The multiplier of memory is found to so many binary places, half as many where caches are."""

MOST_CELLS = 2**27
"""Steps of the dynamic program over the GPU's memory: more take too long."""

MOST_BUCKETS, MOST_UNITS = 512, 1024
"""Of time in a step, and of the GPU's memory where there are caches."""

CALL_WORK, STATES, PASSED = 1e-3, 7e8, 1.3e7
"""Units of work that an evaluation takes besides its loops; how many states, of an entry or of an
expert, a core looks at in a second in compiled loops, and how many in passes of NumPy."""

OPTIONS = 1e10
"""Transitions from a bucket by an option that a core looks at in a second."""

LARGEST = 2**60


@dataclass(frozen=True)
class Multipliers:
    """What relaxed constraints cost.

    Attributes
    ----------
    price
        Of states, shape (entries, 2 x widths).
    flow
        On arcs, shape (rows, arcs).
    gpu, host, loss
        Of the budgets.
    count
        Of deferred counts, shape (rows, most + 1): what `StepRelaxation` has in place of flows.
    hit
        Of what a cache holds, and of rows that run experts on the GPU without one there, shape
        (entries + rows,), not negative.
    """

    price: Floats
    flow: Floats
    gpu: float
    host: float
    loss: float
    count: Floats
    hit: Floats


@dataclass(frozen=True)
class Relaxed:
    """The relaxation's value and solution.

    Attributes
    ----------
    bound, proven_ns
        Its value in ns, and in whole ns what it proves: nothing of it was computed in floats.
    at
        The multipliers, `gpu` at its best for the others.
    selected
        The experts' states, shape (cells, 2 x widths), from 0 to 1.
    state
        Of every entry in its row, 3 x state + side.
    deferred, row_deferred
        How many experts, by layer and as the rows have it.
    lengths
        Of the arcs of every row.
    lost, host_bytes
        What the solution uses of these budgets.
    over
        By how much it breaks what `hit` pays for, where there are caches.
    """

    bound: float
    proven_ns: int
    at: Multipliers
    selected: Floats
    state: Ints
    deferred: Ints
    row_deferred: Ints
    lengths: Ints
    lost: float
    host_bytes: float
    over: Floats


class Relaxation:
    """The relaxation of an instance with one of its contexts.

    Attributes
    ----------
    by_paths
        Whether steps count with flows over paths.
    caches
        Whether layers may have caches; nothing is proven if they may not, but in the instance.
    """

    by_paths = True

    def __init__(self, arrays: Arrays, context: int) -> None:
        i = arrays.instance
        self.arrays, self.instance, self.context = arrays, i, i.contexts[context]
        self.frame = arrays.frames[context]
        self.cells = i.layers * i.experts
        self.widths = len(i.bits)
        self.states = 2 * self.widths
        size = np.tile(arrays.size, 2)
        held = np.arange(self.states) >= self.widths
        self.gpu_size = np.broadcast_to(size * held, (self.cells, self.states))
        on_host = size * (~held | i.host_copy)
        self.host_size = np.broadcast_to(on_host, (self.cells, self.states))
        self.loss = np.tile(arrays.loss.reshape(self.cells, self.widths), 2)
        self.unit_bytes = int(np.gcd.reduce(arrays.size)) or 1
        self.gpu_room = (i.gpu_bytes - self.context.kv_bytes) // self.unit_bytes * self.unit_bytes
        self.caches = i.max_ways > 0
        most = i.max_deferred + 1
        of_rows = len(arrays.row) * self.states * (most + 1) * most
        self.unit = max(self.unit_bytes, -(-self.gpu_room // MOST_UNITS))
        passed = (len(arrays.row) + ROUGH * self.cells // 2) * self.states
        self.work = CALL_WORK + of_rows / STATES + passed / PASSED
        frame, steps = self.frame, len(i.steps)
        times = (frame.attention_ns, frame.shared_ns, frame.idle_ns)
        self._of_rows = tuple(np.tile(of_layers, steps) for of_layers in times)
        self.layer = arrays.row % i.layers
        self.slots = (arrays.cell[:, None] * self.states + np.arange(self.states)).ravel()

    @property
    def linked(self) -> bool:
        """Whether layers decide what their caches find: those of few experts."""
        return self.caches and self.instance.experts <= FEW_EXPERTS

    def evaluate(self, at: Multipliers, *, exact: bool = False) -> Relaxed:
        """Evaluate the relaxation in integers, with the best multiplier of the GPU's memory.

        Or, if `exact`, with its limit as it is, where no caches share it and units are few; all
        sizes are multiples of one, so that what is left of the room beyond them is never used. The
        other multipliers are rounded to binary places, as many as keep every sum in 64 bits,
        20 at most.
        """
        i = self.instance
        units = (i.experts + i.max_ways) * int(self.arrays.size.max()) // self.unit
        sets = i.layers * (self.widths << i.experts) * (1 + i.max_ways) if self.linked else 0
        spend(self.work + sets * units / STATES)
        at, whole = self._whole(at)
        summed = np.zeros(self.cells * self.states, dtype=np.int64)
        np.add.at(summed, self.slots, whole.price.ravel())
        cost = summed.reshape(self.cells, self.states)
        cost = cost + whole.loss * self.loss + whole.host * self.host_size
        gpu, selected, total, within = self._experts(cost, whole.hit)
        state = np.zeros(len(self.arrays.row), dtype=np.int64)
        rows = self._rows(whole, state)
        memory, units = total - gpu * self.gpu_room, self.gpu_room // self.unit_bytes
        if exact and not self.caches and 0 <= units * self.cells * self.states <= MOST_CELLS:
            spend(units * self.cells * self.states / STATES)
            memory = least_within(cost, self.gpu_size[0] // self.unit_bytes, units)
        value = memory + rows.total - whole.host * (i.host_bytes or 0)
        value -= whole.loss * ((i.max_loss or 0) - self.context.kv_loss)
        begin_ns = len(i.steps) * self.context.step_ns
        lost = float((selected * self.loss).sum() + rows.lost) + self.context.kv_loss
        return Relaxed(
            bound=value / whole.unit + begin_ns,
            proven_ns=-(-value // whole.unit) + begin_ns if self.caches == (i.max_ways > 0) else 0,
            at=replace(at, gpu=gpu / whole.unit),
            selected=selected,
            state=state,
            deferred=rows.deferred,
            row_deferred=rows.row_deferred,
            lengths=rows.lengths,
            lost=lost,
            host_bytes=float((selected * self.host_size).sum()),
            over=self._over(selected, within, state),
        )

    def _largest_sum(self, at: Multipliers) -> float:
        """Return what no sum of the multipliers' shares of a bound exceeds."""
        i = self.instance
        by_cell = np.bincount(self.arrays.cell, np.abs(at.price).max(axis=1), self.cells)
        smallest, largest = (
            float(max(1, size)) for size in (min(i.expert_bytes), max(i.expert_bytes))
        )
        steepest = float(by_cell.max()) / smallest + at.host * 2
        steepest += at.loss * float(np.ptp(self.loss, axis=1).max()) / smallest
        hits = float(at.hit.sum())
        steepest += hits / smallest
        lost = float(self.loss.sum()) + float(self.arrays.steps.late_loss.sum())
        most = 2 * float(by_cell.sum()) + float(np.abs(at.count).sum())
        most += (2 * steepest + at.host) * largest * self.cells * (2 + i.max_ways)
        return most + 2 * hits + at.loss * lost

    def _whole(self, at: Multipliers) -> "tuple[Multipliers, _Whole]":
        """Return the multipliers, made smaller where sums would leave 64 bits, and in integers.

        Steps of the ascent that go astray double the prices each time. Any multipliers give a
        bound, so that smaller ones do.
        """
        i = self.instance
        horizon_ns, most = i.horizon_ns, self._largest_sum(at)
        if not (horizon_ns + most) * 2**3 < LARGEST:
            if np.isfinite(most):
                smaller = (LARGEST >> 5) / most
                price, count, hit = at.price * smaller, at.count * smaller, at.hit * smaller
            else:
                smaller = 0.0
                price, count, hit = (np.zeros_like(of) for of in (at.price, at.count, at.hit))
            host, loss = smaller * at.host, smaller * at.loss
            at = Multipliers(price, at.flow, at.gpu, host, loss, count, hit)
            most = self._largest_sum(at)
        most += horizon_ns
        unit = 1 << next((p for p in range(20, 0, -1) if most * 2 ** (p + 3) < LARGEST), 0)
        flow = at.flow.reshape(len(i.steps), i.layers, ARCS)
        host, loss = (
            0 if limit is None else round(value * unit)
            for value, limit in ((at.host, i.host_bytes), (at.loss, i.max_loss))
        )
        entries, paid = len(at.price), np.rint(at.hit * unit)
        paid[:entries][(self.arrays.steps.others < 0) | (not self.caches)] = -1
        paid[entries:] *= self.linked and not self.by_paths
        return at, _Whole(
            unit=unit,
            price=np.rint(at.price * unit).astype(np.int64),
            flow=whole_flow(flow, unit).reshape(-1, ARCS),
            count=np.rint(at.count * unit).astype(np.int64),
            host=host,
            loss=loss,
            hit=paid.astype(np.int64),
        )

    def _experts(self, cost: Ints, hit: Ints) -> tuple[int, Floats, int, Floats]:
        """Return the price of the GPU's memory, the experts' states, and their cost with it.

        And the entries that caches find.
        """
        if self.linked:
            return self._columns(cost, hit)
        i, entries = self.instance, len(self.layer)
        size, others = int(self.arrays.size.min()), self.arrays.steps.others
        paid = np.zeros(cost.shape, dtype=np.int64)
        np.add.at(paid[:, 0], self.arrays.cell, np.maximum(0, hit[:entries]))
        paid = paid[:, :1] * (np.arange(self.states) < self.widths)

        def at(gpu: int) -> Tangent[tuple[Floats, Floats, int]]:
            weighed = cost + gpu * self.gpu_size
            kinds = np.stack([weighed, weighed - paid] if self.caches else [weighed])
            kinds = kinds.reshape(-1, i.layers, i.experts, self.states)
            least = kinds.min(axis=3).sum(axis=2)
            least[1:] += gpu * size  # one way finds whatever was used before
            ways = least.argmin(axis=0)
            state = kinds[ways, np.arange(i.layers)].argmin(axis=2).ravel()
            flags = np.eye(self.states)[state]
            used = int(self.gpu_size[0, state].sum() + ways.sum() * size)
            within = ways[self.layer] * (others >= 0) * (state[self.arrays.cell] < self.widths)
            total = int(least.min(axis=0).sum())
            solution = flags, within.astype(np.float64), total
            return Tangent(gpu, total - gpu * self.gpu_room, used - self.gpu_room, solution)

        steepest = int(np.ptp(cost, axis=1).max(initial=0) + paid.sum())
        price = best_price(at, steepest // max(1, size) + 1, ROUGH >> self.caches)
        found, within, total = price.fallen.solution
        if price.rising is not None:
            share, (other, within_other, _) = price.share_of_rising, price.rising.solution
            found = share * other + (1 - share) * found
            within = share * within_other + (1 - share) * within
        return price.fallen.price, found, total, within

    def _columns(self, cost: Ints, hit: Ints) -> tuple[int, Floats, int, Floats]:
        """Return the same where layers have few experts, with the GPU's memory as it is."""
        i = self.instance
        room, size = max(0, self.gpu_room) // self.unit, self.arrays.size // self.unit
        least = np.zeros((i.layers + 1, room + 1), dtype=np.int64)
        chosen = np.zeros((i.layers, i.experts + 2), dtype=np.int64)
        most, by_layer = np.array([min(i.max_ways, i.experts), room]), (i.layers, i.experts, -1)
        cached_layers(self.arrays.steps, cost.reshape(by_layer), size, hit, most, least, chosen)
        step = min(room, int(size.max()))
        gpu = int(least[-1, room - step] - least[-1, room]) // max(1, step * self.unit)
        found, others = np.zeros(cost.shape), self.arrays.steps.others
        state, residents, ways = chosen[:, :-2].ravel(), *chosen[self.layer, -2:].T
        found[np.arange(self.cells), state] = 1
        within = (others >= 0) & (state[self.arrays.cell] < self.widths)
        within &= BITS[np.maximum(0, others) & ~residents] < ways
        total = int(least[-1, room]) + gpu * self.gpu_room
        return gpu, found, total, within.astype(np.float64)

    def _over(self, selected: Floats, within: Floats, state: Ints) -> Floats:
        """Return by entry whether rows find more than caches, and by row whether less is alone."""
        on_gpu, away = state % 3 == 0, state // 3 < self.widths
        held = selected[self.arrays.cell, self.widths :].sum(axis=1) + within
        some = np.zeros((2, len(self._of_rows[0])))
        np.maximum.at(some[0], self.arrays.row, on_gpu)
        np.maximum.at(some[1], self.arrays.row, held)
        alone = (some[0] - some[1]) * (self.linked and not self.by_paths)
        return np.concatenate([((on_gpu & away) - within) * self.caches, alone])

    def _rows(self, whole: "_Whole", state: Ints) -> "_Rows":
        """Solve the rows, and set where every entry is."""
        i, steps = self.instance, self.arrays.steps
        value, missed, states = self._row_values(whole)
        counts, least = self._by_layer(value)
        of_rows = np.tile(counts, len(i.steps))
        some = missed[np.arange(len(of_rows)), of_rows]
        column = np.where(some, 1 + of_rows, 0)
        state[:] = states[np.arange(len(state)), column[self.arrays.row]]
        lost = int(steps.late_loss[state % 3 == 2].sum())
        return _Rows(int(least.sum()), counts, of_rows, self._lengths(state, some), lost)

    def _row_values(self, whole: "_Whole") -> tuple[Ints, Flags, Ints]:
        """Return each row's least cost for each number of deferred experts, shape (rows, counts).

        And whether any expert is on the CPU then, and the states of `solve_rows`.
        """
        i, steps, frame, z = self.instance, self.arrays.steps, self.frame, whole.flow.T
        counts, longest = i.max_deferred + 1, int(np.diff(steps.start).max(initial=0))
        alone = np.zeros(len(whole.flow), dtype=np.int64)
        some = np.zeros((len(alone), counts), dtype=np.int64)
        states = np.zeros((len(self.arrays.row), 1 + counts), dtype=np.int64)
        best = np.zeros((longest, 6), dtype=np.int64)
        table, origin = np.zeros((2, longest + 1, max(counts, 2)), dtype=np.int64)
        prices = (whole.price, whole.flow, whole.loss)
        own = (best, table, origin)
        solve_rows(steps, *prices, whole.hit, frame.host_copy, *own, alone, some, states)
        a, shared, idle = self._of_rows
        s = frame.hand_over_ns
        alone += (z[0] + z[1]) * (a + shared) + z[2] * s + z[3] * (a + idle)
        constant = z[0] * (a + shared) + z[1] * (a + 2 * s) + z[2] * s + z[3] * (a + s)
        some = np.where(some < TOP, some + constant[:, None], TOP)
        some[i.layers - 1 :: i.layers] = some[i.layers - 1 :: i.layers, :1]
        missed = some < alone[:, None]
        return np.where(missed, some, alone[:, None]), missed, states

    def _by_layer(self, value: Ints) -> tuple[Ints, Ints]:
        """Return each layer's best number of deferred experts, and the sum of its rows then."""
        summed = value.reshape(-1, self.instance.layers, value.shape[1]).sum(axis=0)
        summed[-1, 1:] = summed[-1, 0]
        return summed.argmin(axis=1), summed.min(axis=1)

    def _lengths(self, state: Ints, missed: Flags) -> Ints:
        """Return the lengths of the rows' arcs with every entry in a state, shape (rows, arcs)."""
        steps, s = self.arrays.steps, self.frame.hand_over_ns
        at, width, side = np.arange(len(state)), state // 3 % self.widths, state % 3
        time_ns = np.where(side == 0, steps.gpu_ns[at, width], steps.cpu_ns[at, width])
        work = np.zeros(3 * len(missed), dtype=np.int64)
        np.add.at(work, 3 * self.arrays.row + side, time_ns)
        gpu, now, late = work.reshape(-1, 3).T
        a, shared, idle = self._of_rows
        on_gpu, busy = a + shared + gpu, a + s + now
        some = np.where(missed, busy + s, on_gpu)
        to_cpu = np.where(missed, busy + late, a + idle)
        return np.stack([on_gpu, some, now + s, to_cpu, now + late], axis=1)


@dataclass(frozen=True)
class _Whole:
    """Multipliers in integers, `unit` times what they are."""

    unit: int
    price: Ints
    flow: Ints
    count: Ints
    host: int
    loss: int
    hit: Ints


@dataclass(frozen=True)
class _Rows:
    """The rows' part of a `Relaxed`: their cost, and what they decide."""

    total: int
    deferred: Ints
    row_deferred: Ints
    lengths: Ints
    lost: int


class StepRelaxation(Relaxation):
    """A stronger relaxation: whole steps instead of rows, each with its own deferred counts.

    A step's time is what its clocks make it, not a weighted path: the prices `count` ask the steps
    to agree on each layer's number of deferred experts, as `price` does on the experts' states.
    Proof (weak duality). As for `Relaxation`, with each step's own time in place of its paths, and
    count times (the layer's number - the step's copy of it), which is 0, added.
    """

    by_paths = False

    def __init__(self, arrays: Arrays, context: int, bucket_ns: int) -> None:
        super().__init__(arrays, context)
        slowest = np.sort(arrays.steps.cpu_ns.max(axis=1))
        longest = int(slowest[-max(1, self.instance.max_deferred) :].sum())
        self.bucket_ns = max(bucket_ns, -(-longest // MOST_BUCKETS))
        self.buckets = longest // self.bucket_ns + 1
        sizes = np.minimum(np.diff(arrays.steps.start), 20)
        options = self.states**sizes * (self.instance.max_deferred + 1)
        # Each is compared with those listed before, half of all in the mean.
        self.work += float((options * (self.buckets + options // 2)).sum()) / OPTIONS

    @property
    def sides(self) -> int:
        """How many sides an expert of a row may be on; see `kernels`."""
        return (2 + self.caches) * self.widths

    @staticmethod
    def suits(arrays: Arrays) -> bool:
        """Tell whether it pays: rows with few options, and deferral."""
        i = arrays.instance
        most = int(np.diff(arrays.steps.start).max(initial=0))
        sides = (3 if i.max_ways else 2) * len(i.bits)
        options = sides ** min(most, 20) * (i.max_deferred + 1)
        return i.max_deferred > 0 and options <= MOST_OPTIONS

    def _rows(self, whole: _Whole, state: Ints) -> _Rows:
        """Solve the steps, and let each layer choose its number of deferred experts."""
        steps, layers = self.arrays.steps, self.instance.layers
        options = np.zeros((MOST_OPTIONS, 7), dtype=np.int64)
        least_cost = np.zeros((layers + 1, self.buckets), dtype=np.int64)
        origin = np.zeros((layers, self.buckets, 3), dtype=np.int64)
        sides, counts = np.zeros((2, len(whole.count)), dtype=np.int64)
        prices = (whole.price, whole.count, whole.loss, whole.hit, self.sides)
        units, own = (whole.unit, self.bucket_ns), (options, least_cost, origin)
        total = all_steps(steps, self.frame, *prices, *units, *own, sides, counts)
        state[:] = self._states(whole.price, sides, counts)
        chosen, least = self._by_layer(whole.count)
        lost = int(steps.late_loss[state % 3 == 2].sum())
        lengths = np.zeros((len(counts), ARCS), dtype=np.int64)
        return _Rows(int(total + least.sum()), chosen, counts, lengths, lost)

    def _states(self, price: Ints, sides: Ints, counts: Ints) -> Ints:
        """Return where every entry is, by the sides of its row and how many the row defers."""
        at, row, last = np.arange(len(price)), self.arrays.row, self.arrays.steps.start[1:]
        side = sides[row] // self.sides ** (last[row] - 1 - at) % self.sides
        width, found = side % self.widths, side >= 2 * self.widths
        on_cpu = (side >= self.widths) & ~found
        after: Ints = np.append(np.cumsum(on_cpu[::-1])[::-1], 0)
        deferred = on_cpu & (after[1:] - after[last[row]] < counts[row])
        held = ~(on_cpu | found)
        if self.frame.host_copy:
            held |= on_cpu & (price[at, self.widths + width] > price[at, width])
        return np.asarray(3 * (width + self.widths * held) + on_cpu + deferred)

    def counts_of(self, at: Multipliers) -> Floats:
        """Return what each row costs with each number of deferred experts, by `Relaxation`.

        With these prices of counts the bound is no lower than that of the same multipliers there.
        """
        _, whole = self._whole(at)
        return np.asarray(self._row_values(whole)[0] / whole.unit)


def soft_flow(lengths: Floats, heat: float, deferral: bool) -> Floats:
    """Return the flow of paths that are drawn the more often the longer they are.

    Parameters
    ----------
    lengths
        Shape (steps, layers, 5).
    heat
        In ns: a path that is longer by this is drawn e times as often.
    deferral
        Whether paths may go over the CPU's clock.
    """
    steps, layers, _ = lengths.shape
    ways = lengths.astype(np.float64).copy() / heat
    if not deferral:
        ways[:, :, 3] = -np.inf
    ways[:, -1, 3:] = -np.inf
    to_end = np.zeros((layers + 1, 2, steps))
    to_end[layers, 1] = -1e300
    share = np.zeros((steps, layers, 5))
    for layer in range(layers - 1, -1, -1):
        after = to_end[layer + 1]
        arcs = ways[:, layer].T + after[[0, 0, 0, 1, 1]]
        for clock, own in ((0, [0, 1, 3]), (1, [2, 4])):
            top = arcs[own].max(axis=0)
            parts = rounded(np.exp(arcs[own] - top))
            total = parts.sum(axis=0)
            to_end[layer, clock] = top + rounded(np.log(total))
            share[:, layer, own] = (parts / total).T
    flow = np.zeros_like(share)
    there = np.zeros((2, steps))
    there[0] = 1
    for layer in range(layers):
        flow[:, layer, [0, 1, 3]] = share[:, layer, [0, 1, 3]] * there[0][:, None]
        flow[:, layer, [2, 4]] = share[:, layer, [2, 4]] * there[1][:, None]
        there = np.stack([flow[:, layer, :3].sum(axis=1), flow[:, layer, 3:].sum(axis=1)])
    return flow


def whole_flow(flow: Floats, scale: int) -> Ints:
    """Return a flow of `scale` units in integers, near a flow of one; shape (steps, layers, 5)."""
    steps, layers, _ = flow.shape
    found = np.zeros(flow.shape, dtype=np.int64)
    there = np.zeros((2, steps), dtype=np.int64)
    there[0] = scale
    for layer in range(layers):
        last = layer == layers - 1
        late = np.zeros(steps, dtype=np.int64) if last else np.rint(flow[:, layer, 3] * scale)
        late = np.clip(late.astype(np.int64), 0, there[0])
        busy = np.clip(np.rint(flow[:, layer, 1] * scale).astype(np.int64), 0, there[0] - late)
        stay = np.zeros(steps, dtype=np.int64) if last else np.rint(flow[:, layer, 4] * scale)
        stay = np.clip(stay.astype(np.int64), 0, there[1])
        parts = [there[0] - late - busy, busy, there[1] - stay, late, stay]
        found[:, layer] = np.stack(parts, axis=1)
        there = np.stack([parts[0] + parts[1] + parts[2], late + stay])
    return found
