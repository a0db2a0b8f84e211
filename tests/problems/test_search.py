"""What an exact algorithm reports is kept only where it improves."""

import pytest

from tests.rooms.core import Search


def test_only_improvements_are_kept_and_told() -> None:
    """Incumbents fall, bounds rise; equal ones are no news."""
    told: list[tuple[int | None, int | None]] = []
    search = Search(on_improvement=lambda objective, bound: told.append((objective, bound)))
    for name, objective in (("a", 9), ("b", 9), ("c", 7), ("d", 8)):
        search.offer(name, objective)
    for bound in (3, 2, 3, 5):
        search.prove(bound)
    assert (search.solution, search.objective, search.bound) == ("c", 7, 5)
    assert told == [(9, None), (7, None), (None, 3), (None, 5)]
    assert not search.closed
    search.prove_incumbent()
    assert search.closed


def test_nothing_is_proven_about_nothing() -> None:
    """There is no incumbent to prove optimal."""
    with pytest.raises(ValueError, match="no incumbent"):
        Search().prove_incumbent()


def test_stop_ends_the_time() -> None:
    """Whoever asks for the remaining time hears that there is none."""
    search = Search(limit_s=1e9)
    assert not search.stopped
    search.stop()
    assert (search.stopped, search.remaining_s) == (True, 0.0)
    assert Search(limit_s=0).stopped
