"""Small random tri_domain instances of every kind that the tests tell apart, and their optima."""

import random

import numpy as np

from tests.rooms.tri_domain import Instance

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


SCHEMA_2_KINDS = ("channels", "shares", "base load", "two parts", "everything")

KIND_OF_RULE = {"TD-C6": "channels", "TD-C7": "two parts"}
"""For the rules that say nothing of other instances: kinds of schema 2."""


def random_instance_for(rule: str, seed: int) -> Instance:
    """Return a random instance of a kind that a rule says something of."""
    kind = KIND_OF_RULE.get(rule)
    return random_schema_2(seed, kind) if kind else random_instance(seed)


def random_schema_2(seed: int, kind: str = "everything") -> Instance:
    """Return a random instance with fields of schema 2; some fields of "everything" are absent."""
    rng = random.Random(f"schema 2 {kind}{seed}")
    base = random_instance(seed, rng.choice(["mixed", "heavy contention", "all localized"]))

    def has(field: str) -> bool:
        return kind == field or (kind == "everything" and rng.random() < 0.7)

    more: dict[str, object] = {"schema_version": 2}
    if has("channels"):
        more["channels"] = [rng.choice([9, 4, 0][: base.dimms]) for _ in range(base.dimms)]
    if has("shares") or (kind == "channels" and rng.random() < 0.7):
        more["dimm_share"] = rng.choice([(1, 2), (1, 3), (2, 3), (1, 1)])
    if has("base load"):
        more["gpu_base_ns"] = rng.randint(0, 2 * max(e.gpu_ns for e in base.experts))
    rows = [e.model_dump() for e in base.experts]
    if has("two parts"):
        for row in rows:
            row["gpu_calc_ns"] = rng.randint(0, row["gpu_ns"])
            row["pcie_ns"] = 0 if row["resident"] else rng.randint(0, row["gpu_ns"])
    name = f"{kind}-{seed}"
    return Instance.model_validate(base.model_dump() | more | {"experts": rows, "name": name})


def least_makespan(instance: Instance) -> int:
    """Return the optimum by enumerating the load vectors of all schedules.

    Independent of the package's oracle, and fast enough for hundreds of instances of 9 experts. A
    vector holds GPU, CPU, PCIe, what all DIMMs and all channels have in common, then each DIMM's
    own, then the own reads of each DIMM, which its channel serves.
    """
    dimms, first = instance.dimms, instance.experts[0]
    part, whole = instance.dimm_share or (1, 1)
    loads = np.zeros((1, 5 + 2 * dimms), dtype=np.int64)
    loads[:, 0] = instance.gpu_base_ns or 0
    for expert in instance.experts:
        grown = []
        for e in (expert, *(expert.copies or ())):
            common = e.dimm is None
            place = (3, 4) if common else (5 + e.dimm, 5 + dimms + e.dimm)
            calc, pcie = e.gpu_ns, 0
            if first.gpu_calc_ns is not None:
                calc, pcie = e.gpu_calc_ns, e.pcie_ns
            ways = [((0, calc), (2, pcie), e.gpu_dram_ns), ((1, e.cpu_ns), (2, 0), e.cpu_dram_ns)]
            for host, link, read in ways:
                after = loads.copy()
                busy = (host, link, (place[0], -(-read * part // whole) if common else read))
                for device, time in (*busy, (place[1], read)):
                    after[:, device] += time
                grown.append(after)
            if e.dimm is not None:
                after = loads.copy()
                after[:, place[0]] += e.ndp_ns
                grown.append(after)
        loads = np.concatenate(grown)
    devices = [loads[:, :3].max(axis=1), loads[:, 3] + loads[:, 5 : 5 + dimms].max(axis=1)]
    of = np.array(instance.channels or ())
    for channel in set(of.tolist()):
        devices.append(loads[:, 4] + loads[:, 5 + dimms :][:, of == channel].sum(axis=1))
    return int(np.maximum.reduce(devices).min())


def with_copies(base: Instance, seed: int, *, dual: bool = False) -> Instance:
    """Return an instance with further copies of experts, whose costs differ from copy to copy.

    With `dual`, only striped experts have one.
    """
    rng = random.Random(f"copies {base.name} {seed}")
    rows = [e.model_dump() for e in base.experts]
    for row in rows:
        free = [dimm for dimm in range(base.dimms) if dimm != row["dimm"]]
        rng.shuffle(free)
        some = rng.choice([0, 1, 1, 2])
        if dual:
            some = int(row["dimm"] is None and rng.random() < 0.8)
        copies = []
        for dimm in free[:some]:
            read = row["cpu_dram_ns"] * rng.choice([1, 2])
            copy = {"dimm": dimm, "cpu_dram_ns": read}
            copy["gpu_dram_ns"] = 0 if row["resident"] else read
            copy["gpu_ns"] = row["gpu_ns"] * rng.choice([1, 1, 2])
            copy["cpu_ns"] = row["cpu_ns"] * rng.choice([1, 2, 3])
            copy["ndp_ns"] = rng.choice([row["gpu_ns"], row["cpu_ns"], row["cpu_ns"] * 2])
            if row.get("gpu_calc_ns") is not None:
                copy["gpu_calc_ns"] = row["gpu_calc_ns"]
                copy["pcie_ns"] = row["pcie_ns"]
            copies.append(copy)
        row["copies"] = copies or None
    more = {"schema_version": 2, "experts": rows, "name": f"{base.name}-copies-{seed}"}
    return Instance.model_validate(base.model_dump() | more)


def dual_copies(seed: int) -> Instance:
    """Return a random instance in which striped experts have a localized copy."""
    return with_copies(random_instance(seed + 4, experts=5), seed, dual=True)


ALSO_COMPILED = (dual_copies,)
"""What makes instances that other kernels are compiled for."""


ATTACKS = ("equal", "zero", "huge", "single", "dominated", "many")
"""What models and oracles may assume without saying so: each kind is made to break it."""


def attack(seed: int) -> Instance:
    """Return a small random instance that has several of `ATTACKS` at once.

    Equal experts; times and reads of 0; times whose sums are near what may be counted; one expert,
    one DIMM; paths that are worse in all, and NDP longer than both reads; a read longer than its
    path; copies, some of them exactly like the first.
    """
    rng = random.Random(f"attack {seed}")
    kinds = {kind for kind in ATTACKS if rng.random() < 0.35}
    count = 1 if "single" in kinds else rng.randint(2, 7 if "many" in kinds else 5)
    dimms = 1 if "single" in kinds else rng.randint(1, 4)
    scale = 2**33 if "huge" in kinds else rng.choice([1, 7, 5000])

    def some(most: int) -> int:
        return 0 if "zero" in kinds and rng.random() < 0.4 else rng.randint(1, most) * scale

    def row() -> dict[str, object]:
        dimm = rng.choice([None, rng.randrange(dimms), rng.randrange(dimms)])
        resident = rng.random() < 0.3
        times = {"gpu_ns": some(40), "cpu_ns": some(40), "ndp_ns": some(40)}
        if "dominated" in kinds:
            times[rng.choice([*times])] = 90 * scale
        read = some(60 if "dominated" in kinds else 15)
        return {
            "tokens": rng.randint(1, 9),
            "resident": resident,
            "dimm": dimm,
            **times,
            "ndp_ns": None if dimm is None else times["ndp_ns"],
            "gpu_dram_ns": 0 if resident else rng.choice([read, some(15)]),
            "cpu_dram_ns": read,
        }

    rows = [row() for _ in range(count)]
    if "equal" in kinds:
        rows = [dict(rng.choice(rows[:2])) for _ in rows]
    for number, of in zip(rng.sample(range(64), count), rows, strict=True):
        of["expert"] = number
    base = Instance(name=f"attack-{seed}", dimms=dimms, experts=rows)
    if seed % 4 == 1:
        base = with_copies(base, seed)
    if seed % 3 == 2:
        more: dict[str, object] = {"schema_version": 2}
        if rng.random() < 0.6:
            more["channels"] = [rng.choice([5, 0]) for _ in range(dimms)]
        if rng.random() < 0.6 and "huge" not in kinds:
            more["dimm_share"] = rng.choice([(1, 2), (1, 3)])
        if rng.random() < 0.6:
            more["gpu_base_ns"] = some(40)
        base = Instance.model_validate(base.model_dump() | more)
    return base
