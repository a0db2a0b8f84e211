"""Is anyone else using this machine? Linux only; elsewhere nobody knows."""

import os
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

Result = TypeVar("Result")

STAT = Path("/proc/stat")

QUIET = 0.05
"""Share of all CPU time that others may take in a run that counts as undisturbed."""

LOOK_S = 2.0


def undisturbed(
    run: Callable[[], Result], patience_s: float, attempts: int
) -> tuple[Result, float | None]:
    """Run when the machine is quiet, and again if it was not.

    Parameters
    ----------
    run
        Starts a program and waits for it; all it does is done by child processes.
    patience_s
        How long to wait for a quiet moment before each attempt.
    attempts
        How often to run at most; the least disturbed one counts.

    Returns
    -------
    What `run` returned, and the share of the machine's CPU time that others took meanwhile, of
    virtual CPUs also what the host withheld; None where that cannot be read.
    """
    found: list[tuple[Result, float | None]] = []
    for _ in range(attempts):
        wait(patience_s)
        found.append(watched(run))
        if found[-1][1] is None or found[-1][1] <= QUIET:
            break
    return min(found, key=lambda each: each[1] or 0.0)


def wait(patience_s: float) -> None:
    """Return when the machine is quiet, or after so many seconds."""
    end = time.monotonic() + patience_s
    while time.monotonic() < end:
        others = watched(lambda: time.sleep(LOOK_S))[1]
        if others is None or others <= QUIET:
            return


def watched(run: Callable[[], Result]) -> tuple[Result, float | None]:
    """Run, and return also the share of CPU time that was not that of child processes."""
    before_s, start, own = busy_s(), time.monotonic(), _children_s()
    result = run()
    after_s, taken = busy_s(), time.monotonic() - start
    if before_s is None or after_s is None:
        return result, None
    others_s = after_s - before_s - (_children_s() - own)
    return result, round(max(others_s, 0.0) / taken / (os.cpu_count() or 1), 4)


def busy_s(stat: Path = STAT) -> float | None:
    """Return the CPU time that was not idle since the machine started, of all CPUs together."""
    if not stat.exists():
        return None
    user, nice, system, _, _, irq, softirq, steal = map(int, stat.read_text().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
