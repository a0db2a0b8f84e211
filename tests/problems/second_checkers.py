"""A second checker of each problem, written from its specification alone, and random decisions.

The checker of a problem walks through its schedule in loops. These here put the specification's
symbols into arrays, and share nothing with it, with a model or with an oracle: not a table of
costs, not a helper of the instance. `test_second_checkers.py` compares the two.

Each returns the objective and the set of the broken rules, those about a claim left out. Decisions
are of the right shape; what is said of others is the checker's own affair.
"""

import random
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from moeopt import balance, bitwidth, cache, deferral, joint, placement, split
from tests.problems.replication.second_checker import replication_answer, replication_decision
from tests.problems.threads.second_checker import threads_answer, threads_decision

Answer = tuple[Any, set[str]]


def placement_answer(instance: Any, solution: Any) -> Answer:
    """x, z and n as arrays of shape (layers, experts) and (steps, layers, experts)."""
    shape = (len(instance.steps), instance.layers, instance.experts)
    n = np.zeros(shape, dtype=np.int64)
    x, z = np.zeros(shape[1:], dtype=bool), np.zeros(shape, dtype=bool)
    for t, step in enumerate(instance.steps):
        for layer, active in enumerate(step):
            for e, tokens in active:
                n[t, layer, e] = tokens
    for layer, row in enumerate(solution.gpu):
        x[layer, list(row)] = True
    stated = solution.computed_on_gpu
    if stated is None:
        z[:] = x & (n > 0)
    else:
        for t, of_step in enumerate(stated):
            for layer, row in enumerate(of_step):
                z[t, layer, list(row)] = True
    b = np.zeros(shape[1:], dtype=np.int64)
    if instance.expert_width is not None:
        b[:] = instance.expert_width
    g, o = (
        np.choose(b[None], [_times(table, n) for table in (common, *(others or ()))])
        for common, others in (
            (instance.gpu_expert_ns, instance.width_gpu_ns),
            (instance.offload_expert_ns, instance.width_offload_ns),
        )
    )
    away = (n > 0) & ~z
    charge = instance.layer_offload_fixed_ns * away.any(axis=2)
    total = np.maximum((g * z).sum(axis=2), (o * away).sum(axis=2) + charge).sum()
    s = np.ones(shape[1:], dtype=np.int64)
    if instance.expert_slots is not None:
        s[:] = instance.expert_slots
    on, counts = int(s[x].sum()), x.sum(axis=1)
    host = int(s[~x].sum()) + (on if instance.host_copy else 0)
    broken = {
        "PL-C1": on > instance.gpu_slots,
        "PL-C2": instance.fill and on < instance.gpu_slots,
        "PL-C3": instance.host_slots is not None and host > instance.host_slots,
        "PL-C4": instance.restriction == "whole-layers" and (x != x[:, :1]).any(),
        "PL-C5": instance.restriction == "equal-counts" and len(np.unique(counts)) > 1,
        "PL-C9": (z & ~x).any()
        or (z & (n == 0)).any()
        or (instance.dispatch == "resident" and (x & (n > 0) & ~z).any()),
    }
    return int(total), _names(broken)


def _times(table: Any, n: Any) -> Any:
    """Look tokens up; beyond the end the last slope goes on."""
    known = np.array(table, dtype=np.int64)
    last = len(known) - 1
    return known[np.minimum(n, last)] + np.maximum(n - last, 0) * (known[-1] - known[-2])


def placement_decision(rng: random.Random, instance: Any) -> Any:
    """Return some experts, and where it is free some of the dispatch, now and then a wrong one."""
    kind = rng.choice(["any", "any", "whole", "equal"])
    share = rng.choice([0, 0.3, 0.7, 1])
    experts = range(instance.experts)
    gpu = [[e for e in experts if rng.random() < share] for _ in range(instance.layers)]
    if kind == "whole":
        gpu = [list(experts) if rng.random() < share else [] for _ in gpu]
    elif kind == "equal":
        gpu = [rng.sample(experts, len(gpu[0])) for _ in gpu]
    computed = None
    if rng.random() < 0.6:
        chance = 1.0 if instance.dispatch == "resident" else 0.6
        computed = [
            [
                [e for e, _ in active if e in row and rng.random() < chance]
                for active, row in zip(step, gpu, strict=True)
            ]
            for step in instance.steps
        ]
        if rng.random() < 0.1:
            wrong = rng.randrange(instance.experts)
            if wrong not in (row := rng.choice(rng.choice(computed))):
                row.append(wrong)
        elif rng.random() < 0.1 and (row := rng.choice(rng.choice(computed))):
            row.pop()
    return placement.Solution(instance=instance.name, gpu=gpu, computed_on_gpu=computed)


def joint_answer(instance: Any, solution: Any) -> Answer:
    """Return the clocks of the constraints, one maximum each; a cache is the w latest uses."""
    kappa = instance.contexts[solution.context]
    layers, experts, s = instance.layers, instance.experts, instance.hand_over_ns
    width = np.searchsorted(instance.bits, np.array(solution.bits))
    m = np.array(instance.expert_bytes)[width]
    y = np.zeros((layers, experts), dtype=bool)
    for layer, row in enumerate(solution.resident):
        y[layer, list(row)] = True
    way = np.where(y, 0, m).max(axis=1)
    ways = np.array(solution.ways)
    loss = kappa.kv_loss
    if instance.width_loss is not None:
        of_all = np.array(instance.width_loss)
        loss += int(np.take_along_axis(of_all, width[:, :, None], axis=2).sum())
    latest = np.full((layers, experts), -1)
    swapped = set(solution.swapped)
    known: set[tuple[int, int, int]] = set()
    total = copies = 0
    for t, step in enumerate(instance.steps):
        a = np.zeros(layers + 2, dtype=np.int64)
        a[0], free = kappa.step_ns, 0
        for layer, active in enumerate(step):
            of_layer = latest[layer].copy()
            of_layer[y[layer]] = -1
            order = np.argsort(-of_layer, kind="stable")[: ways[layer]]
            cached = {int(e) for e in order if of_layer[e] >= 0}
            there = [y[layer, e] or e in cached for e, _, _ in active]
            copies += sum(
                instance.copy_ns[width[layer, e]]
                for (e, _, _), found in zip(active, there, strict=True)
                if not found and ways[layer]
            )
            away = [
                not f ^ ((t, layer, e[0]) in swapped) for e, f in zip(active, there, strict=True)
            ]
            for (e, _, _), found in zip(active, there, strict=True):
                if found and (instance.host_copy or not y[layer, e]):
                    known.add((t, layer, e))
            on_cpu = [entry for entry, off in zip(active, away, strict=True) if off]
            d = min(solution.deferred[layer], len(on_cpu))
            times = [instance.cpu_ns[width[layer, e]][k] for e, k, _ in on_cpu]
            now, late = sum(times[: len(times) - d]), sum(times[len(times) - d :])
            loss += sum(lost for _, _, lost in on_cpu[len(on_cpu) - d :])
            gpu = sum(
                instance.gpu_ns[width[layer, e]][k]
                for (e, k, _), off in zip(active, away, strict=True)
                if not off
            )
            attended = a[layer] + kappa.attention_ns[layer]
            a[layer + 1] = max(a[layer + 1], attended + instance.shared_ns[layer] + gpu)
            if on_cpu:
                r = max(attended + s, free)
                free = r + now + late
                a[layer + 1] = max(a[layer + 1], r + now + s)
            if d and layer + 2 <= layers:
                a[layer + 2] = max(a[layer + 2], free + s)
            for place, (e, _, _) in enumerate(active):
                latest[layer, e] = t * (experts + 1) + place
        total += int(a[layers])
    gpu_bytes = kappa.kv_bytes + int(m[y].sum()) + int((ways * way).sum())
    host_bytes = int(m.sum() if instance.host_copy else m[~y].sum())
    broken = {
        "JT-C2": gpu_bytes > instance.gpu_bytes,
        "JT-C3": instance.host_bytes is not None and host_bytes > instance.host_bytes,
        "JT-C4": instance.max_loss is not None and loss > instance.max_loss,
        "JT-C5": bool(swapped - known),
    }
    return max(total, int(copies)), _names(broken)


def joint_decision(rng: random.Random, instance: Any) -> Any:
    """Return any decisions, and now and then experts on the other side, rightly or wrongly."""
    cells = [range(instance.experts)] * instance.layers
    share = rng.choice([0, 0.4, 1])
    entries = [
        (t, layer, e)
        for t, step in enumerate(instance.steps)
        for layer, active in enumerate(step)
        for e, _, _ in active
    ]
    plan = joint.Solution(
        instance=instance.name,
        context=rng.randrange(len(instance.contexts)),
        resident=[[e for e in row if rng.random() < share] for row in cells],
        bits=[[rng.choice(instance.bits) for _ in row] for row in cells],
        ways=[rng.randint(0, instance.max_ways) for _ in cells],
        deferred=[rng.choice(instance.deferrable(layer)) for layer in range(instance.layers)],
    )
    swapped = tuple(entry for entry in entries if rng.random() < 0.3)
    moved = plan.model_copy(update={"swapped": swapped})
    if rng.random() < 0.7:  # those alone that the GPU holds
        right = [one for one in swapped if joint_answer(instance, _with(plan, one))[1] <= BUDGETS]
        moved = plan.model_copy(update={"swapped": tuple(right)})
    return moved


BUDGETS = {"JT-C2", "JT-C3", "JT-C4"}


def _with(plan: Any, swapped: tuple[int, int, int]) -> Any:
    return plan.model_copy(update={"swapped": (swapped,)})


def cache_answer(instance: Any, solution: Any) -> Answer:
    """Hits by stack distances: an expert is found if fewer others than ways were used since."""
    layers, experts = instance.layers, instance.experts
    latest = np.full((layers, experts), -1)
    computed = fetched = 0
    for t, token in enumerate(instance.accesses):
        for layer, used in enumerate(token):
            w = solution.ways[layer]
            since = [(latest[layer] > latest[layer, e]).sum() for e in used]
            found = [
                latest[layer, e] >= 0 and distance < w
                for e, distance in zip(used, since, strict=True)
            ]
            h, m = sum(found), len(used) - sum(found)
            cpu = instance.activation_ns + m * instance.cpu_ns if m else 0
            computed += instance.other_ns + max(int(h) * instance.gpu_ns, int(cpu))
            fetched += int(m) if w else 0
            for place, e in enumerate(used):
                latest[layer, e] = t * (experts + 1) + place
    total = max(computed, fetched * instance.fetch_ns)
    return int(total), _names({"CA-C2": sum(solution.ways) > instance.slots})


def cache_decision(rng: random.Random, instance: Any) -> Any:
    """Return any numbers of ways."""
    ways = [rng.randint(0, instance.experts) for _ in range(instance.layers)]
    return cache.Solution(instance=instance.name, ways=ways)


def bitwidth_answer(instance: Any, solution: Any) -> Answer:
    """One-hot widths against the tables of losses."""
    b = np.array(instance.bits)
    loss, broken = 0, set()
    sums, first = [], []
    for layer, row in zip(instance.layers, solution.bits, strict=True):
        x = np.array(row)[:, None] == b
        loss += int((np.array([expert.loss for expert in layer.experts]) * x).sum())
        sums.append(int((x @ b).sum()))
        first.append(x[0])
        if instance.granularity != "expert" and (x != x[0]).any():
            broken.add("BW-C4")
        for width, least in instance.min_count.items():
            if int(x[:, b == width].sum()) < least:
                broken.add("BW-C5")
        budget = layer.budget_bits if instance.model_budget_bits is None else None
        if budget is not None and sums[-1] > budget:
            broken.add("BW-C2")
    if instance.granularity == "model" and any((one != first[0]).any() for one in first):
        broken.add("BW-C4")
    if instance.model_budget_bits is not None and sum(sums) > instance.model_budget_bits:
        broken.add("BW-C3")
    return loss, broken


def bitwidth_decision(rng: random.Random, instance: Any) -> Any:
    """Return any widths, now and then one for each layer or for all."""
    kind = rng.choice(["expert", "layer", "model"])
    one = rng.choice(instance.bits)
    rows = []
    for layer in instance.layers:
        of_layer = one if kind == "model" else rng.choice(instance.bits)
        free = kind == "expert"
        rows.append([rng.choice(instance.bits) if free else of_layer for _ in layer.experts])
    return bitwidth.Solution(instance=instance.name, bits=rows)


def deferral_answer(instance: Any, solution: Any) -> Answer:
    """All starts against all that they wait for, as vectors; the CPU's tasks pair by pair."""
    d, k = np.array(solution.deferred), instance.top_k
    attention, shared, sync, expert = (
        np.array(getattr(instance, name))
        for name in ("attention_ns", "shared_ns", "sync_ns", "expert_cpu_ns")
    )
    a, h, i, e = (
        np.array(getattr(solution.start_ns, name))
        for name in ("attention", "shared", "immediate", "deferred")
    )
    now, late = (k - d) * expert, d * expert
    begin, length = np.concatenate([i, e]), np.concatenate([now, late])
    end = begin + length
    clash = (begin[:, None] < end) & (begin < end[:, None]) & (length > 0) & (length > 0)[:, None]
    np.fill_diagonal(clash, val=False)
    penalty = int(np.array(instance.penalty)[d].sum())
    ends = [h + shared, i + now, e + late, a + attention]
    limit = instance.max_total_penalty
    broken = {
        "DE-C1": d[-1] != 0,
        "DE-C2": (a[1:] < (i + now + sync)[:-1]).any(),
        "DE-C3": (a[2:] < (e + late + sync)[:-2]).any(),
        "DE-C4": (h < a + attention).any() or (a[1:] < (h + shared)[:-1]).any(),
        "DE-C5": (np.minimum(i, e) < a + attention + sync).any(),
        "DE-C6": clash.any(),
        "DE-C7": limit is not None and penalty > limit,
    }
    return (int(max(row.max() for row in ends)), penalty), _names(broken)


def deferral_decision(rng: random.Random, instance: Any) -> Any:
    """Return counts, and a schedule of a rule or one that is moved a little, rightly or wrongly."""
    from tests.rooms.deferral import schedule

    counts = tuple(rng.choice(instance.deferrable(layer)) for layer in range(instance.layers))
    found = schedule(instance, counts)
    later = rng.choice([0, 0, instance.horizon_ns])
    starts = {
        kind: [max(0, start + later + rng.choice([0, 0, 0, -1, 1])) for start in row]
        for kind, row in found.start_ns
    }
    if rng.random() < 0.4:
        starts = {kind: [start + later for start in row] for kind, row in found.start_ns}
    times = deferral.StartTimes(**starts)
    return deferral.Solution(instance=instance.name, deferred=counts, start_ns=times)


def balance_answer(instance: Any, solution: Any) -> Answer:
    """Return the flow shop by its closed form, and the units as a matrix product."""
    y = np.array(solution.gpu_slices, dtype=object)
    g, n = (
        np.array([getattr(e, name) for e in instance.experts], dtype=object)
        for name in ("slice_gpu_ns", "slice_ndp_ns")
    )
    away = np.array([not e.resident for e in instance.experts])
    pulled, w, s = y.sum(axis=1), instance.slice_transfer_ns, instance.slices_per_unit
    moved = sum(pulled[away])
    shop = sum(g * pulled)
    if moved:
        last = min(g[away & (pulled > 0)])
        shop = max(shop, w + sum((g * pulled)[away]), w * moved + last)
    units = n @ (s - y)
    z = int((y < s).any())
    ta, count, seq = instance.activation_ns, instance.ndp_units, instance.seq_len
    gpu = shop + z * (seq - 1) * ta * count
    ndp = max(units) + z * (count + 1) * ta
    return int(max(gpu, ndp)), set()


def balance_decision(rng: random.Random, instance: Any) -> Any:
    """Return any counts of slices."""
    most, share = instance.slices_per_unit, rng.choice([0, 0.5, 1])
    slices = [
        [rng.randint(0, most) if rng.random() < share else 0 for _ in range(instance.ndp_units)]
        for _ in instance.experts
    ]
    if rng.random() < 0.1:
        slices = [[most] * instance.ndp_units for _ in instance.experts]
    return balance.Solution(instance=instance.name, gpu_slices=slices)


def split_answer(instance: Any, solution: Any) -> Answer:
    """Arrays x and y of shape (layers, devices), z of shape (stops + 1, devices, devices)."""
    count, layers = len(instance.devices), instance.layers
    own = np.array([layer.attention_ns is not None for layer in layers])
    x = np.eye(count, dtype=np.int64)[list(solution.attention)] * own[:, None]
    has = np.array([layer.experts_ns is not None for layer in layers])
    y = np.eye(count, dtype=np.int64)[list(solution.experts)] * has[:, None]

    def table(name: str) -> np.ndarray:
        rows = [getattr(layer, name) or [None] * count for layer in layers]
        return np.array([[-1 if ns is None else ns for ns in row] for row in rows])

    a, e = table("attention_ns"), table("experts_ns")
    stops = [row for pair in zip(x, y, strict=True) for row in pair if row.any()]
    source = np.eye(count, dtype=np.int64)[instance.source]
    path = np.stack([source, *stops, source])
    z = path[:-1, :, None] * path[1:, None, :]
    objective = 0
    for weight, of_attention, of_experts, hop in (
        (instance.decode_weight, a, e, instance.hop_ns),
        (
            instance.prompt_weight,
            table("prompt_attention_ns"),
            table("prompt_experts_ns"),
            instance.prompt_hop_ns,
        ),
    ):
        parts = (np.maximum(of_attention, 0) * x).sum() + (np.maximum(of_experts, 0) * y).sum()
        hops = 0 if hop is None else (np.array(hop) * z).sum()
        objective += weight * int(parts + hops)
    if (a[x > 0] < 0).any() or (e[y > 0] < 0).any():
        return objective, {"SP-C1"}
    size_a, size_e, c, b = (
        np.array([getattr(of, name) for of in every])
        for every, name in (
            (layers, "attention_bytes"),
            (layers, "experts_bytes"),
            (instance.devices, "capacity"),
            (instance.devices, "buffer"),
        )
    )
    lie = size_a @ x + size_e @ y
    t = (x + y).any(axis=0)
    broken = {"SP-C2": (lie > c).any(), "SP-C3": ((lie <= c) & (lie + b * t > c)).any()}
    if instance.order is not None:
        firsts = x[own][:, list(instance.order)].cumsum(axis=1)
        broken["SP-C4"] = not firsts[:, -1].all() or (np.diff(firsts, axis=0) > 0).any()
    return objective, _names(broken)


def split_decision(rng: random.Random, instance: Any) -> Any:
    """Return any devices, or one for almost all."""
    count, usual = len(instance.devices), rng.randrange(len(instance.devices))

    def home() -> int:
        return rng.choice([usual, usual, rng.randrange(count)])

    return split.Solution(
        instance=instance.name,
        attention=[-1 if layer.attention_ns is None else home() for layer in instance.layers],
        experts=[-1 if layer.experts_ns is None else home() for layer in instance.layers],
    )


def _names(broken: Mapping[str, Any]) -> set[str]:
    return {rule for rule, true in broken.items() if true}


SECOND: Mapping[str, tuple[Callable[[Any, Any], Answer], Callable[[random.Random, Any], Any]]] = {
    "placement": (placement_answer, placement_decision),
    "joint": (joint_answer, joint_decision),
    "cache": (cache_answer, cache_decision),
    "bitwidth": (bitwidth_answer, bitwidth_decision),
    "deferral": (deferral_answer, deferral_decision),
    "balance": (balance_answer, balance_decision),
    "replication": (replication_answer, replication_decision),
    "split": (split_answer, split_decision),
    "threads": (threads_answer, threads_decision),
}
"""Problem -> its second checker, and what makes a random decision."""
