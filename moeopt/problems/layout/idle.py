"""Ties between layouts: where experts lie that have no tokens in any scenario.

Such an expert changes no makespan, so that every layout of it is as good here. An expert that is
idle in one window has few tokens in the next ones: there it is cheap on NDP, while a striped read
would keep all DIMMs busy. So the exact methods localize it.
"""

import numpy as np

from .instance import Instance, Solution
from .paths import Path


def with_idle_localized(instance: Instance, solution: Solution) -> Solution:
    """Return a solution in which idle experts are localized as far as there are slots (LA-C4).

    Schedules and objective stay as they are. Each idle expert, by number, goes to the DIMM whose
    experts have the least NDP time in all scenarios together, and counts there as the shortest.
    Residents stay as they are, and so does everything where several copies are permitted: there a
    place takes bytes from copies (LA-C11).
    """
    times = instance.path_times
    idle = np.flatnonzero(~times.active.any(axis=0)).tolist()
    if not idle or instance.copies is not None or not times.active.any():
        return solution
    work = times.weight.astype(np.float64) @ times.cost[Path.NDP]
    shortest = max(1.0, float(np.delete(work, idle).min()))
    dimm, busy = list(solution.dimm), np.zeros(instance.dimms)
    slots = len(dimm) if instance.dimm_slots is None else instance.dimm_slots
    free = np.full(instance.dimms, slots, dtype=np.int64)
    for row, at in enumerate(dimm):
        if at is not None:
            busy[at] += work[row]
            free[at] -= 1
    for row in idle:
        if dimm[row] is None and not solution.resident[row]:
            least = int(np.where(free > 0, busy, np.inf).argmin())
            if free[least] <= 0:
                break
            dimm[row] = least
            busy[least] += shortest
            free[least] -= 1
    return solution.model_copy(update={"dimm": tuple(dimm)})
