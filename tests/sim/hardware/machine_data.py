"""Changes of a machine's JSON data by path, whether the outcome is a machine or not."""

from typing import Any


def put(data: dict[str, Any], path: str, value: Any) -> None:
    """Put a value where a full path leads, e.g. ``devices.numa0.cpu.cores``; None takes it out."""
    *parents, last = path.split(".")
    at: Any = data
    for name in parents:
        if name == "devices" or name == "links":
            rows = at[name]
            at = {
                device["id"] if name == "devices" else "-".join(device["ends"]): device
                for device in rows
            }
        elif name in ("gpu", "cpu", "ndp"):
            at = next(one for one in at["computes"] if one["kind"] == name)
        else:
            at = at[name]
    if value is None:
        at.pop(last)
    else:
        at[last] = value
