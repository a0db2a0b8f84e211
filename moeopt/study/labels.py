"""What a solve is called in tables: its method, and whatever else tells it from the others."""

from collections.abc import Sequence

from moeopt.study.plan import Key
from moeopt.study.rows import Row

TOLD = ("time_limit_s", "workers", "options", "version")
"""The parts of a key that tables mention where they differ; seeds belong together."""


def differing(rows: Sequence[Row]) -> list[str]:
    """Return the parts of the key, besides instance, method and seed, that rows differ in."""
    return [name for name in TOLD if len({getattr(row.key, name) for row in rows}) > 1]


def labels(rows: Sequence[Row]) -> list[str]:
    """Return each row's method, with the time limit and so on where the rows differ in it.

    The time limit is left out for methods that had one only and never needed all of it.
    """
    told = differing(rows)
    limits: dict[str, set[float]] = {}
    for row in rows:
        limits.setdefault(row.key.method, set()).add(row.key.time_limit_s)
    limited = {row.key.method for row in rows if row.result.termination == "time_limit"}
    limited |= {method for method, of in limits.items() if len(of) > 1}
    free = [name for name in told if name != "time_limit_s"]
    return [
        " ".join([row.key.method, *_words(row.key, told if row.key.method in limited else free)])
        for row in rows
    ]


def _words(key: Key, told: Sequence[str]) -> list[str]:
    words = {
        "time_limit_s": f"{key.time_limit_s:g} s",
        "workers": f"{key.workers} workers",
        "options": key.options if key.options != "{}" else "",
        "version": key.version,
    }
    return [words[name] for name in told if words[name]]
