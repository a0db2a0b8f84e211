"""The states of the dynamic program: two clocks and a penalty per layer; Pareto states kept.

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

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from .instance import Instance

STATES_PER_LOOK = 1000
"""States made between two looks at the clock: a millisecond or so."""


class Stopped(Exception):  # noqa: N818 - no error
    """The time is up, or somebody asked to stop."""


class Finished(NamedTuple):
    """A complete schedule: its objective, and how to build it (`pipeline.schedule`)."""

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


State = tuple[int, int, int, "State | None", int]
"""Penalty, a, c, the state it comes from, and the count of the layer between the two."""


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
        Asked every millisecond or so.

    Raises
    ------
    Stopped
        As soon as `stopped` says so.
    """
    latest = boxes(instance, makespan_ns)
    least = instance.penalty[0]
    states: list[State] = [(0, 0, 0, None, 0)]
    layers = layers_of(instance)
    for number, layer in enumerate(layers[:-1]):
        to_come = (len(layers) - number - 1) * least
        most = None if penalty is None else penalty - to_come
        states = undominated(
            _extensions(instance, layer, states, latest[number + 1], most, stopped)
        )
    if penalty is not None and states and states[0][0] + least > penalty:
        return []
    ends = undominated(
        (state[0] + least, layers[-1].end(*state[1:3]), 0, state, 0) for state in states
    )
    return [Finished(e[1], e[0], tuple(_counts(e))) for e in ends if e[1] <= makespan_ns]


def _extensions(
    instance: Instance,
    layer: Layer,
    states: list[State],
    latest: Box,
    most: int | None,
    stopped: Callable[[], bool],
) -> Iterator[State]:
    """Yield the states after a layer that lie in the box and within the penalty.

    Counts run from the least that reaches the box to the least that gains all there is to gain;
    where that takes more than there are, the largest is tried, which may leave I without length.
    """
    penalties, most_deferred = instance.penalty, instance.max_deferred
    lead, gpu = layer.attention + layer.sync, layer.attention + layer.shared
    for number, state in enumerate(states):
        if number % STATES_PER_LOOK == 0 and stopped():
            raise Stopped
        p, a, c = state[:3]
        ran = max(a + lead, c)
        on_gpu, after_c = max(a + gpu, c + layer.sync_before), ran + layer.all_experts
        if after_c > latest.c or on_gpu > latest.a:
            continue
        handed = after_c + layer.sync  # when A of the next layer could start if nothing is deferred
        first = useful = 0
        if layer.expert:
            first = min(max(0, -((latest.a - handed) // layer.expert)), most_deferred)
            useful = min(max(0, -((on_gpu - handed) // layer.expert)), most_deferred)
        for count in range(first, useful + 1):
            cost = p + penalties[count]
            if most is not None and cost > most:
                break
            after_a = layer.after(a, c, count).a
            if after_a <= latest.a:
                yield cost, after_a, after_c, state, count


def undominated(states: Iterable[State]) -> list[State]:
    """Return the Pareto states: those that no other one with no larger p, a and c dominates.

    By rising p; those kept so far form a staircase in (a, c), in which the last one with no larger
    a has the least c of all such.
    """
    kept: list[State] = []
    stair_a: list[int] = []
    stair_c: list[int] = []
    for state in sorted(states, key=lambda state: state[:3]):
        _, a, c = state[:3]
        at = bisect_right(stair_a, a)
        if at and stair_c[at - 1] <= c:
            continue
        kept.append(state)
        end = at
        while end < len(stair_c) and stair_c[end] >= c:
            end += 1
        stair_a[at:end], stair_c[at:end] = [a], [c]
    return kept


def _counts(state: State) -> list[int]:
    """Return the counts of the layers that led to a state."""
    counts = []
    while state[3] is not None:
        counts.append(state[4])
        state = state[3]
    return counts[::-1]
