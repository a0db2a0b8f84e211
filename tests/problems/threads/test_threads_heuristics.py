"""Each heuristic against a schedule computed by hand."""

import pytest

from tests.rooms.threads import (
    Instance,
    Solution,
    dynamic,
    dynamic_round_robin,
    ends_ns,
    lpt,
    static,
    static_all_threads,
)

# Grains 1, 2 and 4; the last expert has no quarters. Pulls take 1, loads 5, 2 and 0.
INSTANCE = Instance(
    name="by hand",
    threads=2,
    pull_ns=1,
    grains=(1, 2, 4),
    experts=[
        {"expert": 0, "load_ns": 5, "part_ns": [40, 20, 10]},
        {"expert": 3, "load_ns": 2, "part_ns": [8, 4, 2]},
        {"expert": 7, "load_ns": 0, "part_ns": [12, 6, None]},
    ],
)


def decided(solution: Solution) -> tuple[object, object, list[int]]:
    """Return grains, threads and ends."""
    return solution.grain, solution.thread, ends_ns(INSTANCE, solution)


def test_static() -> None:
    """Three parts in the order of the file: two on the first thread, one on the second.

    41 + 5 and 9 + 2 on thread 0; 13 on thread 1.
    """
    assert decided(static(INSTANCE)) == ((0, 0, 0), ((0,), (0,), (1,)), [57, 13])


def test_static_all_threads() -> None:
    """Halves of each: 21 + 5, 5 + 2 and 7 on each thread."""
    found = decided(static_all_threads(INSTANCE))
    assert found == ((1, 1, 1), ((0, 1), (0, 1), (0, 1)), [40, 40])


def test_static_all_threads_takes_the_finest_where_threads_are_many() -> None:
    """On five threads: quarters on the first four, halves on the first two."""
    wide = INSTANCE.model_copy(update={"threads": 5})
    found = static_all_threads(wide)
    assert found.grain == (2, 2, 1)
    assert found.thread == ((0, 1, 2, 3), (0, 1, 2, 3), (0, 1))


def test_dynamic() -> None:
    """Quarters in the order of the file, the last expert's halves.

    Expert 0: thread 0 from 0 to 16, 1 to 16, 0 to 27, 1 to 27. Expert 3: 0 to 32, 1 to 32, 0 to
    35, 1 to 35. Expert 7: 0 to 42, 1 to 42.
    """
    found = decided(dynamic(INSTANCE))
    assert found == ((2, 2, 1), ((0, 1, 0, 1), (0, 1, 0, 1), (0, 1)), [42, 42])


def test_dynamic_round_robin() -> None:
    """First parts: expert 0 on thread 0 to 16, 3 on 1 to 5, 7 on 1 to 12.

    Second parts: 0 on 1 to 28, 3 on 0 to 21, 7 on 0 to 28. Third: 0 on 0 to 39, 3 on 1 to 31.
    Fourth: 0 on 1 to 42, 3 on 0 to 42.
    """
    found = decided(dynamic_round_robin(INSTANCE))
    assert found == ((2, 2, 1), ((0, 1, 0, 1), (1, 0, 1, 0), (1, 0)), [42, 42])


def test_lpt() -> None:
    """Whole: 46 against 13 + 11. Halves: 26 and 26, 33 and 33, then 38 or 40: expert 3 last.

    Order of halves: expert 0 (21), 7 (7), 3 (5): 26, 26; 33, 33; 40 and then 40. Quarters: expert
    0 (11) 16, 16, 27, 27; 7 in halves (7) 34, 34; 3 (3) 39, and 42 on the same thread as it ends
    there no later than a load would on the other at 39: the second goes to thread 1, 39; 42, 42.
    """
    found = decided(lpt(INSTANCE))
    assert found == ((1, 1, 1), ((0, 1), (0, 1), (0, 1)), [40, 40])


def test_lpt_keeps_an_expert_where_its_input_is() -> None:
    """Whole experts end at 50 and 30; then two parts of 3, whose load takes 25.

    Both end first on the second thread, at 58 and 61; the first would take 78. By the queue the
    second part goes to the first thread, which is free at 50.
    """
    parts: list[tuple[int, list[int | None]]] = [(0, [50, None]), (0, [30, None]), (25, [None, 3])]
    rows = [{"expert": e, "load_ns": load, "part_ns": of} for e, (load, of) in enumerate(parts)]
    instance = Instance(name="kept", threads=2, pull_ns=0, grains=(1, 2), experts=rows)
    assert lpt(instance).thread == ((0,), (1,), (1, 1))
    assert dynamic(instance).thread == ((0,), (1,), (1, 0))
    assert (lpt(instance).grain, ends_ns(instance, lpt(instance))) == ((0, 0, 1), [50, 61])


@pytest.mark.parametrize(("parts", "blocks"), [(5, [3, 2]), (4, [2, 2]), (1, [1, 0])])
def test_static_blocks(parts: int, blocks: list[int]) -> None:
    """The first threads have one part more."""
    instance = Instance(
        name="blocks",
        threads=2,
        pull_ns=0,
        grains=(parts,),
        experts=[{"expert": 0, "load_ns": 0, "part_ns": [1]}],
    )
    assert ends_ns(instance, static(instance)) == blocks
    assert ends_ns(instance, static_all_threads(instance)) == blocks
