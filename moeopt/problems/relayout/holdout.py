"""Migrations decided on predicted loads, executed on the loads that came."""

from collections.abc import Iterable
from dataclasses import dataclass

from moeopt.core.errors import InputError
from moeopt.problems.executed import Run
from moeopt.problems.relayout.fixed_layout import fixed_layout
from moeopt.problems.relayout.instance import Expert, Instance, Migration, Solution
from moeopt.problems.tri_domain.fixed_layout import EXACT, Schedule, schedule_name, scheduled

IS_SCHEDULED = True


@dataclass(frozen=True)
class ExecutedMigrations:
    """A layer run after some migrations.

    Attributes
    ----------
    solution
        Valid for the instance that it was run on: migrations of experts without tokens, which
        change nothing and which the checker does not allow, are left out.
    makespan_ns
        Its objective.
    idle_migrations
        How many were left out.
    schedule
        The name of who decided what runs where.
    proven
        Whether no schedule is shorter after these migrations; a rule proves nothing.
    """

    solution: Solution
    makespan_ns: int
    idle_migrations: int
    schedule: str
    proven: bool


def migrated(instance: Instance, migrations: Iterable[Migration]) -> tuple[Expert, ...]:
    """Return the experts where they lie after the migrations.

    Raises
    ------
    InputError
        If a migration names an expert that the instance does not have.
    """
    experts = {expert.expert: expert for expert in instance.experts}
    for number, migration in enumerate(migrations):
        if migration.expert not in experts:
            raise InputError(f"migrations[{number}]: there is no expert {migration.expert}")
        prefetched = migration.kind == "prefetch"
        change = {"resident": True} if prefetched else {"dimm": migration.dimm}
        experts[migration.expert] = experts[migration.expert].model_copy(update=change)
    return tuple(experts.values())


def execute(
    instance: Instance, migrations: Iterable[Migration], schedule: Schedule = EXACT
) -> ExecutedMigrations:
    """Run a layer after migrations that were decided on other loads.

    Parameters
    ----------
    instance
        The loads that came, on the layout before the migrations.
    migrations
        As decided, e.g. on the instance of the predicted loads.
    schedule
        Decides what runs where, on the loads that came: "exact", "trimoe" or a function of a
        tri_domain instance.

    Raises
    ------
    InputError
        If a migration names an expert that the instance does not have, or if there is no such
        schedule.
    """
    decided = tuple(migrations)
    experts = migrated(instance, decided)
    layer = fixed_layout(
        instance.name,
        instance.dimms,
        instance.dram_striped_ns,
        instance.dram_localized_ns,
        experts,
        instance,
    )
    run = scheduled(layer, schedule, instance.gpu_base_ns or 0)
    active = {expert.expert for expert in experts if expert.tokens}
    kept = tuple(migration for migration in decided if migration.expert in active)
    assignment = tuple(run.domains.get(expert.expert) for expert in experts)
    solution = Solution(instance=instance.name, migrations=kept, assignment=assignment)
    idle = len(decided) - len(kept)
    return ExecutedMigrations(solution, run.makespan_ns, idle, schedule_name(schedule), run.proven)


def run(instance: Instance, decision: Solution, schedule: Schedule) -> Run:
    """Return what a decision's migrations cost on the loads of `instance`; see `execute`."""
    executed = execute(instance, decision.migrations, schedule)
    return Run(executed.makespan_ns, unproven=int(schedule == EXACT and not executed.proven))


def adopted(instance: Instance, decision: Solution, schedule: Schedule) -> Solution:
    """Return a decision's migrations with a schedule for `instance`; see `execute`."""
    return execute(instance, decision.migrations, schedule).solution
