"""What the tests of layouts share."""

import pytest


@pytest.fixture(autouse=True)
def short_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let bound and pack look at few moves: on tiny instances that is where time goes."""
    monkeypatch.setattr("moeopt.problems.layout.multi_scenario.EVALUATIONS", 20_000)
