"""tri_domain and relayout: what may become of all experts of one DIMM together, as one choice.

A *mode* of an expert says where it runs and what migrates. It takes of the shared resources, and
keeps its own DIMM busy. A *plan* has a mode for each expert of a DIMM. With q striped reads, each
of which keeps every DIMM busy for its share, a plan fits if its own work does. A solution chooses a
plan for each DIMM, so that none is lost; a plan that takes no less of anything than another one is
left out, since the other can stand in its place. DIMMs with the same plans are alike, and counted.
For each number of striped reads a form may name lengths, cut to which experts that are brought
find places in what plans leave (Lemma 6 of relayout's specification). Rows that are not there, such
as those of channels, only make more possible.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import product
from math import gcd
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from moeopt.algorithms.labels import undominated as kept_rows
from moeopt.certificates.lemmas.rows import LemmaModel
from moeopt.core.errors import InputError

if TYPE_CHECKING:
    from moeopt.problems.relayout import Instance as Relayout
    from moeopt.problems.tri_domain import Instance as TriDomain

PLANS = "all experts of one DIMM choose together, and what another choice dominates is left out"

MOST_PLANS = 60_000
"""Most plans of one group."""

MOST_LENGTHS, LONGEST = 16, 2**62
"""Most lengths of places for a number of reads, and what all are below."""

Ints = NDArray[np.int64]
Mode = tuple[int, ...]
"""Own work of the expert's DIMM, then what it takes of every shared resource."""


def undominated(plans: Ints) -> Ints:
    """Return the rows of which no other one is as small everywhere; of equal ones the first."""
    return plans[kept_rows(plans)]


def combined(group: Sequence[Sequence[Mode]], limits: Sequence[int]) -> Ints:
    """Return the plans of a group: a mode for each expert, within limits, none dominated."""
    most = np.array(limits, np.int64)
    plans = np.zeros((1, len(limits)), np.int64)
    for modes in group:
        sums = plans[:, None] + np.array(modes, np.int64).reshape(-1, len(limits))[None]
        sums = sums.reshape(-1, len(limits))
        plans = undominated(sums[(sums <= most).all(axis=1)])
        if len(plans) > MOST_PLANS:
            raise InputError(f"form: a DIMM has more than {MOST_PLANS} plans")
    return plans


def of_fixed_layout(instance: "TriDomain", below: int, form: Mapping[str, Any]) -> LemmaModel:
    """Return the model of tri_domain: shared are GPU, CPU and PCIe.

    The striped reads of a choice are at least those of every striped expert's shorter one.
    """
    limit = below - 1
    groups: dict[int | None, list[list[Mode]]] = {}
    always = 0
    for number, expert in enumerate(instance.experts):
        modes: list[Mode] = []
        if expert.copies:
            raise InputError("form: plans are for experts with one copy each")
        for domain in ("gpu", "cpu", "ndp"):
            gpu = expert.gpu_work_ns if domain == "gpu" else 0
            link = (expert.pcie_ns or 0) if domain == "gpu" else 0
            cpu = expert.cpu_ns if domain == "cpu" else 0
            read = {"gpu": expert.gpu_dram_ns, "cpu": expert.cpu_dram_ns}.get(domain, 0)
            if domain != "ndp":
                own = 0 if expert.dimm is None else read
                modes.append((own, gpu, cpu, link))
            elif expert.dimm is not None and expert.ndp_ns is not None:
                modes.append((expert.ndp_ns, gpu, cpu, link))
        if expert.dimm is None:
            reads = (expert.gpu_dram_ns, expert.cpu_dram_ns)
            always += min(map(instance.striped_charge_ns, reads))
            groups[-1 - number] = [modes]
        else:
            groups.setdefault(expert.dimm, []).append(modes)
    made = LemmaModel(PLANS)
    makespan = made.whole(always, limit) if always <= limit else made.whole(0, limit)
    if always > limit:
        made.row([(makespan, 0)], ">=", 1, "TD-C5")
    rooms = (limit - always, limit - instance.base_ns, limit, limit)
    loads: list[list[tuple[int, int]]] = [[(makespan, -1)] for _ in rooms]
    for plans, count in _alike(undominated(combined(g, rooms)[:, 1:]) for g in groups.values()):
        flags = _chosen(made, plans, count, "TD-C1")
        for load, column in zip(loads[1:], plans.T, strict=True):
            load += zip(flags, column.tolist(), strict=True)
    for load, base, rule in zip(
        loads[1:], (instance.base_ns, 0, 0), ("TD-C3", "TD-C4", "TD-C7"), strict=True
    ):
        made.row(load, "<=", -base, rule)
    made.objective = [[makespan, 1]]
    return made


def _alike(groups: Iterable[Ints]) -> list[tuple[Ints, int]]:
    """Return the plans of groups, each once, and how many groups have them."""
    found: dict[bytes, tuple[Ints, int]] = {}
    for plans in groups:
        ordered = plans[np.lexsort(plans.T[::-1])]
        key = ordered.tobytes() + bytes(ordered.shape[1])
        found[key] = ordered, found.get(key, (ordered, 0))[1] + 1
    return list(found.values())


def _chosen(
    made: LemmaModel, plans: Ints, count: int, rule: str, when: int | None = None
) -> list[int]:
    """Add how often each plan is chosen: `count` in all, or 0 unless `when` is 1."""
    chosen = [made.whole(0, count) for _ in plans]
    flag = [] if when is None else [(when, -count)]
    made.row([*((one, 1) for one in chosen), *flag], "=", 0 if flag else count, rule)
    return chosen


def of_migrations(instance: "Relayout", below: int, form: Mapping[str, Any]) -> LemmaModel:
    """Return the model of relayout: one block of plans for each number of striped reads.

    Shared are GPU, CPU, PCIe, the window of DIMM-Link, prefetches, striped reads, and the work of
    all DIMMs together. Where each DIMM has a link, the sum over all links stands for the window.
    Of ``form["places"]`` each entry is a number of reads and lengths: of each, as many places that
    are no shorter stay in DIMMs as there is work, no shorter, that comes to others.
    """
    places = checked_places(form.get("places", []))
    limit, dimms = below - 1, instance.dimms
    share = instance.striped_charge_ns(instance.dram_striped_ns)
    slots = instance.hbm_free_slots
    if instance.prefetch_ns:
        slots = min(slots, instance.pcie_window_ns // instance.prefetch_ns)
    change, move, window = instance.relayout_ns, instance.rebalance_ns, instance.dimm_link_window_ns
    if instance.relayout_share_ns is not None:
        change += (dimms - 1) * instance.relayout_share_ns
        move, window = 2 * move, window * dimms
    window -= window % (gcd(change, move) or 1)
    groups: dict[int, list[list[Mode]]] = {}
    for number, expert in enumerate(instance.experts):
        if expert.tokens:
            place = -1 - number if expert.dimm is None else expert.dimm
            groups.setdefault(place, []).append(_modes(instance, expert, change, move))
    groups |= {dimm: [] for dimm in range(dimms) if dimm not in groups}
    active = sum(map(len, groups.values()))
    today = [group[0][0] for place, group in groups.items() if place < 0]  # hits, prefetched or not
    carried = window // change if change else active
    most = min(active, len(today) + carried, limit // share if share else active)
    if instance.channels and instance.dram_striped_ns:
        most = min(most, limit // instance.dram_striped_ns)
    blocks = range(max(0, sum(hit[5] for hit in today) - carried - slots), most + 1)
    moves = window // min(change, move) if change and move else active
    every = [mode for group in groups.values() for one in group for mode in one]
    unit = gcd(*(mode[place] for mode in every for place in (0, 7))) or 1
    sizes = {  # the least that hosts read from all DIMMs, and from one
        (host, min((m[host + 1] for m in every if m[host + 1] and m[place]), default=0))
        for host, place in product((0, 1, 2), (6, 7))
    }
    made = LemmaModel(PLANS)
    makespan = made.whole(0, limit)
    flags = made.flags(len(blocks))
    if flags:
        made.choice = len(made.rows)
        made.one(flags, "RE-C10")
    else:
        made.row([(makespan, 0)], ">=", 1, "RE-C10")
    for reads, block in zip(blocks, flags, strict=True):
        room = (limit - reads * share) // unit * unit
        shared = (limit - instance.base_ns, limit, limit, window, slots, reads, 0, room * dimms)
        lengths = places.get(reads, ())
        loads: list[list[tuple[int, int]]] = [[] for _ in (*shared, *lengths)]
        plans_of = [
            _with_places(group, place >= 0, (room, *shared), lengths, moves)
            for place, group in groups.items()
        ]
        for plans, count in _alike(plans_of):
            chosen = _chosen(made, plans, count, "RE-C1", block)
            for load, column in zip(loads, plans.T, strict=True):
                load += zip(chosen, column.tolist(), strict=True)
        for host, size in sorted(sizes):
            if size:
                _count(made, loads[host], shared[host], block, size)
        sides = (*shared[:6], -reads, shared[7], *[0] * len(lengths))
        rules = ("RE-C8", "RE-C9", "RE-C12", "RE-C7", "RE-C5", *["RE-C10"] * (3 + len(lengths)))
        for load, side, rule in zip(loads, sides, rules, strict=True):
            made.row([*load, (block, -side)], "<=", 0, rule)
        for load, base in zip(loads[:3], (instance.base_ns, 0, 0), strict=True):
            made.row([*load, (block, base), (makespan, -1)], "<=", 0, "makespan")
    made.objective = [[makespan, 1]]
    return made


def _count(made: LemmaModel, load: list[tuple[int, int]], most: int, flag: int, size: int) -> None:
    """Say by rounding (Gomory) what work of this size fits a host; the count is to branch on."""
    total, rest = made.whole(0, max(most, 0) // size), max(most, 0) % size
    made.first.append(total)
    made.row([*((j, work // size) for j, work in load), (total, -1)], "=", 0, "rounding")
    rounded = [(j, work // size * (size - rest) + max(0, work % size - rest)) for j, work in load]
    made.row([*rounded, (flag, -(max(most, 0) // size) * (size - rest))], "<=", 0, "rounding")


@lru_cache(maxsize=4096)
def _offers(room: int, lengths: Mode, most: int) -> Ints:
    """Return what can be taken in, cut to lengths, rising: how many are as long as each."""
    found: list[tuple[int, Mode]] = [(room, (0,))]
    for length in reversed(lengths):
        found = [
            (rest - more * length, (counts[0] + more, *counts))
            for rest, counts in found
            for more in range(min(rest // length, most - counts[0]) + 1)
        ]
    return -undominated(-np.array([counts[:-1] for _, counts in found], np.int64))


def _with_places(
    group: Sequence[Sequence[Mode]], dimm: bool, limits: Sequence[int], lengths: Mode, moves: int
) -> Ints:
    """Return a group's plans without their own work, and with what they bring less what they take.

    What no DIMM has room for is left out. As many striped reads are met exactly: a column has them
    less than none. For each length: the pieces of work that come to other DIMMs and are as long at
    least, less what the group's own DIMM, if it has one, offers of these in what is left of it.
    """
    modes = [
        [
            (*mode[:7], -mode[6], mode[7], *(int(mode[7] - mode[0] >= n) for n in lengths))
            for mode in expert
            if mode[7] <= limits[0]
        ]
        for expert in group
    ]
    plans = combined(modes, (*limits, *[len(group)] * len(lengths)))
    if dimm and lengths and len(plans):
        some = [_offers(limits[0] - own, lengths, moves) for own in plans[:, 0].tolist()]
        plans = np.repeat(plans, [len(one) for one in some], axis=0)
        plans[:, len(limits) :] -= np.concatenate(some)
    return undominated(plans[:, 1:])


def checked_places(given: Any) -> dict[int, Mode]:
    """Return the lengths of a form's places for each number of striped reads."""
    entries: list[Any] = given if isinstance(given, list) else [None]
    for one in entries:
        known = isinstance(one, list) and 0 < len(one) <= 1 + MOST_LENGTHS
        if not known or not all(type(n) is int and 0 <= n < LONGEST for n in one) or 0 in one[1:]:
            raise InputError("form: places: must be lists of a number of reads and lengths from 1")
    return {one[0]: tuple(sorted(set(one[1:]))) for one in entries}


def _modes(instance: "Relayout", expert: Any, change: int, move: int) -> list[Mode]:
    """Return an expert's modes: own work, GPU, CPU, PCIe, link, prefetches, reads, all work."""
    held, read = expert.resident, instance.dram_localized_ns
    hit = expert.gpu_work_ns(in_memory=True, striped=True)

    def runs(striped: bool, link: int, here: bool) -> Iterable[Mode]:
        """Yield what hosts and NDP do where the copy lies after a migration of this length."""
        work = 0 if striped else read
        gpu = expert.gpu_work_ns(in_memory=False, striped=striped)
        cpu = expert.cpu_striped_ns if striped else expert.cpu_localized_ns
        pcie = expert.pcie_ns(striped=striped)
        if not held:
            yield work * here, gpu, 0, pcie, link, 0, int(striped), work
        yield work * here, 0, cpu, 0, link, 0, int(striped), work
        if not striped:
            yield expert.ndp_ns * here, 0, 0, 0, link, 0, 0, expert.ndp_ns

    found: list[Mode] = [(0, hit, 0, 0, 0, int(not held), 0, 0)]
    found += runs(expert.dimm is None, 0, here=True)
    found += runs(expert.dimm is not None, change, here=False)
    if expert.dimm is not None:
        found += runs(False, move, here=False)
    return found
