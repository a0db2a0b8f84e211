"""A solution as a schedule to look at, and the facts about it that reports ask for."""

from collections import Counter

from moeopt.problems.schedule import Lane
from moeopt.problems.tri_domain import view as tri_domain

from .fixed_layout import after_migrations, schedule_of
from .instance import Instance
from .solution import KINDS, Solution


def lanes(instance: Instance, solution: Solution) -> list[Lane]:
    """Return one lane per device, GPU, CPU, DIMMs, as they are busy after the migrations.

    The migrations themselves are over when the layer starts, so they are not drawn.
    """
    layer = after_migrations(instance, solution.migrations)
    return tri_domain.lanes(layer, schedule_of(instance, solution))


def facts(instance: Instance, solution: Solution) -> dict[str, str | int]:
    """Return where the makespan is, how many migrations of each kind there are, and link time."""
    layer = after_migrations(instance, solution.migrations)
    found = dict(tri_domain.facts(layer, schedule_of(instance, solution)))
    kinds = Counter(migration.kind for migration in solution.migrations)
    found |= {kind: kinds[kind] for kind in KINDS}
    found["dimm_link_ns"] = (kinds["localize"] + kinds["stripe"]) * instance.relayout_ns + kinds[
        "rebalance"
    ] * instance.rebalance_ns
    return found
