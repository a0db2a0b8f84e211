"""The overview of findings.md: a panel for each problem, with the published rules."""

import sys
from pathlib import Path

import pytest

import moeopt
from benchmarks.studies import overview
from tests.problems.deferral.random_schedules import random_instance as random_deferral
from tests.problems.tri_domain.random_instances import random_instance
from tests.rooms.problems import get_problem
from tests.rooms.study import Store


def test_every_problem_has_a_panel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From a store, the same bytes each time."""
    with Store(tmp_path / "s.db") as store:
        moeopt.gap([random_instance(0)], ["trimoe"], store=store)
        moeopt.gap([random_deferral(3)], ["saturate"], store=store)
    for name in ("one.svg", "two.svg"):
        words = ["overview.py", str(tmp_path / "s.db"), "--out", str(tmp_path / name)]
        monkeypatch.setattr(sys, "argv", words)
        overview.main()
    text = (tmp_path / "one.svg").read_text()
    assert text == (tmp_path / "two.svg").read_text()
    for problem in ("tri_domain", "deferral"):
        assert get_problem(problem).title in text
    assert ">trimoe<" in text
