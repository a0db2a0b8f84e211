"""Migrations decided on predicted loads, executed on the loads that came."""

from collections.abc import Iterable
from dataclasses import dataclass

from moeopt.core.errors import InputError
from moeopt.problems.executed import Run
from moeopt.problems.relayout.fixed_layout import fixed_layout
from moeopt.problems.relayout.instance import Expert, Instance
from moeopt.problems.relayout.solution import Migration, Solution
from moeopt.problems.tri_domain.fixed_layout import EXACT, Schedule, schedule_name, scheduled

IS_SCHEDULED = True


@dataclass(frozen=True)
class Executed:
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


@dataclass(frozen=True)
class HeldOut:
    """What migrations promised on the predicted loads and what they brought on the real ones.

    Attributes
    ----------
    predicted_unmoved_ns, predicted_ns
        Makespan on the predicted loads, without and with the migrations.
    unmoved_ns
        Makespan on the real loads without any migration.
    executed
        The run on the real loads, with them.
    """

    predicted_unmoved_ns: int
    predicted_ns: int
    unmoved_ns: int
    executed: Executed

    @property
    def predicted_gain_ns(self) -> int:
        """By how much the makespan was to fall."""
        return self.predicted_unmoved_ns - self.predicted_ns

    @property
    def gain_ns(self) -> int:
        """By how much it fell; negative if the migrations did harm."""
        return self.unmoved_ns - self.executed.makespan_ns

    def regret_ns(self, optimum_ns: int) -> int:
        """Return how far the run is above the optimum in hindsight.

        Parameters
        ----------
        optimum_ns
            The optimum of the instance with the real loads, which may choose its migrations
            knowing them, or a lower bound of it: then this is an upper limit of the regret.
        """
        return self.executed.makespan_ns - optimum_ns


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
) -> Executed:
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
    return Executed(solution, run.makespan_ns, idle, schedule_name(schedule), run.proven)


def run(instance: Instance, decision: Solution, schedule: Schedule) -> Run:
    """Return what a decision's migrations cost on the loads of `instance`; see `execute`."""
    executed = execute(instance, decision.migrations, schedule)
    return Run(executed.makespan_ns, unproven=int(schedule == EXACT and not executed.proven))


def adopted(instance: Instance, decision: Solution, schedule: Schedule) -> Solution:
    """Return a decision's migrations with a schedule for `instance`; see `execute`."""
    return execute(instance, decision.migrations, schedule).solution


def hold_out_migrations(
    predicted: Instance, actual: Instance, decision: Solution, schedule: Schedule = EXACT
) -> HeldOut:
    """Hold what migrations promised against what they bring.

    Parameters
    ----------
    predicted, actual
        The same layout with the predicted and the real loads: made by the generator with ``loads``
        "predicted" and "actual" and all else equal.
    decision
        A solution of `predicted`; only its migrations are used.
    schedule
        Decides what runs where, in all four runs.

    Raises
    ------
    InputError
        If the two instances differ in more than loads.
    """
    _check_same_layout(predicted, actual)
    return HeldOut(
        predicted_unmoved_ns=execute(predicted, (), schedule).makespan_ns,
        predicted_ns=execute(predicted, decision.migrations, schedule).makespan_ns,
        unmoved_ns=execute(actual, (), schedule).makespan_ns,
        executed=execute(actual, decision.migrations, schedule),
    )


def _check_same_layout(predicted: Instance, actual: Instance) -> None:
    def places(instance: Instance) -> object:
        rows = [(expert.expert, expert.resident, expert.dimm) for expert in instance.experts]
        rest = instance.model_dump(exclude={"name", "provenance", "experts"})
        return rows, rest

    if places(predicted) != places(actual):
        raise InputError(
            f"{predicted.name}, {actual.name}: must be the same machine and layout; only tokens"
            " and the costs of experts may differ"
        )
