"""Reports whose figures are left out, for tests of their words and tables."""

import pytest
from markupsafe import Markup

from tests.rooms.study import sections


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw no figures of reports: they take most of a report's time, and other tests see them."""
    monkeypatch.setattr(sections, "inline", lambda *_: Markup("<svg></svg>"))
