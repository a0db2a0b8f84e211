"""A second checker, by arrays, written from `formulations/tri_domain/spec.md` alone.

It shares nothing with the package but the fields of instances and solutions. The optimum of tiny
instances by arrays is `least_makespan` in `random_instances`.
"""

import numpy as np

from tests.rooms.tri_domain import Instance, Solution

FIELDS = ("gpu_ns", "cpu_ns", "ndp_ns", "gpu_dram_ns", "cpu_dram_ns", "gpu_calc_ns", "pcie_ns")


def judged(instance: Instance, solution: Solution) -> int | None:
    """Return the makespan of a solution, None if it breaks a rule."""
    experts = len(instance.experts)
    source = solution.source if solution.source is not None else (None,) * experts
    if len(solution.assignment) != experts or len(source) != experts:
        return None
    lies = []
    for of, dimm in zip(instance.experts, source, strict=True):
        found = [of] if dimm is None else [c for c in of.copies or () if c.dimm == dimm]
        if not found:
            return None
        lies.append(found[0])
    domain = np.array([("gpu", "cpu", "ndp", None).index(of) for of in solution.assignment])
    dimm = np.array([-1 if of.dimm is None else of.dimm for of in lies])
    if (domain == 3).any() or ((domain == 2) & (dimm < 0)).any():
        return None
    t = {name: np.array([getattr(of, name) or 0 for of in lies]) for name in FIELDS}
    whole = instance.experts[0].gpu_calc_ns is None
    work = t["gpu_ns"] if whole else t["gpu_calc_ns"]
    part, full = instance.dimm_share or (1, 1)
    read = np.where(domain == 0, t["gpu_dram_ns"], t["cpu_dram_ns"]) * (domain < 2)
    striped = dimm < 0
    common = int((-(-read * part // full) * striped).sum())
    own = read + t["ndp_ns"] * (domain == 2)
    devices = [
        int((work * (domain == 0)).sum()) + (instance.gpu_base_ns or 0),
        int((t["cpu_ns"] * (domain == 1)).sum()),
        *[common + int(own[dimm == d].sum()) for d in range(instance.dimms)],
    ]
    if not whole:
        devices.append(int((t["pcie_ns"] * (domain == 0)).sum()))
    channel = np.array([*(instance.channels or ()), -1])  # the last for what is striped
    for number in set(instance.channels or ()):
        devices.append(int(read[striped | (channel[dimm] == number)].sum()))
    return max(devices)
