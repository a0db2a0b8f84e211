"""Small random relayout instances of every kind that the tests tell apart."""

import random
from typing import Any

from moeopt.problems.relayout.instance import Instance

KINDS = (
    "mixed",
    "closed windows",
    "wide windows",
    "no slots",
    "one dimm",
    "hosts bind",
    "dimms bind",
    "dear rebalance",
    "dear relayout",
    "idle and resident experts",
    "arbitrary costs",
    "huge numbers",
)


def random_instance(seed: int, kind: str = "mixed", experts: int | None = None) -> Instance:
    """Return a random instance of 2 to 4 experts (few with 4, on at most 2 DIMMs) on 1 to 3 DIMMs.

    Costs obey the physics (a localized read is longer, a miss no shorter than its read) except in
    "arbitrary costs", where nothing is related to anything.
    """
    rng = random.Random(f"{kind}{seed}")
    count = experts or min(rng.randint(2, 4), rng.randint(2, 4))
    dimms = (
        1 if kind == "one dimm" else rng.randint(2 if "dear" in kind else 1, 2 if count == 4 else 3)
    )
    scale = 7 * 10**10 if kind == "huge numbers" else rng.choice([1, 1, 5000, 997])
    read = rng.randint(0, 8) if kind != "hosts bind" else 0
    common = {
        "dram_striped_ns": read * scale,
        "dram_localized_ns": read * rng.randint(1, 3) * scale,
        **_links(rng, kind, scale),
    }
    rows = [
        _expert(rng, kind, number, dimms, read, scale) for number in rng.sample(range(64), count)
    ]
    if kind == "arbitrary costs":
        common |= {name: rng.randint(0, 30) * scale for name in ("dram_striped_ns",)}
        common["dram_localized_ns"] = rng.randint(0, 30) * scale
    if not any(row["tokens"] for row in rows):
        rows[0]["tokens"] = 1
    return Instance(name=f"{kind}-{seed}", dimms=dimms, experts=rows, **common)


def _links(rng: random.Random, kind: str, scale: int) -> dict[str, int]:
    """Return windows and lengths of migrations: mostly one or two fit."""
    prefetch, relayout, rebalance = (rng.randint(1, 9) * scale for _ in range(3))
    if kind == "dear rebalance":
        rebalance = 2 * relayout + rng.randint(1, 3) * scale
    if kind == "dear relayout":
        relayout = rebalance + rng.randint(1, 3) * scale
    pcie = rng.randint(0, 3) * prefetch + rng.randint(0, 2)
    link = rng.choice([relayout, rebalance, relayout + rebalance, 2 * relayout, 2 * rebalance])
    link += rng.randint(-1, 1)
    if kind == "dear rebalance":
        link = rng.choice([2 * relayout, rebalance])
    if kind == "closed windows":
        pcie, link = min(pcie, prefetch - 1), min(relayout, rebalance) - 1
    if kind == "wide windows":
        pcie, link = 9 * prefetch, 9 * (relayout + rebalance)
    if kind == "arbitrary costs":
        prefetch, relayout, rebalance = (rng.choice([0, rng.randint(0, 9)]) for _ in range(3))
        pcie, link = rng.randint(0, 20), rng.randint(0, 20)
    return {
        "hbm_free_slots": 0 if kind == "no slots" else rng.choice([0, 1, 1, 2, 9]),
        "prefetch_ns": prefetch,
        "relayout_ns": relayout,
        "rebalance_ns": rebalance,
        "pcie_window_ns": pcie,
        "dimm_link_window_ns": link,
    }


def _expert(
    rng: random.Random, kind: str, number: int, dimms: int, read: int, scale: int
) -> dict[str, Any]:
    odd = kind == "idle and resident experts"
    hit, transfer, compute = rng.randint(1, 15), rng.randint(5, 40), rng.randint(2, 30)
    localized = rng.random() < (0.9 if kind in ("dimms bind", "dear rebalance") else 0.6)
    ndp = rng.randint(10, 80) if kind == "hosts bind" else rng.randint(1, 40)
    if kind in ("dimms bind", "dear rebalance"):
        transfer, compute, ndp = transfer + 30, compute + 30, ndp // 3 + 10
    own = read * 3
    costs = {
        "gpu_hit_ns": hit,
        "gpu_miss_striped_ns": max(hit, transfer, read),
        "gpu_miss_localized_ns": max(hit, transfer, own),
        "cpu_striped_ns": max(compute, read),
        "cpu_localized_ns": max(compute, own),
        "ndp_ns": ndp,
    }
    if kind == "arbitrary costs":
        costs = {name: rng.randint(0, 40) for name in costs}
    place = 0 if kind in ("dimms bind", "dear rebalance") else rng.randrange(dimms)
    return {
        "expert": number,
        "tokens": 0 if odd and rng.random() < 0.35 else rng.randint(1, 40),
        "resident": rng.random() < (0.5 if odd else 0.15),
        "dimm": place if localized else None,
        **{name: cost * scale for name, cost in costs.items()},
    }
