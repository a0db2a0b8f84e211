"""The processor cores that this process may use."""

import os


def available_cores() -> int:
    """Return how many cores this process may use: at least one."""
    if hasattr(os, "sched_getaffinity"):
        return max(len(os.sched_getaffinity(0)), 1)
    return os.cpu_count() or 1
