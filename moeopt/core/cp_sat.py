"""Limits of CP-SAT by the clock that a thread goes by: seconds, or work."""

from typing import Any

from moeopt.core.clock import counts_work, solving_clock, spend

DETERMINISTIC_PER_UNIT = 1.0
"""CP-SAT's deterministic time per unit of work: about a second of one core, too."""


def limit(parameters: Any, remaining: float, workers: int = 1) -> None:
    """Set a solver's limits and threads.

    Under a work limit it runs in one thread and by its own deterministic time; call `spent`
    afterwards.

    Parameters
    ----------
    parameters
        Of a `CpSolver`.
    remaining
        What is left, by the clock of this thread.
    workers
        Threads, where seconds count.
    """
    seconds = solving_clock().seconds_for(remaining)
    if seconds != float("inf"):
        parameters.max_time_in_seconds = max(0.0, seconds)
    parameters.num_workers = workers
    if counts_work():
        parameters.num_workers = 1
        parameters.max_deterministic_time = max(0.0, remaining) * DETERMINISTIC_PER_UNIT


def spent(solver: Any) -> None:
    """Report what a solver did, once it has come to an end."""
    spend(solver.response_proto.deterministic_time / DETERMINISTIC_PER_UNIT)
