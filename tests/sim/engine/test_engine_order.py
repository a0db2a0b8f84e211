"""The order of events at equal times, bundles, and what the engine refuses."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moeopt import InputError
from tests.rooms.sim import Engine, Resource


def engine_of(*names: str) -> Engine:
    return Engine(Resource(name) for name in names)


def order_on(engine: Engine, resource: str) -> list[int]:
    """Return the tasks of a resource in the order in which they ran."""
    engine.run()
    timeline = engine.timeline()
    here = np.flatnonzero(timeline.resource == engine.index(resource))
    return [int(task) for task in here[timeline.start_ns[here].argsort(kind="stable")]]


def test_an_end_counts_before_a_start() -> None:
    """What an end at t makes ready competes with what is released at t, by priority."""
    engine = engine_of("a", "b")
    engine.add("a", 5)
    engine.add("b", 1, release_ns=5, priority=1)
    engine.add("b", 1, after=[0], priority=0)
    assert order_on(engine, "b") == [2, 1]


def test_equal_priorities_go_by_creation() -> None:
    """Whatever order they became known in."""
    engine = engine_of("a", "b", "c")
    engine.add("a", 1, after=[3])
    engine.add("a", 1, after=[4])
    engine.add("a", 1, release_ns=2)
    engine.add("b", 2)
    engine.add("c", 2)
    assert order_on(engine, "a") == [0, 1, 2]


def test_priority_does_not_overtake_an_earlier_ready_time() -> None:
    """Queues are first come, first served; priority decides ties only."""
    engine = engine_of("a")
    engine.add("a", 10)
    engine.add("a", 1, release_ns=4, priority=-9)
    engine.add("a", 1, release_ns=3, priority=9)
    assert order_on(engine, "a") == [0, 2, 1]


def test_zero_length_tasks_make_further_rounds() -> None:
    """What a task without length makes ready comes after all that was ready in that instant."""
    engine = engine_of("a", "b")
    engine.add("a", 0)
    engine.add("b", 1, after=[0], priority=-5)
    engine.add("b", 1, priority=5)
    assert order_on(engine, "b") == [2, 1]


def test_no_limit_is_a_pure_delay() -> None:
    """Everything starts when it is ready."""
    engine = Engine([Resource("a", delay=True)])
    for release in (0, 0, 2):
        engine.add("a", 7, release_ns=release)
    engine.run()
    assert engine.timeline().end_ns.tolist() == [7, 7, 9]


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 6)), min_size=1, max_size=12),
    st.integers(0, 4),
    st.integers(-1, 1),
)
def test_a_bundle_is_its_tasks_one_by_one(
    rows: list[tuple[int, int]], release: int, priority: int
) -> None:
    """Same starts, also among other tasks before, between and after it."""
    resources = [Resource("a"), Resource("b"), Resource("c"), Resource("d", delay=True)]
    bulk, single = Engine(resources), Engine(resources)
    for engine in (bulk, single):
        engine.add("a", 3)
        engine.add("b", 2, release_ns=release)
    which, lengths = (np.array(column) for column in zip(*rows, strict=True))
    options = {"release_ns": release, "priority": priority, "after": [0]}
    joined = [bulk.add_many(which, lengths, number=np.arange(len(rows)), **options)]
    alone = [
        single.add(r, n, number=row, **options)  # type: ignore[arg-type]
        for row, (r, n) in enumerate(rows)
    ]
    for engine, handles in ((bulk, joined), (single, alone)):
        engine.add("a", 1, release_ns=release)
        engine.add("b", 1, after=handles)
        engine.run()
    one, other = bulk.timeline(), single.timeline()
    for column in ("resource", "ready_ns", "start_ns", "end_ns"):
        assert getattr(one, column).tolist() == getattr(other, column).tolist()
    assert [one.name(t) for t in range(len(rows) + 4)] == [
        other.name(t) for t in range(len(rows) + 4)
    ]


def test_a_circle_is_named() -> None:
    """And only the circle, not what hangs on it."""
    engine = engine_of("a")
    engine.add("a", 1, after=[1], kind="tail")
    engine.add("a", 1, after=[2, 3], kind="x")
    engine.add("a", 1, after=[1], kind="y")
    engine.add("a", 1, kind="free")
    with pytest.raises(InputError, match=r"circle: 1 \(x\) after 2 \(y\) after 1 \(x\)$"):
        engine.run()


def test_bad_input_is_one_clear_line() -> None:
    """Unknown resource, unknown task, negative times, twins, empty bundle."""
    engine = engine_of("a")
    empty = np.array([], dtype=np.int64)
    with pytest.raises(InputError, match="resource: 'b' is unknown; known resources: a"):
        engine.add("b", 1)
    with pytest.raises(InputError, match="resource: 1 is unknown; there are 1"):
        engine.add(1, 1)
    with pytest.raises(InputError, match="resource: -1 is unknown"):
        engine.add_many(np.array([0, -1]), np.array([1, 1]))
    with pytest.raises(InputError, match="duration_ns: must not be negative, not -1"):
        engine.add("a", -1)
    with pytest.raises(InputError, match="duration_ns: must not be negative, not -2"):
        engine.add_many("a", np.array([1, -2]))
    with pytest.raises(InputError, match="release_ns: must not be negative, not -3"):
        engine.add("a", 1, release_ns=-3)
    with pytest.raises(InputError, match="at least one task"):
        engine.add_many("a", empty)
    with pytest.raises(InputError, match="two are called 'a'"):
        engine_of("a", "a")
    engine.add("a", 1, after=[7])
    with pytest.raises(InputError, match=r"task 0 \(work\): after: there is no task 7"):
        engine.run()


def test_time_does_not_run_backwards() -> None:
    """A task added too late for its place in the queue is refused, not squeezed in."""
    engine = Engine([Resource("a")])
    engine.add("a", 1, release_ns=5)
    engine.run()
    engine.add("a", 1, release_ns=4)
    with pytest.raises(InputError, match="a: a task ready at 4 ns was added after one ready at 5"):
        engine.run()


def test_nothing_to_do() -> None:
    """No tasks: makespan 0, nobody busy."""
    engine = engine_of("a")
    engine.run()
    timeline = engine.timeline()
    assert timeline.makespan_ns == 0
    [used] = timeline.usage()
    assert (used.tasks, used.busy_ns, used.idle_ns, used.utilisation) == (0, 0, 0, 0.0)
