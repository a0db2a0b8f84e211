"""Traces for Perfetto and text reports."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from moeopt import InputError
from tests.rooms.sim import Engine, Resource, Timeline, critical_path, save_chrome
from tests.rooms.systems import path_by_kind, simulate_loads, summary, usage_table
from tests.rooms.systems import policy_widths_of as widths_of
from tests.sim.engine.decode_cases import DIMMS, random_costs, random_loads, random_plan


def saved(timeline: Timeline, tmp_path: Path, title: str = "moeopt") -> list[dict[str, Any]]:
    save_chrome(timeline, tmp_path / "trace.json", title)
    data = json.loads((tmp_path / "trace.json").read_text(encoding="utf-8"))
    assert set(data) == {"displayTimeUnit", "traceEvents"}
    events: list[dict[str, Any]] = data["traceEvents"]
    return events


def test_every_task_is_an_event(tmp_path: Path) -> None:
    """Complete events by rising start, on named tracks, in which nothing overlaps."""
    for seed in range(12):
        rng = random.Random(seed)
        plan = random_plan(rng)
        costs = random_costs(rng, max(1, len(widths_of(plan))))
        timeline = simulate_loads(plan, costs, random_loads(rng), DIMMS, timeline=True).timeline
        assert timeline is not None
        events = saved(timeline, tmp_path)
        work = [event for event in events if event["ph"] == "X"]
        assert events[: len(events) - len(work)] == [e for e in events if e["ph"] == "M"]
        assert sorted(e["args"]["task"] for e in work) == list(range(len(timeline.end_ns)))
        assert [e["ts"] for e in work] == sorted(e["ts"] for e in work)
        names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
        assert len(set(names.values())) == len(names)
        free = dict.fromkeys(names, 0.0)
        for event in work:
            task = event["args"]["task"]
            assert event["ts"] == timeline.start_ns[task] / 1000
            assert event["dur"] == (timeline.end_ns[task] - timeline.start_ns[task]) / 1000
            resource = timeline.resources[timeline.resource[task]].name
            assert names[event["tid"]].startswith(resource)
            assert event["ts"] >= free[event["tid"]] - 1e-9
            free[event["tid"]] = event["ts"] + event["dur"]


def test_names_are_escaped(tmp_path: Path) -> None:
    """Quotes, backslashes, line breaks and angle brackets survive as text."""
    nasty = 'a"\\\n</script>\u2028é'
    engine = Engine([Resource(nasty)])
    engine.add(nasty, 5, kind=nasty, label=nasty, number=3)
    engine.run()
    events = saved(engine.timeline(), tmp_path, nasty)
    assert events[0] == {
        "name": "process_name",
        "ph": "M",
        "pid": 1,
        "tid": 0,
        "args": {"name": nasty},
    }
    assert events[-1]["name"] == f"{nasty} 3"
    assert events[-1]["args"]["where"] == nasty
    assert "\u2028" not in (tmp_path / "trace.json").read_text(encoding="utf-8")


def test_tasks_side_by_side_get_tracks_of_their_own(tmp_path: Path) -> None:
    """On a pure delay; what is on a device has one track."""
    engine = Engine([Resource("a"), Resource("b", delay=True)])
    for release in (0, 0, 4, 5):
        engine.add("a", 4, release_ns=release)
        engine.add("b", 5, release_ns=release)
    engine.run()
    events = saved(engine.timeline(), tmp_path)
    names = [e["args"]["name"] for e in events if e["name"] == "thread_name"]
    assert names == ["a", "b", "b (2)", "b (3)"]


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    """One clear line."""
    engine = Engine([Resource("a")])
    with pytest.raises(InputError, match=r"nowhere/t\.json: cannot be written: No such file"):
        save_chrome(engine.timeline(), tmp_path / "nowhere" / "t.json")


def test_texts_hold_the_figures() -> None:
    """Busy and idle time, rate, experts; the critical path adds up to the makespan."""
    rng = random.Random(4)
    plan = random_plan(rng)
    costs = random_costs(rng, max(1, len(widths_of(plan))))
    found = simulate_loads(plan, costs, random_loads(rng), DIMMS, timeline=True)
    table = usage_table(found.usage).splitlines()
    assert len(table) == len(found.usage) + 1
    text = summary(found)
    assert f"{found.tokens_per_s:,.1f} tokens/s" in text
    assert f"gpu {found.experts_run['gpu']}" in text
    assert text.endswith("\n".join(table))
    assert found.timeline is not None
    path = path_by_kind(found.timeline)
    assert sum(path.values()) == found.makespan_ns
    assert list(path.values()) == sorted(path.values(), reverse=True)
    assert critical_path(Engine([Resource("a")]).timeline()) == []
