"""The migration tasks of TriMoE 4.3, listed on the layout that the tasks chosen so far leave."""

from collections.abc import Iterator
from dataclasses import dataclass

from .instance import Expert, Instance
from .options import prefetch_allowed
from .solution import Kind, Migration


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

    Settled where TriMoE 4.3 is silent: an expert is hot if holding it in the GPU's memory makes its
    cheapest path cheaper; its layout mismatches its optimal execution unit if the other layout
    makes its cheapest path cheaper; it is cold if NDP is its cheapest path where it lies. A newly
    localized expert goes to the DIMM with the least load of cold experts. There is skew if moving a
    cold expert from the DIMM with most of that load to the one with least lowers the larger of
    the two. Ties: the lowest DIMM.
    """

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.chosen: list[Migration] = []
        self.idle = [e for e in instance.experts if e.tokens]
        self.place = {e.expert: e.dimm for e in self.idle}
        self.slots = prefetch_allowed(instance)
        self.link_ns = instance.dimm_link_window_ns
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
        self.link_ns -= self._length_ns(migration.kind)
        self.place[expert.expert] = migration.dimm
        self._count_cold(expert, 1)

    def prefetches(self) -> Iterator[Task]:
        """Yield the prefetches of hot experts."""
        if self.slots:
            for e in self.idle:
                if not e.resident:
                    now = cheapest_path_ns(e, e.dimm is not None)
                    yield from self._task(e, "prefetch", None, now - min(now, e.gpu_hit_ns))

    def relayouts(self) -> Iterator[Task]:
        """Yield the layout changes of experts on a layout that does not suit them."""
        if self._length_ns("localize") <= self.link_ns:
            idlest = self.cold_ns.index(min(self.cold_ns))
            for e in self.idle:
                localized = e.dimm is not None
                gain = cheapest_path_ns(e, localized) - cheapest_path_ns(e, not localized)
                kind: Kind = "stripe" if localized else "localize"
                yield from self._task(e, kind, None if localized else idlest, gain)

    def rebalances(self) -> Iterator[Task]:
        """Yield the moves of cold experts from the busiest to the most idle DIMM."""
        if self._length_ns("rebalance") <= self.link_ns:
            most, least = max(self.cold_ns), min(self.cold_ns)
            busiest, idlest = self.cold_ns.index(most), self.cold_ns.index(least)
            for e in self.idle:
                if e.dimm == busiest and is_cold(e):
                    after = max(most - e.ndp_ns, least + e.ndp_ns)
                    yield from self._task(e, "rebalance", idlest, most - after)

    def _task(self, expert: Expert, kind: Kind, dimm: int | None, benefit: int) -> Iterator[Task]:
        if benefit > 0:
            yield Task(Migration(expert=expert.expert, kind=kind, dimm=dimm), benefit)

    def _length_ns(self, kind: Kind) -> int:
        i = self.instance
        return i.rebalance_ns if kind == "rebalance" else i.relayout_ns

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
