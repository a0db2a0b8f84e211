"""Laws that hold for any tasks: nothing is lost, nothing overlaps, nobody idles needlessly."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.rooms.sim import Engine, Resource, Timeline, critical_path

CAPACITIES = (1, 1, 1, None)
"""Of the resources; the last one is a pure delay."""


@dataclass(frozen=True)
class Given:
    """One task as the tests give it; `after` are rows of the same list."""

    resource: int
    duration: int
    after: tuple[int, ...]
    release: int
    priority: int


@st.composite
def tasks(draw: st.DrawFn, shortest: int = 0) -> list[Given]:
    """Draw up to 14 tasks without circles; dependencies point backwards and forwards.

    All of them out of one string of bytes: that is much quicker than a draw for each number.
    """
    count = draw(st.integers(1, 14))
    rows = np.frombuffer(draw(st.binary(min_size=8 * count, max_size=8 * count)), dtype=np.uint8)
    rows = rows.reshape(count, 8).astype(int)
    order = np.argsort(rows[:, 0], kind="stable").tolist()
    made = {}
    for place, row in enumerate(order):
        _, resource, duration, release, priority, *others = rows[row].tolist()
        after = {order[other % 14] for other in others if other % 14 < place}
        made[row] = Given(
            resource % 4,
            shortest + duration % (6 - shortest),
            tuple(sorted(after)),
            release % 7,
            priority % 3 - 1,
        )
    return [made[row] for row in range(count)]


def run(given_tasks: list[Given]) -> Timeline:
    engine = Engine(Resource(f"r{row}", of is None) for row, of in enumerate(CAPACITIES))
    for t in given_tasks:
        engine.add(t.resource, t.duration, after=t.after, release_ns=t.release, priority=t.priority)
    engine.run()
    return engine.timeline()


@given(tasks())
def test_all_work_is_done_and_no_more(work: list[Given]) -> None:
    """Busy time per resource is the work given to it; busy and idle add up to what it offers."""
    timeline = run(work)
    for row, used in enumerate(timeline.usage()):
        assert used.busy_ns == sum(t.duration for t in work if t.resource == row)
        assert used.tasks == sum(t.resource == row for t in work)
        capacity = CAPACITIES[row]
        if capacity is None:
            assert (used.idle_ns, used.utilisation) == (None, None)
        else:
            assert used.idle_ns is not None
            assert used.busy_ns + used.idle_ns == capacity * timeline.makespan_ns
            assert used.idle_ns >= 0
    assert (timeline.end_ns - timeline.start_ns).tolist() == [t.duration for t in work]


@given(tasks())
def test_nothing_starts_before_its_time(work: list[Given]) -> None:
    """Not before the release, not before any dependency's end; ready is exactly the latest."""
    timeline = run(work)
    for row, task in enumerate(work):
        ends = [int(timeline.end_ns[other]) for other in task.after]
        assert timeline.ready_ns[row] == max([task.release, *ends])
        assert timeline.start_ns[row] >= timeline.ready_ns[row]


@given(tasks())
def test_no_resource_above_capacity(work: list[Given]) -> None:
    """At every moment at most `capacity` tasks of some length are on a resource."""
    timeline = run(work)
    for row, capacity in enumerate(CAPACITIES):
        for moment in range(timeline.makespan_ns):
            assert capacity is None or _running(timeline, row, moment) <= capacity


@given(tasks())
def test_no_needless_idling(work: list[Given]) -> None:
    """While a task waits, its resource is full."""
    timeline = run(work)
    for row, task in enumerate(work):
        for moment in range(int(timeline.ready_ns[row]), int(timeline.start_ns[row])):
            capacity = CAPACITIES[task.resource]
            assert capacity is not None
            assert _running(timeline, task.resource, moment) == capacity


@given(tasks())
def test_first_come_first_served(work: list[Given]) -> None:
    """On a resource, what is ready earlier does not start later."""
    timeline = run(work)
    for one in range(len(work)):
        for two in range(len(work)):
            same = work[one].resource == work[two].resource
            if same and timeline.ready_ns[one] < timeline.ready_ns[two]:
                assert timeline.start_ns[one] <= timeline.start_ns[two]


@given(tasks(shortest=1))
def test_same_as_a_simulation_by_the_clock(work: list[Given]) -> None:
    """Starts equal those of a program that looks at every nanosecond: ends first, then queues."""
    starts = by_the_clock(work)
    assert run(work).start_ns.tolist() == starts


@given(tasks())
def test_critical_path_is_a_chain_without_gaps(work: list[Given]) -> None:
    """It starts at its first task's release and ends at the makespan."""
    timeline = run(work)
    path = critical_path(timeline)
    assert timeline.end_ns[path[-1]] == timeline.makespan_ns
    assert timeline.start_ns[path[0]] == work[path[0]].release
    for before, task in pairwise(path):
        assert timeline.end_ns[before] == timeline.start_ns[task]
        same = work[before].resource == work[task].resource
        assert before in work[task].after or same
    assert len(set(path)) == len(path)


@given(tasks())
def test_makespan_is_above_both_bounds(work: list[Given]) -> None:
    """The longest chain of dependencies, and the load of every resource."""
    timeline = run(work)

    def earliest_end(row: int) -> int:
        task = work[row]
        return max([task.release, *map(earliest_end, task.after)]) + task.duration

    assert timeline.makespan_ns >= max(map(earliest_end, range(len(work))))
    for used, capacity in zip(timeline.usage(), CAPACITIES, strict=True):
        assert capacity is None or timeline.makespan_ns * capacity >= used.busy_ns


@given(tasks(), st.integers(0, 14))
def test_running_in_two_goes_changes_nothing(work: list[Given], cut: int) -> None:
    """Tasks whose dependencies have run are placed as if they had been there from the start."""
    whole = run(work)
    # All of the second go must be ready after everything ready in the first.
    late = int(whole.ready_ns[:cut].max(initial=0)) + 10
    work = [
        Given(t.resource, t.duration, t.after, t.release + late * (row >= cut), t.priority)
        for row, t in enumerate(work)
    ]
    if any(other >= cut for t in work[:cut] for other in t.after):
        return
    whole = run(work)
    engine = Engine(Resource(f"r{row}", of is None) for row, of in enumerate(CAPACITIES))
    for row, t in enumerate(work):
        if row == cut:
            engine.run()
        engine.add(t.resource, t.duration, after=t.after, release_ns=t.release, priority=t.priority)
    engine.run()
    assert engine.timeline().start_ns.tolist() == whole.start_ns.tolist()


def _running(timeline: Timeline, resource: int, moment: int) -> int:
    """Return how many tasks occupy a resource from `moment` to the next nanosecond."""
    here = timeline.resource == resource
    during = (timeline.start_ns <= moment) & (moment < timeline.end_ns)
    return int(np.count_nonzero(here & during))


def by_the_clock(work: list[Given]) -> list[int]:
    """Return the starts, found by stepping through time; every task has a length."""
    start: dict[int, int] = {}
    ready: dict[int, int] = {}
    now = 0
    while len(start) < len(work):
        for row, task in enumerate(work):
            free = all(other in start for other in task.after)
            if row not in ready and free and now >= task.release:
                ends = [start[other] + work[other].duration for other in task.after]
                if all(end <= now for end in ends):
                    ready[row] = now
        queue = sorted(set(ready) - set(start), key=lambda r: (ready[r], work[r].priority, r))
        for row in queue:
            resource = work[row].resource
            running = [
                other
                for other in start
                if work[other].resource == resource and start[other] + work[other].duration > now
            ]
            capacity = CAPACITIES[resource]
            if capacity is None or len(running) < capacity:
                start[row] = now
        now += 1
    return [start[row] for row in range(len(work))]
