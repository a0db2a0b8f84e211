"""The paper's migration policy, its variants and the baselines.

Each chooses migrations first; TriMoE's refined schedule of the layout that they leave (TriMoE 4.2)
follows. `migrations` says which migration tasks there are; what the paper leaves open about them is
in `assumptions`.
"""

from .check import objective
from .fixed_layout import refined, refined_after, refined_ns
from .instance import Instance, Solution
from .migrations import Migrations, Task


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


def benefit_greedy(instance: Instance, *, benefit_reading: str = "cheapest path") -> Solution:
    """TriMoE's policy: rank all feasible tasks by predicted benefit, fill the windows (TriMoE 4.3).

    The paper ranks "all feasible migration tasks by their predicted benefit and greedily executes
    them in priority order until their cumulative estimated time fills this window budget", and
    prefetching is "high-priority". By default of the assumption `benefit_reading`, benefit is what
    each action is said to be for, in ns: a prefetch or a layout change makes its expert's cheapest
    path cheaper, a rebalancing lowers the load of the busier DIMM. Prefetches come first; the
    ranking is renewed after each task, since that changes which DIMM is busiest. A kind of task
    that no longer fits ends, the other goes on. The result is not compared with doing nothing: the
    paper does not.
    """
    if benefit_reading == "makespan":
        return benefit_makespan(instance)
    migrations = Migrations(instance)
    while task := _first(list(migrations.prefetches())):
        migrations.choose(task)
    while task := _first([*migrations.relayouts(), *migrations.rebalances()]):
        migrations.choose(task)
    return refined(instance, migrations.chosen)


def benefit_makespan(instance: Instance) -> Solution:
    """Rank by the other reading of benefit: how much the refined makespan falls (TriMoE 4.3).

    The same tasks as in `benefit_greedy`, of which this is ``benefit_reading="makespan"``: each is
    tried with the refined schedule, and the best is taken as long as the makespan falls. A prefetch
    wins ties, then a layout change, then the greater benefit in the sense of `benefit_greedy`.
    """
    migrations = Migrations(instance)
    least_ns = refined_ns(instance)
    while True:
        tasks = [
            *sorted(migrations.prefetches(), key=lambda task: task.rank),
            *sorted(migrations.relayouts(), key=lambda task: task.rank),
            *sorted(migrations.rebalances(), key=lambda task: task.rank),
        ]
        _, *spans = refined_after(instance, migrations.chosen, [task.migration for task in tasks])
        if not spans or min(spans) >= least_ns:
            return refined(instance, migrations.chosen)
        least_ns = min(spans)
        migrations.choose(tasks[spans.index(least_ns)])


def best_cheap(instance: Instance) -> Solution:
    """Return the best of the cheap ones: a migration policy may be worse than doing nothing."""
    tried = [heuristic(instance) for heuristic in (benefit_greedy, rebalance_only, none)]
    return min(tried, key=lambda solution: objective(instance, solution))


WARM_START = best_cheap
"""The heuristic whose schedule the exact methods start from."""


def _first(tasks: list[Task]) -> Task | None:
    """Return the task of greatest benefit; at a tie the lowest expert, then the first listed."""
    return min(tasks, key=lambda task: task.rank) if tasks else None
