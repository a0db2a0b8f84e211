"""Run a problem's decision for later loads: forecast from the observed ones, then decide."""

from contextlib import suppress

from moeopt.core.clock import TimeLimitError
from moeopt.core.errors import InputError
from moeopt.core.problem import ROBUST
from moeopt.core.search import Search
from moeopt.problems.holdout import adopted
from moeopt.solvers.interrupt import run_interruptible
from moeopt.solvers.task import Outcome, Task


def run(task: Task) -> Outcome:
    """Return the decision as a solution of the observed loads, on which the checker recomputes it.

    What the decision is worth on the sampled futures stands in `Outcome.raw_status`: it is a sum
    over them, or a quantile, and no objective of this instance.
    """
    begin = task.deadline.elapsed_s
    futures = task.futures
    if task.problem.robust is None:
        raise InputError(f"method: {task.problem.name} has no {ROBUST!r}")
    algorithm = task.problem.robust()
    search = Search(task.deadline.remaining_s, task.seed, task.workers)

    def decide() -> None:
        with suppress(TimeLimitError):
            draw = algorithm.draw(task.instance, futures, task.seed)
            algorithm.decide(task.instance, draw, search, futures)

    with task.deadline.told(gives_up=True):
        running = run_interruptible(decide, search.stop, search.limit_s)
    if search.solution is None:  # a kernel is compiled for the first time, say
        with task.deadline.told():
            start = task.problem.heuristics.WARM_START(task.instance)
        outcome = Outcome(start, "NOTHING DECIDED in time: a heuristic's answer", "time_limit")
    else:
        of = "mean" if futures.quantile is None else f"{futures.quantile:g}-quantile"
        here = adopted(task.instance, search.solution)
        outcome = Outcome(here, f"ROBUST ({of} of sampled futures)")
    if running.interrupted:
        outcome.termination = "interrupted"
    elif search.stopped or not running.ended:
        outcome.termination = "time_limit"
    outcome.solve_s = task.deadline.elapsed_s - begin
    return outcome
