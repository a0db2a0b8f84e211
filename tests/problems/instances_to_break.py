"""Makers of tiny instances meant to break what models, oracles and bounds assume together.

Usual random instances seldom have an expert without tokens, equal experts, a layer in which nothing
happens, times of zero beside huge ones, no memory at all or more than there are experts. Here each
of these is as likely as not. And none of them has numbers without a common divisor: the kinds that
begin with `MIXED` have (`mixed_numbers`). ``benchmarks/studies/attack.py`` solves them with every
method.

A maker is a function of a seed. To enter a problem, or another kind of instance, add it to
`MAKERS`.
"""

import random
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from tests.problems.balance import balance_random_instances as usual_balance
from tests.problems.bitwidth import bitwidth_random_instances as usual_bitwidth
from tests.problems.cache import cache_random_instances as usual_cache
from tests.problems.deferral import random_schedules as usual_deferral
from tests.problems.joint import joint_random_instances as usual_joint
from tests.problems.layout import layout_random_instances as layout
from tests.problems.mixed_numbers import LAWS, model_files, with_numbers
from tests.problems.placement import placement_random_instances as usual_placement
from tests.problems.relayout import relayout_random_instances as relayout
from tests.problems.replication import replication_random_instances as replication
from tests.problems.split import split_random_instances as usual_split
from tests.problems.threads import threads_random_instances as usual_threads
from tests.problems.tri_domain import random_instances as tri_domain
from tests.rooms.balance import Instance as Balance
from tests.rooms.bitwidth import Instance as Bitwidth
from tests.rooms.cache import Instance as Cache
from tests.rooms.deferral import Instance as Deferral
from tests.rooms.joint import Instance as Joint
from tests.rooms.placement import Instance as Placement
from tests.rooms.problems import get_problem
from tests.rooms.split import Instance as Split
from tests.rooms.threads import Instance as Threads

Maker = Callable[[int], Any]

MIXED = "numbers: "


class Extremes:
    """Numbers from the ends of what is allowed.

    Parameters
    ----------
    label, seed
        Each pair gives the same numbers everywhere.
    """

    def __init__(self, label: str, seed: int) -> None:
        self.rng = random.Random(f"{label} {seed}")
        self.scale = self.rng.choice([1, 1, 1, 1000, 10**9])

    def ns(self, most: int = 20) -> int:
        """Return a time: nothing, one, usual, or long beside the others."""
        usual = self.rng.randint(0, most)
        return self.rng.choice([0, 1, usual, usual, usual, 50 * most]) * self.scale

    def row(self, length: int, most: int = 20) -> list[int]:
        """Return times: all the same, or each by itself."""
        if self.rng.random() < 0.4:
            return [self.ns(most)] * length
        return [self.ns(most) for _ in range(length)]

    def table(self, length: int, most: int = 20) -> list[int]:
        """Return times by tokens from 0 on, which never fall."""
        return [0, *sorted(self.row(length - 1, most))]

    def room(self, total: int) -> int:
        """Return a capacity: none, one, some, one too few, all, or more than there is."""
        return self.rng.choice([0, 1, self.rng.randint(0, total), total - 1, total, 2 * total + 1])

    def some(self, of: int, least: int = 0) -> list[int]:
        """Return some numbers below `of`, in any order: often none, or all."""
        count = self.rng.choice([least, self.rng.randint(least, of), of])
        return self.rng.sample(range(of), count)


def placement(seed: int) -> Placement:
    """Return a placement: idle layers and experts, all alike, slots for none or too many."""
    of = Extremes("placement", seed)
    rng = of.rng
    layers, experts = rng.choice([(1, 1), (1, 3), (1, 6), (2, 2), (2, 3), (3, 2), (4, 1)])
    most = rng.choice([1, 1, 3])
    length = rng.randint(2, most + 2)
    tokens = [
        [[[e, rng.randint(1, most)] for e in of.some(experts)] for _ in range(layers)]
        for _ in range(rng.randint(1, 3))
    ]
    if rng.random() < 0.3:
        tokens.append(tokens[0])
    changes: dict[str, Any] = {}
    total = layers * experts
    if rng.random() < 0.4:
        sizes = [of.rng.choices([0, 1, 1, 2, 7], k=experts) for _ in range(layers)]
        changes["expert_slots"] = [[max(1, size) for size in row] for row in sizes]
        total = sum(map(sum, changes["expert_slots"]))
    changes["host_copy"] = rng.random() < 0.7
    if changes["host_copy"] and rng.random() < 0.6:
        changes |= {"schema_version": 2, "dispatch": "free"}
    if rng.random() < 0.3:
        changes |= {
            "schema_version": 2,
            "expert_width": [rng.choices([0, 1], k=experts) for _ in range(layers)],
            "width_gpu_ns": [of.table(length)],
            "width_offload_ns": [of.table(length)],
        }
    if rng.random() < 0.3:
        changes["host_slots"] = of.room(total)
    return Placement(
        name=f"edges-{seed}",
        layers=layers,
        experts=experts,
        gpu_slots=of.room(total),
        gpu_expert_ns=of.table(length),
        offload_expert_ns=of.table(length),
        layer_offload_fixed_ns=of.ns(),
        steps=tokens,
        restriction=rng.choice([None, None, "whole-layers", "equal-counts"]),
        fill=rng.random() < 0.3,
        **changes,
    )


def joint(seed: int) -> Joint:
    """Return a joint plan: layers without tokens, widths alike, budgets of nothing."""
    of = Extremes("joint", seed)
    rng = of.rng
    shapes = [(1, 1, 2, 2), (1, 2, 3, 1), (1, 3, 2, 1), (2, 1, 2, 1), (2, 2, 1, 1), (3, 1, 2, 1)]
    layers, experts, steps, widths = rng.choice(shapes)
    of.scale = rng.choice([1, 1, 1000, 10**6])
    bits = [4, 8][:widths]
    sizes = sorted(rng.choice([0, 1, 1, 3]) for _ in bits)
    most = rng.choice([1, 2])
    cells = layers * experts

    def context() -> dict[str, Any]:
        return {
            "name": "some",
            "kv_bytes": rng.choice([0, 0, 2]),
            "attention_ns": of.row(layers, 6),
            "step_ns": of.ns(3),
            "kv_loss": rng.choice([0, 0, 3]),
        }

    entries = [
        [
            [[e, rng.randint(1, most), rng.choice([0, 0, 2])] for e in of.some(experts)]
            for _ in range(layers)
        ]
        for _ in range(steps)
    ]
    losses = [[[rng.choice([0, 0, 5]) for _ in bits] for _ in range(experts)]] * layers
    return Joint(
        name=f"edges-{seed}",
        layers=layers,
        experts=experts,
        bits=bits,
        expert_bytes=sizes,
        gpu_ns=[of.table(most + 1, 4) for _ in bits],
        cpu_ns=[of.table(most + 1, 9) for _ in bits],
        copy_ns=of.row(widths, 9),
        shared_ns=of.row(layers, 3),
        hand_over_ns=of.ns(3),
        contexts=[context() for _ in range(rng.choice([1, 1, 2]))],
        gpu_bytes=of.room(max(1, cells * sizes[-1])),
        host_bytes=rng.choice([None, of.room(max(1, cells * sizes[-1]))]),
        max_loss=rng.choice([None, 0, 3, 10**6]),
        host_copy=rng.random() < 0.6,
        max_ways=rng.randint(0, min(experts, 2)),
        max_deferred=rng.choice([0, 1, 1, 3]),
        width_loss=rng.choice([None, losses]),
        steps=entries,
    )


def cache(seed: int) -> Cache:
    """Return a cache: layers that nobody asks, everybody at once, all for free."""
    of = Extremes("cache", seed)
    rng = of.rng
    layers, experts = rng.choice([(1, 1), (1, 4), (2, 1), (2, 3), (3, 2), (4, 2)])
    idle = [rng.random() < 0.2 for _ in range(layers)]
    accesses = [
        [[] if idle[layer] else of.some(experts) for layer in range(layers)]
        for _ in range(rng.randint(1, 8))
    ]
    gpu, cpu, activation, fetch, other = of.row(5)
    return Cache(
        name=f"edges-{seed}",
        layers=layers,
        experts=experts,
        slots=of.room(layers * experts),
        gpu_ns=gpu,
        cpu_ns=cpu,
        activation_ns=activation,
        fetch_ns=fetch,
        other_ns=other,
        accesses=accesses,
    )


def bitwidth(seed: int) -> Bitwidth:
    """Return widths: losses all zero, alike, rising or huge; budgets of nothing; counts beyond."""
    of = Extremes("bitwidth", seed)
    rng = of.rng
    of.scale = rng.choice([1, 1, 10**6])
    bits = sorted(rng.sample([1, 2, 3, 4, 8, 64], rng.randint(1, 3)))
    alike = of.row(len(bits)) if rng.random() < 0.3 else None
    layers = []
    for size in rng.choice([[1], [4], [2, 2], [1, 3], [1, 1, 1]]):
        experts = [
            {"expert": e, "importance": rng.choice([0, 0, 5]), "loss": alike or of.row(len(bits))}
            for e in range(size)
        ]
        least, most = size * bits[0], size * bits[-1]
        budget = rng.choice([0, least - 1, least, rng.randint(least, most), most, 10 * most])
        layers.append({"experts": experts, "budget_bits": budget})
    total = rng.choice([None, sum(layer["budget_bits"] for layer in layers)])
    return Bitwidth(
        name=f"edges-{seed}",
        bits=bits,
        granularity=rng.choice(["expert", "expert", "layer", "model"]),
        min_count={str(b): rng.choice([0, 1, 1, 2, 9]) for b in rng.sample(bits, 1)}
        if rng.random() < 0.4
        else {},
        layers=layers,
        model_budget_bits=total,
    )


def deferral(seed: int) -> Deferral:
    """Return a step: tasks without length, hand-overs longer than all else, penalties of zero."""
    of = Extremes("deferral", seed)
    rng = of.rng
    layers = rng.randint(1, 4)
    top_k = rng.randint(1, 3)
    least = max(rng.choice([0, 0, 1, top_k]), top_k - 2)
    penalty = sorted(rng.choice([0, 0, 1, 5, 10**6]) for _ in range(top_k - least + 1))
    return Deferral(
        name=f"edges-{seed}",
        layers=layers,
        top_k=top_k,
        min_immediate=least,
        attention_ns=of.row(layers),
        shared_ns=of.row(layers),
        sync_ns=of.row(layers),
        expert_cpu_ns=of.row(layers, 8),
        penalty=penalty,
        max_total_penalty=rng.choice([None, None, 0, 1, layers * penalty[-1]]),
    )


def balance(seed: int) -> Balance:
    """Return slices: experts for free on one side, huge on the other, a link of no length."""
    of = Extremes("balance", seed)
    rng = of.rng
    units, per_unit, count = rng.choice(
        [(1, 1, 1), (1, 3, 2), (2, 1, 3), (2, 2, 2), (3, 1, 2), (4, 1, 1), (1, 1, 5)]
    )
    prefill = rng.random() < 0.4
    gpu, ndp = of.row(count), of.row(count)
    return Balance(
        name=f"edges-{seed}",
        stage="prefill" if prefill else "decode",
        ndp_units=units,
        slices_per_unit=per_unit,
        seq_len=rng.choice([1, 2, 5]) if prefill else 1,
        activation_ns=of.ns(5),
        slice_transfer_ns=of.ns(),
        experts=[
            {
                "expert": e,
                "tokens": rng.choice([1, 1, 9]),
                "resident": rng.random() < 0.4,
                "slice_gpu_ns": gpu[e],
                "slice_ndp_ns": ndp[e],
            }
            for e in range(count)
        ],
    )


def split(seed: int) -> Split:
    """Return parts on devices: without buffers or room, hops that a detour beats or that stay."""
    rare = Extremes("split", seed)
    rng = rare.rng
    count, rows = rng.randint(1, 3), rng.randint(1, 3)

    def times() -> list[int | None]:
        row: list[int | None] = [*rare.row(count, 9)]
        there = rng.randrange(count)
        return [time if d == there or rng.random() < 0.8 else None for d, time in enumerate(row)]

    def hops() -> list[list[int]]:
        there = [rare.row(count, 4) for _ in range(count)]
        if rng.random() < 0.7:
            there = [[time * (i != j) for j, time in enumerate(row)] for i, row in enumerate(there)]
        return there

    sizes = [rng.choice([0, 1, rng.randint(0, 9)]) for _ in range(2 * rows)]
    if rng.random() < 0.3:
        sizes = [sizes[0]] * len(sizes)
    layers = [
        {
            "attention_ns": times(),
            "attention_bytes": sizes[2 * row],
            "experts_ns": rng.choice([None, times(), times()]),
            "experts_bytes": sizes[2 * row + 1],
            "prompt_attention_ns": rng.choice([None, times()]),
            "prompt_experts_ns": rng.choice([None, times()]),
        }
        for row in range(rows)
    ]
    if rng.random() < 0.4:
        layers = [layers[0]] * rows
    for row in range(1, rows):  # further tensors of the layer before
        if layers[row]["experts_ns"] is not None and rng.random() < 0.3:
            layers[row] = layers[row] | {"attention_ns": None, "attention_bytes": 0}
    devices = [
        {"capacity": max(0, rare.room(sum(sizes))), "buffer": rng.choice([0, 0, 1, 99])}
        for _ in range(count)
    ]
    if rng.random() < 0.3:
        devices = [devices[0]] * count
    if rng.random() < 0.5:  # at least one device can hold all
        devices[rng.randrange(count)] = {"capacity": sum(sizes) + 1, "buffer": rng.randint(0, 1)}
    return Split(
        name=f"split-{seed}",
        source=rng.randrange(count),
        order=rng.choice([None, None, rare.some(count, 1)]),
        devices=[{"name": f"d{d}"} | of for d, of in enumerate(devices)],
        hop_ns=hops(),
        prompt_hop_ns=rng.choice([None, hops()]),
        decode_weight=rng.choice([0, 1, 1, 7]),
        prompt_weight=rng.choice([0, 0, 1, 3]),
        layers=layers,
    )


def threads(seed: int) -> Threads:
    """Return parts: for nothing or huge, grains that take turns, loads that outweigh all work."""
    of = Extremes("threads", seed)
    rng = of.rng
    count, grains, experts = rng.choice(
        [(1, [1], 1), (2, [1], 6), (3, [2, 1], 3), (2, [3, 3], 3), (2, [4, 1], 2), (4, [1, 2], 2)]
    )
    rows = []
    for number in range(experts):
        parts: list[int | None] = list(of.row(len(grains)))
        if len(parts) > 1 and rng.random() < 0.3:
            parts[rng.randrange(len(parts))] = None
        rows.append({"expert": number, "load_ns": of.ns(5), "part_ns": parts})
    return Threads(
        name=f"edges-{seed}", threads=count, pull_ns=of.ns(3), grains=grains, experts=rows
    )


def _kinds(make: Callable[..., Any], kinds: tuple[str, ...]) -> dict[str, Maker]:
    return {kind: partial(make, kind=kind) for kind in kinds}


_MAKERS: Mapping[str, Mapping[str, Maker]] = {
    "placement": {
        "edges": placement,
        **_kinds(
            usual_placement.random_instance,
            (*usual_placement.KINDS, *usual_placement.FREE_KINDS),
        ),
    },
    "joint": {"edges": joint, **_kinds(usual_joint.random_instance, usual_joint.KINDS)},
    "cache": {"edges": cache, **_kinds(usual_cache.random_instance, usual_cache.KINDS)},
    "bitwidth": {
        "edges": bitwidth,
        **_kinds(usual_bitwidth.random_instance, usual_bitwidth.KINDS),
    },
    "deferral": {
        "edges": deferral,
        **_kinds(usual_deferral.random_instance, usual_deferral.KINDS),
    },
    "balance": {"edges": balance, **_kinds(usual_balance.random_instance, usual_balance.KINDS)},
    "replication": {
        "edges": replication.hard_instance,
        "tokens": replication.random_instance,
    },
    "split": {"edges": split, "usual": usual_split.random_instance},
    "threads": {"edges": threads, **_kinds(usual_threads.random_instance, usual_threads.KINDS)},
    "layout": {
        "edges": layout.attack,
        "schema 2": lambda seed: layout.with_schema_2(layout.random_instance(seed), seed),
        "links": layout.links_bind,
        "copies": layout.copies_matter,
        **_kinds(layout.random_instance, layout.KINDS),
    },
    "relayout": {
        "edges": relayout.attack,
        **_kinds(relayout.random_instance, (*relayout.KINDS, *relayout.NEWER_KINDS)),
    },
    "tri_domain": {
        "edges": tri_domain.attack,
        "two copies": tri_domain.dual_copies,
        "copies": lambda seed: tri_domain.with_copies(tri_domain.random_instance(seed), seed),
        **_kinds(tri_domain.random_instance, tri_domain.KINDS),
        **_kinds(tri_domain.random_schema_2, tri_domain.SCHEMA_2_KINDS),
    },
}

MOST_CANDIDATES = 3000
"""Of an instance whose numbers are drawn again: brute force takes some 0.1 s for them."""


def mixed(seed: int, problem: str, law: str) -> Any:
    """Return an instance of any kind, a third of them of extremes, with numbers by a law."""
    rng = random.Random(f"mixed {problem} {law} {seed}")
    kinds = _MAKERS[problem]
    others = [kind for kind in kinds if kind != "edges"]
    count = get_problem(problem).count
    while True:
        kind = rng.choice(["edges", rng.choice(others), rng.choice(others)])
        base = kinds[kind](rng.randrange(10**6))
        if count(base) <= MOST_CANDIDATES:
            return with_numbers(base, law, seed)


def any_numbers(problem: str, seed: int) -> Any:
    """Return an instance with numbers by the laws in turn."""
    return mixed(seed, problem, LAWS[seed % len(LAWS)])


MAKERS: Mapping[str, Mapping[str, Maker]] = {
    problem: {
        **kinds,
        **{f"{MIXED}{law}": partial(mixed, problem=problem, law=law) for law in LAWS},
        **({f"{MIXED}model files": model_files} if problem == "split" else {}),
    }
    for problem, kinds in _MAKERS.items()
}
"""Problem -> kind -> maker; the kinds that begin with `MIXED` have numbers of no common divisor."""
