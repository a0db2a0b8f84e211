"""What the tests of layouts share."""

import pytest

from tests.rooms.layout import rounds


@pytest.fixture(autouse=True)
def short_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let annealing try few moves: on tiny instances that is where time goes."""
    monkeypatch.setattr(rounds, "PER_EXPERT", 300)
