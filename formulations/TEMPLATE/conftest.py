"""The miniature problem is registered for its own tests; a copy of it is in the registry."""

import pytest

from formulations.TEMPLATE.problem import PROBLEM
from moeopt.problems.registry import PROBLEMS


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PROBLEMS, "TEMPLATE", PROBLEM)
