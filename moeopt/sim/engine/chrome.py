"""Timelines in the Trace Event Format, which Chrome (about:tracing) and Perfetto show."""

import json
from collections.abc import Iterator
from heapq import heapify, heapreplace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from moeopt.core.errors import InputError
from moeopt.core.json_files import write_bytes
from moeopt.sim.engine.timeline import Timeline

PROCESS = 1
NS_PER_US = 1000


def chrome_events(timeline: Timeline, title: str) -> Iterator[dict[str, object]]:
    """Yield the events: names of the tracks first, then one complete event per task, by start.

    Each resource is a track; one that holds several tasks at a time has as many as it needs, since
    events of one track must not overlap. Times are microseconds.
    """
    lanes, track_of = _tracks(timeline)
    yield _named("process_name", 0, {"name": title})
    for track, name in enumerate(lanes, start=1):
        yield _named("thread_name", track, {"name": name})
        yield _named("thread_sort_index", track, {"sort_index": track})
    for task in np.lexsort((np.arange(len(track_of)), timeline.start_ns)).tolist():
        bundle = timeline.bundles[int(timeline.bundle[task])]
        start, end = int(timeline.start_ns[task]), int(timeline.end_ns[task])
        yield {
            "name": timeline.name(task),
            "cat": bundle.kind,
            "ph": "X",
            "ts": start / NS_PER_US,
            "dur": (end - start) / NS_PER_US,
            "pid": PROCESS,
            "tid": int(track_of[task]),
            "args": {"where": bundle.label, "task": task},
        }


def save_chrome(timeline: Timeline, path: str | Path, title: str = "moeopt") -> None:
    """Write a timeline as a JSON file to load in Perfetto, whole or not at all.

    Raises
    ------
    InputError
        If the file cannot be written.
    """
    path = Path(path)
    lines = ",\n".join(json.dumps(event) for event in chrome_events(timeline, title))
    text = f'{{"displayTimeUnit": "ns", "traceEvents": [\n{lines}\n]}}\n'
    try:
        write_bytes(text.encode(), path)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from None


def _named(what: str, track: int, args: dict[str, object]) -> dict[str, object]:
    return {"name": what, "ph": "M", "pid": PROCESS, "tid": track, "args": args}


def _tracks(timeline: Timeline) -> tuple[list[str], list[int]]:
    """Return the tracks' names, and each task's track, counted from 1."""
    names: list[str] = []
    track = np.zeros(len(timeline.start_ns), dtype=np.int64)
    for row, resource in enumerate(timeline.resources):
        mine = np.flatnonzero(timeline.resource == row)
        first = len(names) + 1
        if resource.capacity == 1:
            names.append(resource.name)
            track[mine] = first
            continue
        lane = _lanes(timeline, mine)
        count = max(lane, default=0) + 1
        names += [resource.name] + [f"{resource.name} ({n})" for n in range(2, count + 1)]
        track[mine] = first + np.array(lane, dtype=np.int64)
    return names, track.tolist()


def _lanes(timeline: Timeline, tasks: NDArray[np.int64]) -> list[int]:
    """Return a lane per task so that no two on a lane overlap, with as few lanes as possible."""
    lane: dict[int, int] = {}
    free: list[tuple[int, int]] = []  # (end, lane) of the lanes in use
    for task in tasks[timeline.start_ns[tasks].argsort(kind="stable")].tolist():
        start, end = int(timeline.start_ns[task]), int(timeline.end_ns[task])
        if free and free[0][0] <= start:
            lane[task] = free[0][1]
            heapreplace(free, (end, lane[task]))
        else:
            lane[task] = len(free)
            free.append((end, lane[task]))
            heapify(free)
    return [lane[task] for task in tasks.tolist()]
