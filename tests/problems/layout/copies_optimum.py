"""The optimum of tiny layouts with copies, by the loads of every schedule there is, in NumPy.

Costs are read from the instance's fields; nothing of the package's search or models is used.
"""

from collections.abc import Iterator
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray

from moeopt.problems.layout.instance import Instance, Scenario

Ints = NDArray[np.int64]


def optimum(instance: Instance) -> int:
    """Return the least objective over all sets of copies, residents and schedules."""
    tables = [_schedules(instance, scenario) for scenario in instance.scenarios]
    best: int | None = None
    for have in _layouts(instance):
        value = 0
        for scenario, (need, spans) in zip(instance.scenarios, tables, strict=True):
            value += scenario.weight * int(spans[(need & ~have) == 0].min())
        best = value if best is None else min(best, value)
    assert best is not None
    return best


def _bits(instance: Instance) -> int:
    """Return how many flags an expert has: striped, each DIMM, resident, not resident."""
    return instance.dimms + 3


def _layouts(instance: Instance) -> Iterator[int]:
    """Yield what each layout within LA-C3, LA-C4, LA-C10 and LA-C11 offers, as flags."""
    rows = [e for e in range(instance.experts) if any(s.tokens[e] for s in instance.scenarios)]
    dimms, bits, of = instance.dimms, _bits(instance), instance.copies
    most = 1 if of is None else of.max_per_expert
    places = [
        chosen
        for size in range(1, min(most, 1 + dimms) + 1)
        for chosen in combinations(range(1 + dimms), size)
    ]
    idle = instance.experts - len(rows)
    for layout in product(places, repeat=len(rows)):
        held = [sum(place in chosen for chosen in layout) for place in range(1 + dimms)]
        if instance.dimm_slots is not None and max(held[1:]) > instance.dimm_slots:
            continue
        if of is not None:
            share = -(-of.expert_bytes // dimms) * (held[0] + idle)
            if share + max(held[1:]) * of.expert_bytes + of.reserved_bytes > of.dimm_bytes:
                continue
        for resident in product((0, 1), repeat=len(rows)):
            if sum(resident) > instance.hbm_slots:
                continue
            flags = 0
            for row, chosen, kept in zip(rows, layout, resident, strict=True):
                own = [*chosen, 1 + dimms + (1 - kept)]
                flags |= sum(1 << (row * bits + place) for place in own)
            yield flags


def _schedules(instance: Instance, scenario: Scenario) -> tuple[Ints, Ints]:
    """Return what every schedule of a scenario needs, as flags, and its makespan."""
    dimms, bits = instance.dimms, _bits(instance)
    part, whole = instance.dimm_share or (1, 1)
    need = np.zeros(1, dtype=np.int64)
    # GPU, CPU, PCIe, each DIMM, and each DIMM's reads, which its channel serves.
    loads = np.zeros((1, 3 + 2 * dimms), dtype=np.int64)
    loads[:, 0] = instance.gpu_base_ns or 0
    for e in range(instance.experts):
        if not scenario.tokens[e]:
            continue
        ways = [([(0, scenario.gpu_hit_ns[e])], 1 + dimms, 1 + dimms, 0)]
        for place in range(1 + dimms):
            striped, d = place == 0, place - 1
            gpu = (scenario.gpu_miss_striped_ns if striped else scenario.gpu_miss_localized_ns)[e]
            pcie = 0
            if scenario.gpu_calc_ns is not None:
                gpu = scenario.gpu_calc_ns[e]
                copied = scenario.pcie_striped_ns if striped else scenario.pcie_localized_ns
                pcie = copied[e]
            cpu = (scenario.cpu_striped_ns if striped else scenario.cpu_localized_ns)[e]
            read = instance.dram_striped_ns if striped else instance.dram_localized_ns
            charge = -(-read * part // whole) if striped else read
            busy = range(dimms) if striped else [d]
            reads = [(3 + at, charge) for at in busy]
            full = 1 if striped else 2
            ways.append(([(0, gpu), (2, pcie), *reads], place, 2 + dimms, full))
            ways.append(([(1, cpu), *reads], place, place, full))
            if not striped:
                ways.append(([(3 + d, scenario.ndp_ns[e])], place, place, 0))
        grown, needs = [], []
        for times, place, other, full in ways:
            after = loads.copy()
            for device, time in times:
                after[:, device] += time
            if full == 1:
                after[:, 3 + dimms :] += instance.dram_striped_ns
            elif full == 2:
                after[:, 3 + dimms + place - 1] += instance.dram_localized_ns
            grown.append(after)
            needs.append(need | (1 << (e * bits + place)) | (1 << (e * bits + other)))
        loads, need = np.concatenate(grown), np.concatenate(needs)
    spans = loads[:, : 3 + dimms].max(axis=1)
    return need, np.maximum(spans, _channel_loads(instance, scenario, loads))


def _channel_loads(instance: Instance, scenario: Scenario, loads: Ints) -> Ints:
    """Return the busiest channel's load in each schedule; 0 without channels.

    Each column of reads has the striped ones in full: a channel counts them once.
    """
    if instance.channels is None:
        return np.zeros(len(loads), dtype=np.int64)
    reads = loads[:, 3 + instance.dimms :]
    common = reads.min(axis=1)
    # Striped reads are the multiple of their time that is left when the localized ones are out.
    of = np.array(instance.channels)
    striped = _striped(instance, scenario) * instance.dram_striped_ns
    assert (common >= striped).all()
    sums = [(reads[:, of == c] - striped[:, None]).sum(axis=1) for c in set(instance.channels)]
    return striped + np.maximum.reduce(sums)


def _striped(instance: Instance, scenario: Scenario) -> Ints:
    """Return how many striped reads each schedule has, in the order of `_schedules`."""
    count = np.zeros(1, dtype=np.int64)
    for e in range(instance.experts):
        if scenario.tokens[e]:
            more = [0, 1, 1, *([0, 0, 0] * instance.dimms)]
            count = np.concatenate([count + step for step in more])
    return count
