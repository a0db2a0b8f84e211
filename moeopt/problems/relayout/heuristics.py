"""The paper's migration policy, its variants and the baselines.

Each chooses migrations first; TriMoE's refined schedule of the layout that they leave (TriMoE 4.2)
follows. `Migrations` says which migration tasks there are and what is settled about them.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from .check import objective
from .fixed_layout import refined, refined_ns
from .instance import Expert, Instance
from .solution import Kind, Migration, Solution
from .windows import prefetch_allowed


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


def none(instance: Instance) -> Solution:
    """No migration: the refined schedule of today's layout (TriMoE without 4.3)."""
    return refined(instance)


def rebalance_only(instance: Instance) -> Solution:
    """Cold expert rebalancing alone (TriMoE 4.3, the third action).

    "If skew is detected, it greedily selects and migrates cold experts one by one from the busiest
    DIMM to the most idle DIMM": each time the one that lowers the larger of the two loads most.
    """
    migrations = Migrations(instance)
    while task := _first(list(migrations.rebalances())):
        migrations.choose(task)
    return refined(instance, migrations.chosen)


def benefit_greedy(instance: Instance) -> Solution:
    """TriMoE's policy: rank all feasible tasks by predicted benefit, fill the windows (TriMoE 4.3).

    The paper ranks "all feasible migration tasks by their predicted benefit and greedily executes
    them in priority order until their cumulative estimated time fills this window budget", and
    prefetching is "high-priority". It does not say what benefit is. Settled: what each action is
    said to be for, in ns: a prefetch or a layout change makes its expert's cheapest path cheaper, a
    rebalancing lowers the load of the busier DIMM. Prefetches come first and have PCIe for
    themselves; the other two share DIMM-Link. The ranking is renewed after each task, since that
    changes which DIMM is busiest. A kind of task that no longer fits ends, the other goes on. The
    result is not compared with doing nothing: the paper does not.
    """
    migrations = Migrations(instance)
    while task := _first(list(migrations.prefetches())):
        migrations.choose(task)
    while task := _first([*migrations.relayouts(), *migrations.rebalances()]):
        migrations.choose(task)
    return refined(instance, migrations.chosen)


def benefit_makespan(instance: Instance) -> Solution:
    """Rank by the other reading of benefit: how much the refined makespan falls (TriMoE 4.3).

    The same tasks as in `benefit_greedy`, each tried with the refined schedule; the best is
    taken as long as the makespan falls. A prefetch wins ties, then a layout change, then the
    greater benefit in the sense of `benefit_greedy`.
    """
    migrations = Migrations(instance)
    least_ns = refined_ns(instance)
    while True:
        tasks = [
            *sorted(migrations.prefetches(), key=lambda task: task.rank),
            *sorted(migrations.relayouts(), key=lambda task: task.rank),
            *sorted(migrations.rebalances(), key=lambda task: task.rank),
        ]
        spans = [refined_ns(instance, [*migrations.chosen, task.migration]) for task in tasks]
        if not spans or min(spans) >= least_ns:
            return refined(instance, migrations.chosen)
        least_ns = min(spans)
        migrations.choose(tasks[spans.index(least_ns)])


def best_cheap(instance: Instance) -> Solution:
    """Return the best of the cheap ones: a migration policy may be worse than doing nothing."""
    tried = [heuristic(instance) for heuristic in (benefit_greedy, rebalance_only, none)]
    return min(tried, key=lambda solution: objective(instance, solution))


HEURISTICS: dict[str, Callable[..., Solution]] = {
    "benefit-greedy": benefit_greedy,
    "benefit-makespan": benefit_makespan,
    "rebalance-only": rebalance_only,
    "none": none,
}

WARM_START = best_cheap
"""The heuristic whose schedule the exact methods start from."""


def _first(tasks: list[Task]) -> Task | None:
    """Return the task of greatest benefit; at a tie the lowest expert, then the first listed."""
    return min(tasks, key=lambda task: task.rank) if tasks else None
