"""Small random tri_domain instances of every kind that the tests tell apart, and their optima."""

import random

import numpy as np

from moeopt.problems.tri_domain.instance import Instance

KINDS = (
    "mixed",
    "no contention",
    "heavy contention",
    "all resident",
    "all localized",
    "one expert",
    "huge numbers",
)


def random_instance(seed: int, kind: str = "mixed", experts: int | None = None) -> Instance:
    """Return a random instance of 2 to 9 experts (few with 9) on 1 to 4 DIMMs."""
    rng = random.Random(f"{kind}{seed}")
    count = experts or (1 if kind == "one expert" else min(rng.randint(2, 9), rng.randint(2, 9)))
    dimms = rng.randint(1, 4)
    scale = 7 * 10**10 if kind == "huge numbers" else rng.choice([1, 1, 5000, 997])
    longest = {"no contention": 0, "heavy contention": 60}.get(kind, 20)
    rows = []
    for number in rng.sample(range(64), count):
        localized = kind == "all localized" or rng.random() < 0.6
        resident = kind == "all resident" or rng.random() < 0.2
        read = rng.randint(0, longest) * scale
        rows.append(
            {
                "expert": number,
                "tokens": rng.randint(1, 40),
                "resident": resident,
                "dimm": rng.randrange(dimms) if localized else None,
                "gpu_ns": rng.randint(1 if resident else 5, 15 if resident else 60) * scale,
                "cpu_ns": rng.randint(3, 50) * scale,
                "ndp_ns": rng.randint(1, 60) * scale if localized else None,
                "gpu_dram_ns": 0 if resident else read,
                "cpu_dram_ns": rng.choice([read, rng.randint(0, longest) * scale]),
            }
        )
    return Instance(name=f"{kind}-{seed}", dimms=dimms, experts=rows)


def least_makespan(instance: Instance) -> int:
    """Return the optimum by enumerating the load vectors of all schedules.

    Independent of the package's oracle, and fast enough for hundreds of instances of 9 experts.
    """
    c = instance.columns
    loads = np.zeros((1, 3 + instance.dimms), dtype=np.int64)
    for row in range(len(instance.experts)):
        dimm = int(c.dimm[row])
        modes = [(0, c.gpu_ns, c.gpu_dram_ns), (1, c.cpu_ns, c.cpu_dram_ns)]
        if dimm >= 0:
            modes.append((2, np.zeros_like(c.ndp_ns), c.ndp_ns))
        grown = []
        for device, host_ns, dram_ns in modes:
            after = loads.copy()
            after[:, device] += host_ns[row]
            after[:, 2 if dimm < 0 else 3 + dimm] += dram_ns[row]
            grown.append(after)
        loads = np.concatenate(grown)
    hosts, dimms = loads[:, :2].max(axis=1), loads[:, 2] + loads[:, 3:].max(axis=1)
    return int(np.maximum(hosts, dimms).min())
