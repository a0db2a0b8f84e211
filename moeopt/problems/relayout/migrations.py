"""Migration tasks of TriMoE 4.3: which there are, what each is for, and what still fits.

What the slots and the two windows allow: prefetches over PCIe, moves over DIMM-Link.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from .check import link_time_ns
from .instance import Expert, Instance, Kind, Migration


@dataclass(frozen=True)
class LinkUse:
    """DIMM-Link time summed over all links: what one migration takes of it, and what there is."""

    relayout_ns: int
    rebalance_ns: int
    window_ns: int


def link_use(instance: Instance) -> LinkUse:
    """Return what one layout change and one move take of all links' windows together.

    Where all DIMMs share a link this is RE-C7; where each has its own, the sum of RE-C13 over all
    DIMMs, which it implies.
    """
    i, dimms = instance, instance.dimms
    if i.relayout_share_ns is None:
        return LinkUse(i.relayout_ns, i.rebalance_ns, i.dimm_link_window_ns)
    change = i.relayout_ns + (dimms - 1) * i.relayout_share_ns
    return LinkUse(change, 2 * i.rebalance_ns, dimms * i.dimm_link_window_ns)


def prefetch_allowed(instance: Instance) -> int:
    """Return how many prefetches free slots and the PCIe window allow together."""
    limit = min(instance.hbm_free_slots, len(instance.experts))
    if instance.prefetch_ns == 0:
        return limit
    return min(limit, instance.pcie_window_ns // instance.prefetch_ns)


def link_moves_allowed(instance: Instance) -> tuple[bool, bool]:
    """Return whether one layout change, and one move to another DIMM, fits into the window."""
    window = instance.dimm_link_window_ns
    return instance.relayout_ns <= window, instance.rebalance_ns <= window and instance.dimms > 1


@dataclass(frozen=True)
class Task:
    """A migration and by how many ns it relieves what it is meant for.

    For a prefetch or a layout change that is the expert's own cheapest path, for a rebalancing the
    busier one of the two DIMMs' loads of cold experts.
    """

    migration: Migration
    benefit_ns: int

    @property
    def rank(self) -> tuple[int, int]:
        """Sorts the greatest benefit first, ties by the lowest expert."""
        return -self.benefit_ns, self.migration.expert


class Migrations:
    """The tasks chosen so far, the layout they leave and what is left of the windows.

    A newly localized expert goes to the DIMM with the least load of cold experts. There is skew if
    moving a cold expert from the DIMM with most of that load to the one with least lowers the
    larger of the two. Ties: the lowest DIMM. With a link per DIMM both are looked for among the
    DIMMs whose links have time left.
    """

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.chosen: list[Migration] = []
        self.idle = [e for e in instance.experts if e.tokens]
        self.place = {e.expert: e.dimm for e in self.idle}
        self.slots = prefetch_allowed(instance)
        links = 1 if instance.relayout_share_ns is None else instance.dimms
        self.left_ns = [instance.dimm_link_window_ns] * links
        self.cold_ns = [0] * instance.dimms
        for expert in self.idle:
            self._count_cold(expert, 1)

    def choose(self, task: Task) -> None:
        """Take a task that fits; its expert migrates no more."""
        migration = task.migration
        expert = next(e for e in self.idle if e.expert == migration.expert)
        self._count_cold(expert, -1)
        self.chosen.append(migration)
        self.idle.remove(expert)
        if migration.kind == "prefetch":
            self.slots -= 1
            return
        for link, length in enumerate(link_time_ns(self.instance, migration, expert.dimm)):
            self.left_ns[link] -= length
        self.place[expert.expert] = migration.dimm
        self._count_cold(expert, 1)

    def prefetches(self) -> Iterator[Task]:
        """Yield the prefetches of experts whose cheapest path gets cheaper."""
        if not self.slots:
            return
        for e in self.idle:
            if not e.resident:
                now = cheapest_path_ns(e, e.dimm is not None)
                yield from self._task(e, "prefetch", None, now - min(now, e.gpu_hit_ns))

    def relayouts(self) -> Iterator[Task]:
        """Yield the layout changes of experts on a layout that does not suit them."""
        target = self._idlest(0)
        for e in self.idle:
            localized = e.dimm is not None
            gain = cheapest_path_ns(e, localized) - cheapest_path_ns(e, not localized)
            if localized:
                yield from self._task(e, "stripe", None, gain)
            elif target is not None:
                yield from self._task(e, "localize", target, gain)

    def rebalances(self) -> Iterator[Task]:
        """Yield the moves of cold experts from the busiest to the most idle DIMM."""
        length = self.instance.rebalance_ns
        source, target = self._busiest(length), self._idlest(length)
        if source is None or target is None:
            return
        most, least = self.cold_ns[source], self.cold_ns[target]
        for e in self.idle:
            if e.dimm == source and is_cold(e):
                after = max(most - e.ndp_ns, least + e.ndp_ns)
                yield from self._task(e, "rebalance", target, most - after)

    def _task(self, expert: Expert, kind: Kind, dimm: int | None, benefit: int) -> Iterator[Task]:
        if benefit <= 0:
            return
        migration = Migration(expert=expert.expert, kind=kind, dimm=dimm)
        times = link_time_ns(self.instance, migration, expert.dimm)
        if all(time <= left for time, left in zip(times, self.left_ns, strict=True)):
            yield Task(migration, benefit)

    def _able(self, length_ns: int) -> list[int]:
        """Return the DIMMs whose link has so much time left."""
        if self.instance.relayout_share_ns is None:
            return list(range(self.instance.dimms))
        return [d for d, left in enumerate(self.left_ns) if left >= length_ns]

    def _idlest(self, length_ns: int) -> int | None:
        return min(self._able(length_ns), key=lambda d: self.cold_ns[d], default=None)

    def _busiest(self, length_ns: int) -> int | None:
        return max(self._able(length_ns), key=lambda d: self.cold_ns[d], default=None)

    def _count_cold(self, expert: Expert, sign: int) -> None:
        dimm = self.place[expert.expert]
        if dimm is not None and is_cold(expert):
            self.cold_ns[dimm] += sign * expert.ndp_ns


def cheapest_path_ns(expert: Expert, localized: bool) -> int:
    """Return the expert's cheapest path on a layout, without any other expert in the way."""
    if localized:
        gpu, cpu = expert.gpu_miss_localized_ns, expert.cpu_localized_ns
    else:
        gpu, cpu = expert.gpu_miss_striped_ns, expert.cpu_striped_ns
    hosts = min(expert.gpu_hit_ns if expert.resident else gpu, cpu)
    return min(hosts, expert.ndp_ns) if localized else hosts


def is_cold(expert: Expert) -> bool:
    """Tell whether NDP is the expert's cheapest path once it is localized (hosts win ties)."""
    gpu = expert.gpu_hit_ns if expert.resident else expert.gpu_miss_localized_ns
    return expert.ndp_ns < min(gpu, expert.cpu_localized_ns)
