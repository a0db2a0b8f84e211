"""The study of recourse: what is moved, what it costs and what is known."""

import importlib
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import moeopt
from tests.rooms.relayout import later


@pytest.fixture
def study(root: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the script as a module, with few futures and two later windows."""
    monkeypatch.syspath_prepend(root / "benchmarks" / "studies")
    module = importlib.import_module("recourse_windows")
    monkeypatch.setattr(module, "SAMPLES", 4)
    monkeypatch.setattr(module, "LATER", 2)
    monkeypatch.setattr(later, "KICKS", 0)
    return module


@pytest.fixture
def windows(study: ModuleType) -> Any:
    """Return a layer whose loads all change after the windows observed, and the one before it."""
    rng = np.random.default_rng(3)
    scores = rng.normal(scale=1.2, size=(2, 64))
    tokens = 10 * study.BATCH
    liking = scores[(np.arange(tokens) >= 8 * study.BATCH).astype(int)]
    taken = [np.argsort(-liking - rng.gumbel(size=(tokens, 64)), axis=1)[:, :6] for _ in range(2)]
    return study.Windows(study.Cell(study.ESFT, "made", 1, 0), np.stack(taken, axis=1))


@pytest.mark.slow
def test_moves_are_counted_charged_and_only_made_where_allowed(
    study: ModuleType, windows: Any
) -> None:
    """Four moves are hidden, each one more takes 157.5 us; a policy keeps to its number."""
    start = windows.decided("lpt")
    spans = {}
    for moves in (0, 2, 6):
        found = list(study.run(windows, start, [10**6] * 2, study.Policy("loads", moves)))
        assert all(m.moves <= moves and m.prefetches <= 2 for m in found)
        for m in found:
            assert m.delay_ns == max(0, m.moves * 157_500 - 680_000)
            assert m.excess == pytest.approx((m.makespan_ns + m.delay_ns) / 10**6 - 1)
        spans[moves] = found[0].makespan_ns
    none = next(study.run(windows, start, [10**6] * 2, study.NOTHING))
    assert (none.moves, none.prefetches, none.delay_ns) == (0, 0, 0)
    assert spans[6] < spans[2] < none.makespan_ns
    before = moeopt.solve(windows.layout(0, 8), "lpt").solution
    kept = [study.STRIPED if dimm is None else dimm for dimm in before.dimm]
    assert start.dimm.tolist() == kept  # a policy leaves what it started from as it was


@pytest.mark.slow
def test_a_forecast_knows_nothing_of_the_window_itself(study: ModuleType, windows: Any) -> None:
    """Other later loads, the same migrations; with the loads known they are others."""
    start = windows.decided("lpt")
    routes = windows.routes.copy()
    routes[8 * study.BATCH :, 1] = (routes[8 * study.BATCH :, 1] + 1) % 64
    other = study.Windows(windows.cell, routes)
    for known, same in (("forecast", True), ("routes", True), ("loads", False)):
        plans = []
        for of in (windows, other):
            state = study.State(start.resident.copy(), start.dimm.copy())
            after, fetched = study.replanned(of, state, study.Policy(known, 2), 8)
            plans.append((after.waiting, fetched, after.resident.tolist()))
        assert (plans[0] == plans[1]) == same
        assert plans[0][2].count(True) + len(plans[0][1]) <= study.SLOTS


@pytest.mark.slow
def test_moves_of_a_rarer_decision_are_spread_over_the_windows(
    study: ModuleType, windows: Any
) -> None:
    """What is decided for two windows waits until it is hidden; nothing is decided in between."""
    start = windows.decided("lpt")
    found = list(study.run(windows, start, [10**6] * 2, study.Policy("loads", None, 2)))
    assert found[0].moves == study.HIDDEN
    assert all(m.delay_ns == 0 for m in found)
    assert found[1].prefetches == 0
