"""Where the measurements were made."""

import os
import platform
from importlib.metadata import version
from pathlib import Path

PACKAGES = ("moeopt", "ortools", "scipy", "pulp", "numpy")


def machine() -> dict[str, str | int | float]:
    """Return processor, cores, memory, operating system and Python version."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count() or 1,
        "memory_gib": round(memory / 2**30, 1),
        "os": platform.platform(),
        "python": platform.python_version(),
    }


def versions() -> dict[str, str]:
    """Return the versions of the packages that take part."""
    return {package: version(package) for package in PACKAGES}


def use_one_core() -> None:
    """Keep this process, and what it starts, on one core, where the system can do that.

    HiGHS has no setting for its threads in scipy; it counts the cores it may use.
    """
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def _cpu_model() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    models = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.processor() or platform.machine())
