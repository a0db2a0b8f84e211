"""What the tests of layouts share."""

import pytest


@pytest.fixture(autouse=True)
def short_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let annealing try few moves: on tiny instances that is where time goes."""
    monkeypatch.setattr("moeopt.problems.layout.rounds.PER_EXPERT", 300)
