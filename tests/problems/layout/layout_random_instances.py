"""Small random layout instances of every kind that the tests tell apart."""

import random
from collections.abc import Sequence
from itertools import chain, groupby
from typing import Any

from tests.rooms.layout import COSTS, Instance

KINDS = (
    "mixed",
    "hosts bind",
    "dimms bind",
    "dimm slots tight",
    "residents tight",
    "several scenarios",
    "monotone",
    "arbitrary",
    "one dimm",
    "zero costs",
    "idle experts",
    "cheap localized reads",
    "huge numbers",
)

MONOTONE = {"monotone", "dimms bind", "hosts bind", "several scenarios"}
"""Kinds whose costs never fall with tokens, as real ones."""


def random_instance(seed: int, kind: str = "mixed", experts: int | None = None) -> Instance:
    """Return a random instance of 1 to 4 experts with tokens on 1 to 3 DIMMs, 1 to 3 scenarios."""
    rng = random.Random(f"{kind}{seed}")
    count = experts or rng.randint(2, 4)
    scenarios = rng.randint(2, 3) if kind == "several scenarios" else rng.choice([1, 1, 2])
    dimms = 1 if kind == "one dimm" else rng.randint(1, 3)
    scale = 2**42 // 80 if kind == "huge numbers" else rng.choice([1, 1, 5000, 997])
    local_read = rng.randint(0, 20)
    if kind == "cheap localized reads":
        striped_read = rng.randint(local_read + 1, 40)
    else:
        striped_read = rng.randint(0, 12)
    rows = [_scenario(rng, kind, count, scale) for _ in range(scenarios)]
    if not any(any(row["tokens"]) for row in rows):
        rows[0]["tokens"][0] = 1
    return Instance(
        name=f"{kind}-{seed}",
        dimms=dimms,
        hbm_slots=1 if kind == "residents tight" else rng.choice([0, 0, 1, 2, count]),
        dimm_slots=rng.choice([0, 1, 1, 2]) if kind == "dimm slots tight" else None,
        experts=count,
        dram_striped_ns=0 if kind == "zero costs" else striped_read * scale,
        dram_localized_ns=0 if kind == "zero costs" else local_read * scale,
        scenarios=rows,
    )


def several_scenarios(seeds: int, seeds_of_others: int, most: int = 6) -> list[Instance]:
    """Return instances of two or three scenarios, experts x DIMMs at most `most`, kind by kind."""
    seeds_of = dict.fromkeys(KINDS, seeds_of_others) | {"several scenarios": seeds}
    made = [random_instance(seed, kind) for kind in KINDS for seed in range(seeds_of[kind])]
    return [of for of in made if len(of.scenarios) > 1 and of.experts * of.dimms <= most]


def of_every_kind(instances: Sequence[Instance], share: slice) -> list[Instance]:
    """Return a share of each kind of the instances, which stand kind by kind."""
    kinds = groupby(instances, lambda instance: instance.name.rpartition("-")[0])
    return list(chain.from_iterable(list(of)[share] for _, of in kinds))


def _scenario(rng: random.Random, kind: str, count: int, scale: int) -> dict[str, Any]:
    idle = 0.5 if kind == "idle experts" else 0.1
    tokens = [0 if rng.random() < idle else rng.randint(1, 9) for _ in range(count)]
    longest = {"hosts bind": {"ndp_ns": 8}, "dimms bind": {"ndp_ns": 80}}.get(kind, {})
    hosts = {"hosts bind": 70, "dimms bind": 15}.get(kind, 40)
    row: dict[str, Any] = {"tokens": tokens}
    row["weight"] = rng.choice([1, 1, 2, 5]) if kind == "several scenarios" else rng.choice([1, 3])
    for name in COSTS:
        most = longest.get(name, 12 if name == "gpu_hit_ns" else 40 if name == "ndp_ns" else hosts)
        if kind == "zero costs" and rng.random() < 0.5:
            most = 0
        row[name] = [rng.randint(0, most) * scale for _ in range(count)]
        if kind in MONOTONE:
            slope, base = rng.randint(0, most // 9 + 1), rng.randint(0, most // 2)
            row[name] = [(base + slope * t) * scale for t in tokens]
    return row


PARTS_OF_SCHEMA_2 = ("channels", "share", "base", "two parts")


def with_schema_2(instance: Instance, seed: int, parts: Sequence[str] = ()) -> Instance:
    """Return an instance with some fields of schema 2 more; which, the seed decides.

    With `parts`, it has those of `PARTS_OF_SCHEMA_2` in any case.
    """
    rng = random.Random(f"schema 2 {instance.name} {seed}")
    wanted = {part for part in PARTS_OF_SCHEMA_2 if rng.random() < 0.6} | set(parts)
    wanted = wanted or {"channels"}
    data = instance.model_dump() | {"schema_version": 2, "name": f"{instance.name}-2-{seed}"}
    longest = max(max(of.gpu_miss_striped_ns) for of in instance.scenarios)
    # Of huge numbers that have no divisor no float tells one from the next.
    unit = 2**42 // 80 if "huge" in instance.name else 1
    if "channels" in wanted:
        data["channels"] = [rng.choice([0, 1, 7]) for _ in range(instance.dimms)]
    if "share" in wanted:
        data["dimm_share"] = rng.choice([[1, 2], [1, 3], [2, 3], [1, 1]] if unit == 1 else [[1, 1]])
    if "base" in wanted:
        base = rng.choice([0, longest // 10, longest // 3, longest])
        data["gpu_base_ns"] = base // unit * unit
    if "two parts" in wanted:
        for row in data["scenarios"]:
            whole = row["gpu_miss_striped_ns"], row["gpu_miss_localized_ns"]
            calc, pcie = rng.choice([(0.3, 1), (1, 0.5), (1, 1), (0, 1)])
            least = (min(both) for both in zip(*whole, strict=True))
            row["gpu_calc_ns"] = [int(calc * ns) // unit * unit for ns in least]
            for name, of in zip(("pcie_striped_ns", "pcie_localized_ns"), whole, strict=True):
                row[name] = [int(pcie * ns) // unit * unit for ns in of]
    return Instance.model_validate(data)


def links_bind(seed: int, experts: int = 0) -> Instance:
    """Return a random instance of schema 2 whose channels or PCIe bind: 3 or 4 experts, 1 window.

    Even seeds: reads take much longer than the hosts compute, and DIMMs supply a share of them. Odd
    ones: the copy takes much longer than the GPU computes.
    """
    rng = random.Random(f"links {seed}")
    count = experts or rng.randint(3, 4)
    of_channels = seed % 2 == 0

    def some(least: int, most: int) -> list[int]:
        return [rng.randint(least, most) for _ in range(count)]

    dear_ndp = seed % 4 == 2
    striped, local = (rng.randint(4, 9), rng.randint(2, 9)) if of_channels else (1, 1)
    if dear_ndp:
        striped, local = rng.randint(5, 7), rng.randint(6, 12)
    miss = some(8, 14)
    copy = rng.randint(3, 8)
    row: dict[str, Any] = {"weight": 1, "tokens": some(1, 9), "ndp_ns": some(4, 30)}
    if dear_ndp:
        row["ndp_ns"] = some(8, 40)
    row |= {"gpu_hit_ns": some(1, 3), "gpu_miss_striped_ns": miss, "gpu_miss_localized_ns": miss}
    row |= {"gpu_calc_ns": some(1, 3), "pcie_striped_ns": [copy] * count}
    row |= {"pcie_localized_ns": [rng.randint(copy, 8)] * count}
    for name in ("cpu_striped_ns", "cpu_localized_ns"):
        row[name] = some(1, 4) if of_channels else some(8, 20)
    dimms = rng.randint(2, 3)
    return Instance(
        name=f"links-{seed}",
        schema_version=2,
        channels=[rng.choice([0, 3]) for _ in range(dimms)],
        dimm_share=[1, 3] if of_channels else [1, 2],
        gpu_base_ns=rng.randint(0, 2),
        dimms=dimms,
        hbm_slots=rng.choice([0, 0, 1]),
        dimm_slots=rng.choice([None, None, 1, 2]),
        experts=count,
        dram_striped_ns=striped,
        dram_localized_ns=local,
        scenarios=[row],
    )


def copies_matter(seed: int, rule: str = "") -> Instance:
    """Return a random instance of 3 experts, 2 DIMMs and 2 or 3 windows that permits copies.

    Who is busy changes from window to window. With `rule`, what it bounds is scarce and the rest is
    not; some have fields of schema 2 besides.
    """
    rng = random.Random(f"copies {seed} {rule}")
    dimms, experts, windows = 2, 3, rng.randint(2, 3)
    size = rng.choice([1, 2, 5, 6])
    share = -(-size // dimms)
    spare = rng.choice([0, share, size, 2 * size, 9 * size])
    most = rng.choice([1, 2, 2, 3])
    if rule:
        spare, most = (99 * size, 1) if rule == "LA-C10" else (rng.choice([0, share]), 3)
    reserved = rng.choice([0, 3])
    room = experts * share + spare + reserved
    several = {"max_per_expert": most, "expert_bytes": size, "dimm_bytes": room}
    rows = []
    for _ in range(windows):
        tokens = [rng.choice([0, 1, 9]) for _ in range(experts)]
        tokens[rng.randrange(experts)] = 9
        row: dict[str, Any] = {"weight": rng.choice([1, 1, 3]), "tokens": tokens}
        row["ndp_ns"] = [rng.randint(4, 9) * max(1, t // 3) for t in tokens]
        row["cpu_striped_ns"] = [rng.randint(5, 9)] * experts
        row["cpu_localized_ns"] = [rng.randint(12, 25)] * experts
        row["gpu_hit_ns"] = [rng.randint(1, 4)] * experts
        row["gpu_miss_striped_ns"] = [rng.randint(15, 25)] * experts
        row["gpu_miss_localized_ns"] = [rng.randint(15, 40)] * experts
        rows.append(row)
    instance = Instance(
        name=f"copies-{seed}{rule}",
        schema_version=2,
        dimms=dimms,
        hbm_slots=rng.choice([0, 0, 1]),
        dimm_slots=rng.choice([None, None, None, 1, 2]) if not rule else None,
        experts=experts,
        dram_striped_ns=rng.randint(2, 6),
        dram_localized_ns=rng.randint(8, 14),
        copies=several | {"reserved_bytes": reserved},
        scenarios=rows,
    )
    return with_schema_2(instance, seed) if not rule and seed % 3 == 2 else instance


ALSO_COMPILED = (copies_matter,)
"""What makes instances that other kernels are compiled for."""

ATTACKS = ("idle", "equal", "zero", "huge", "single", "falling", "tight")
"""What models and oracles may assume without saying so: each kind is made to break it."""


def attack(seed: int) -> Instance:
    """Return a tiny random instance that has several of `ATTACKS` at once.

    Experts without tokens in any window; equal experts and windows; times of 0; times whose sums
    are near what may be counted; one expert, DIMM, slot; costs that fall with tokens and misses
    faster than hits; bytes and slots that bind.
    """
    rng = random.Random(f"attack {seed}")
    kinds = {kind for kind in ATTACKS if rng.random() < 0.35}
    experts, dimms = (rng.choice([1, 2]), 1) if "single" in kinds else (rng.choice([2, 3, 3]), 2)
    windows = rng.choice([1, 1, 2, 3])
    scale = 2**34 if "huge" in kinds else rng.choice([1, 7, 5000])
    idle = [("idle" in kinds and rng.random() < 0.5) for _ in range(experts)]
    idle[rng.randrange(experts)] = False

    def times(most: int) -> list[int]:
        least = 0 if "zero" in kinds else 1
        row = [rng.randint(least, most) * scale for _ in range(experts)]
        if "zero" in kinds and rng.random() < 0.4:
            row = [0] * experts
        return [row[0]] * experts if "equal" in kinds else row

    def window() -> dict[str, Any]:
        row: dict[str, Any] = {"weight": rng.choice([1, 1, 2, 2**16])}
        row["tokens"] = [0 if of else rng.choice([0, 1, 1, 9]) for of in idle]
        for name in COSTS:
            row[name] = times(rng.choice([3, 12, 40]))
        if "falling" in kinds:
            row["gpu_hit_ns"] = [of + 9 * scale for of in row["gpu_miss_striped_ns"]]
        return row

    rows = [window()] * windows if "equal" in kinds else [window() for _ in range(windows)]
    if not any(any(row["tokens"]) for row in rows):
        rows[0]["tokens"] = [0 if of else 1 for of in idle]
    several = None
    if rng.random() < 0.6:
        size = rng.choice([1, 2, 3, 6])
        spare = rng.choice([0, 0, 1, size, 2 * size]) if "tight" in kinds else 99
        reserved = rng.choice([0, 5])
        room = experts * -(-size // dimms) + spare + reserved
        several = {"max_per_expert": rng.choice([1, 1, 2, 3]), "expert_bytes": size}
        several |= {"dimm_bytes": room, "reserved_bytes": reserved}
    instance = Instance(
        name=f"attack-{seed}",
        schema_version=1 if several is None else 2,
        dimms=dimms,
        hbm_slots=rng.choice([0, 0, 1, experts, 99]),
        dimm_slots=rng.choice([0, 1, 2]) if "tight" in kinds else None,
        experts=experts,
        dram_striped_ns=0 if "zero" in kinds else rng.randint(0, 9) * scale,
        dram_localized_ns=rng.randint(0, 9) * scale,
        copies=several,
        scenarios=rows,
    )
    return with_schema_2(instance, seed) if seed % 3 == 2 and "huge" not in kinds else instance
