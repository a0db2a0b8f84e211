"""The step that runs: migrations executed on its loads."""

from collections.abc import Iterable
from dataclasses import dataclass

from moeopt.core.problem import EXACT, Run, Schedule
from moeopt.problems.tri_domain.fixed_layout import scheduled

from .fixed_layout import after_migrations
from .instance import Instance, Migration, Solution


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
    proven
        Whether no schedule is shorter after these migrations; a rule proves nothing.
    """

    solution: Solution
    makespan_ns: int
    proven: bool


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
    run = scheduled(after_migrations(instance, decided), schedule)
    kept = tuple(migration for migration in decided if migration.expert in run.domains)
    assignment = tuple(run.domains.get(expert.expert) for expert in instance.experts)
    solution = Solution(instance=instance.name, migrations=kept, assignment=assignment)
    return ExecutedMigrations(solution, run.makespan_ns, run.proven)


def run(instance: Instance, decision: Solution, schedule: Schedule) -> Run:
    """Return what a decision's migrations cost on the loads of `instance`; see `execute`."""
    executed = execute(instance, decision.migrations, schedule)
    return Run(executed.makespan_ns, unproven=int(schedule == EXACT and not executed.proven))
