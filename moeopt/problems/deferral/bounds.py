"""Lower bounds on makespan and penalty that need no solver, each with its proof.

They rest on the states of the dynamic program: two clocks and a penalty per layer.

Notation, of layer l: A attention, S shared experts, I immediate and D deferred experts, te an
expert on the CPU. A partial schedule of the layers before l is a state: a, the start of A[l]; c,
when the CPU has done all their work; p, their penalty. With d experts deferred, in the usual order
I[0] D[0] I[1] D[1] ... on the CPU and everything as early as it can be,

    I[l] starts at   r = max(a + A + sync, c)
    c' = r + k te    and    a' = max(a + A + S, r + (k - d) te + sync, c + sync of l - 1),

and the last layer ends at max(a + A + S, c'), without a hand-over. A task without length keeps no
place on the CPU: if I[l] has none, it ends at a + A + sync, whatever c is; if l - 1 has no work on
the CPU at all, c + sync of l - 1 is nothing to wait for. A[l+1] waits for D[l-1], which ends at c;
where d[l-1] = 0 the term c + sync of l - 1 is below a already.

The usual order loses nothing. Keep the starts on the GPU of any schedule, and let l be the first
layer whose D[l] does not run right behind I[l], before I[l+1]. D[l] before I[l]: the two have the
same release and I[l] must end earlier, so D[l] moves right behind I[l], and what ran from D[l] to
I[l] moves ahead. D[l] behind I[l+1]: let s be the first instant from which D[l] could run once I[l]
and D[l-1] have. A[l+1] waits for both, so I[l+1] starts at s + sync[l+1] or later (DE-C2, DE-C3,
DE-C5). Until then the CPU is idle: D[l-1] has run, all else waits for A[l+1]. Let D[l] run from s
on, and let what ran before it, I[l+1] and maybe D[l+1], follow without a pause if it must. D[l]
used to end at some e >= s + sync[l+1] + (all that moved), and A[l+2], if there is one, starts at e
or later. What moved now ends by e - sync[l+1], or when it ended before. So with its hand-over,
sync[l+1], it is in time for A[l+2], and nothing ends later than e. Repeat for the next layer.

Monotony. a' and c' do not fall with a or c; c' does not depend on d; a' does not rise with d. So
the least makespan T* is that of maximal deferral; a state with no smaller a, c, p than another
leads to nothing better; once a' no longer falls with d, larger counts only cost; and from a state
the makespan T can be kept if and only if maximal deferral keeps it, that is, if (a, c) lies within
the latest box, which is computed backwards.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from moeopt.algorithms.labels import undominated
from moeopt.core.clock import spend

from .instance import Instance

Ints = NDArray[np.int64]


def extensions(states: Ints, layer: "Layer", penalties: Ints, most: int, latest: "Box") -> Ints:
    """Return the states after a layer that keep the limits.

    Counts run from the least that reaches the box to the least that gains all there is to gain;
    where that takes more than there are, the largest is tried, which may leave I without length.

    Parameters
    ----------
    states
        Shape (states, 3): penalty, a, c.
    layer
        The layer.
    penalties
        By deferred count.
    most, latest
        Largest penalty, and largest a and c after the layer.

    Returns
    -------
    array
        Shape (extensions, 5): penalty, a, c, the state it comes from, and the count.
    """
    p, a, c = states[:, :3].T
    ready = a + layer.attention + layer.sync
    ran = np.maximum(ready, c)
    after_c = ran + layer.all_experts
    on_gpu = np.maximum(a + layer.attention + layer.shared, c + layer.sync_before)
    handed = after_c + layer.sync  # when A of the next layer could start if nothing is deferred
    counts = np.arange(len(penalties))
    least = useful = np.zeros_like(a)
    if layer.expert:
        least = np.clip(-((latest.a - handed) // layer.expert), 0, counts[-1])
        useful = np.clip(-((on_gpu - handed) // layer.expert), 0, counts[-1])
    immediate = layer.all_experts - counts * layer.expert
    starts = np.where(immediate > 0, ran[:, None] + immediate, ready[:, None]) + layer.sync
    after_a = np.maximum(on_gpu[:, None], starts)
    fits = (after_c <= latest.c)[:, None] & (after_a <= latest.a)
    fits &= (counts >= least[:, None]) & (counts <= useful[:, None])
    row, count = np.nonzero(fits & (p[:, None] + penalties <= most))
    made = p[row] + penalties[count], after_a[row, count], after_c[row], row, count
    return np.column_stack(made)


EXTENSIONS_PER_LOOK = 2**18
"""Most states made between two looks at the clock: some 20 ms."""

STEP_WORK, EXTENSIONS = 1e-4, 5e6
"""Units of work that a block of states takes, and extensions that go into one of them."""

NO_LIMIT = 2**62
"""Above all penalties, and all times: the file's limits keep these below 2**61."""


class Stopped(Exception):  # noqa: N818 - no error
    """The time is up, or somebody asked to stop."""


class Finished(NamedTuple):
    """A complete schedule: its objective, and how to build it (`heuristics.schedule`)."""

    makespan_ns: int
    penalty: int
    counts: tuple[int, ...]


class Box(NamedTuple):
    """The start of a layer's attention, and when the CPU has done the work of those before."""

    a: int
    c: int


class Layer(NamedTuple):
    """The times of one layer in ns, and those that follow from them."""

    attention: int
    shared: int
    sync: int
    expert: int
    all_experts: int
    least_immediate: int
    sync_before: int
    last: bool

    def after(self, a: int, c: int, deferred: int) -> Box:
        """Return the state after this layer, which is not the last: (a', c')."""
        ready = a + self.attention + self.sync
        ran = max(ready, c)
        immediate = self.all_experts - deferred * self.expert
        handed = (ran + immediate if immediate else ready) + self.sync
        on_gpu = max(a + self.attention + self.shared, c + self.sync_before)
        return Box(max(on_gpu, handed), ran + self.all_experts)

    def end(self, a: int, c: int) -> int:
        """Return when the step ends, if this is the last layer."""
        on_cpu = max(a + self.attention + self.sync, c) + self.all_experts
        return max(a + self.attention + self.shared, on_cpu)


def layers_of(instance: Instance) -> list[Layer]:
    """Return the layers' times."""
    k, least = instance.top_k, instance.min_immediate
    times = (instance.attention_ns, instance.shared_ns, instance.sync_ns, instance.expert_cpu_ns)
    found: list[Layer] = []
    for own in zip(*times, strict=True):
        before = found[-1].sync if found and found[-1].expert else 0
        last = len(found) == instance.layers - 1
        found.append(Layer(*own, k * own[3], least * own[3], before, last))
    return found


def earliest(instance: Instance) -> list[Box]:
    """Return (a, c) of every layer under maximal deferral, and the end of the step as a last a."""
    found = [Box(0, 0)]
    for layer in layers_of(instance):
        a, c = found[-1]
        if layer.last:
            end = layer.end(a, c)
            found.append(Box(end, end))
        else:
            found.append(layer.after(a, c, instance.max_deferred))
    return found


def boxes(instance: Instance, makespan_ns: int) -> list[Box]:
    """Return the latest (a, c) of every layer from which maximal deferral keeps a makespan."""
    latest: list[Box] = []
    for layer in reversed(layers_of(instance)):
        work, lead = layer.all_experts, layer.attention + layer.sync
        if layer.last:
            on_cpu, due = makespan_ns - work, makespan_ns
            a = min(due - layer.attention - layer.shared, on_cpu - lead)
            latest.append(Box(a, on_cpu))
            continue
        due, cpu_due = latest[-1]
        handed, on_cpu = due - layer.sync, cpu_due - work
        if layer.least_immediate:
            on_cpu = min(on_cpu, handed - layer.least_immediate)
        a = min(due - layer.attention - layer.shared, on_cpu - lead, handed - lead)
        latest.append(Box(a, min(on_cpu, due - layer.sync_before)))
    return latest[::-1]


def finished(
    instance: Instance, makespan_ns: int, penalty: int | None, stopped: Callable[[], bool]
) -> list[Finished]:
    """Return the best schedules that keep to a makespan and a penalty, no two comparable.

    Every (makespan, penalty) pair that a schedule within both limits has is dominated by one of
    them.

    Parameters
    ----------
    makespan_ns, penalty
        The limits; None is no limit on the penalty.
    stopped
        Asked every 20 ms or so.

    Raises
    ------
    Stopped
        As soon as `stopped` says so.
    """
    latest = boxes(instance, makespan_ns)
    penalties = np.array(instance.penalty, dtype=np.int64)
    last_penalty = instance.penalty[0]
    layers = layers_of(instance)
    states = np.zeros((1, 3), dtype=np.int64)
    steps: list[Ints] = []  # of every layer but the last: the state before, and the count
    for number, layer in enumerate(layers[:-1]):
        to_come = (len(layers) - number - 1) * last_penalty
        most = NO_LIMIT if penalty is None else penalty - to_come
        states = _after(layer, states, penalties, most, latest[number + 1], stopped)
        steps.append(states[:, 3:])
    a, c = states[:, 1], states[:, 2]
    layer = layers[-1]
    on_cpu = np.maximum(a + layer.attention + layer.sync, c) + layer.all_experts
    end = np.maximum(a + layer.attention + layer.shared, on_cpu)
    total = states[:, 0] + last_penalty
    keeps = (end <= makespan_ns) & (total <= (NO_LIMIT if penalty is None else penalty))
    complete = np.column_stack([total, end, np.arange(len(end))])[keeps]
    best = complete[undominated(complete[:, :2])]
    counts = _counts(steps, best[:, 2])
    return [
        Finished(makespan, cost, tuple(of))
        for (cost, makespan), of in zip(best[:, :2].tolist(), counts.tolist(), strict=True)
    ]


def _after(
    layer: Layer,
    states: Ints,
    penalties: Ints,
    most: int,
    latest: Box,
    stopped: Callable[[], bool],
) -> Ints:
    """Return the undominated states after a layer, with the state before and the count of each."""
    kept = np.empty((0, 5), dtype=np.int64)
    block = max(1, EXTENSIONS_PER_LOOK // len(penalties))
    for first in range(0, len(states), block):
        if stopped():
            raise Stopped
        part = states[first : first + block]
        spend(STEP_WORK + len(part) * len(penalties) / EXTENSIONS)
        made = extensions(part, layer, penalties, most, latest)
        made[:, 3] += first
        kept = np.concatenate([kept, made]) if len(kept) else made
        kept = kept[undominated(kept[:, :3])]
    return kept


def _counts(steps: list[Ints], rows: Ints) -> Ints:
    """Return the counts of all layers that led to some last states, shape (states, layers)."""
    counts = np.zeros((len(rows), len(steps) + 1), dtype=np.int64)
    for number in range(len(steps) - 1, -1, -1):
        taken = steps[number][rows]
        rows, counts[:, number] = taken[:, 0], taken[:, 1]
    return counts


def lower_bound(instance: Instance) -> tuple[int, int]:
    """Return a bound on (makespan, total penalty), in lexicographic order.

    Proof. The least makespan T* is that of maximal deferral (proof above). A schedule with
    makespan T* costs at least `least_penalty`; one with a larger makespan comes later in
    lexicographic order whatever it costs.
    """
    makespan_ns = earliest(instance)[-1].a
    return makespan_ns, least_penalty(instance, makespan_ns)


def objective_grid(instance: Instance) -> int:
    """Return a number that every packed objective is a multiple of.

    Makespans are multiples of the times' common divisor, but penalties of nothing in common.
    """
    return 1


def second_key_radix(instance: Instance) -> int:
    """Return a number above every total penalty."""
    return instance.layers * instance.penalty[-1] + 1


def least_penalty(instance: Instance, makespan_ns: int) -> int:
    """Return a bound on the total penalty of schedules with a makespan of at most `makespan_ns`.

    Proof. In every schedule a layer is reached no earlier than under maximal deferral, and must be
    left no later than the latest box that maximal deferral can still finish from. So each layer's
    count is at least the least that leads from the earliest to the latest box, and penalties do
    not fall with the count. The last layer defers nothing.
    """
    reached, due = earliest(instance), boxes(instance, makespan_ns)
    total = instance.penalty[0]
    for number, layer in enumerate(layers_of(instance)[:-1]):
        counts = instance.deferrable(number)
        fits = (d for d in counts if layer.after(*reached[number], d)[0] <= due[number + 1].a)
        total += instance.penalty[next(fits, instance.max_deferred)]
    return total
