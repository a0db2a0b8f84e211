"""What the tests of layouts share."""

import pytest


@pytest.fixture(autouse=True)
def short_annealing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let bound and pack anneal for a moment only: on tiny instances that is where time goes."""
    for moves in ("FIRST_MOVES", "MOVES"):
        monkeypatch.setattr(f"moeopt.problems.layout.multi_scenario.incumbents.{moves}", 200)
