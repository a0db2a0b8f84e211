"""Executing a relayout solution: its layer as one of tri_domain, after the migrations."""

from moeopt.problems.tri_domain.execute import execute as run
from moeopt.sim.engine.core import Executed

from .fixed_layout import after_migrations, schedule_of
from .instance import Instance, Solution


def execute(instance: Instance, solution: Solution) -> Executed:
    """Run a valid solution; migrations are over when the layer starts."""
    return run(after_migrations(instance, solution.migrations), schedule_of(instance, solution))
