"""Run a problem's heuristic."""

from moeopt.core.settlements import split_name
from moeopt.solvers.task import Outcome, Task


def run(task: Task) -> Outcome:
    """Return the heuristic's solution; it claims no objective and no bound."""
    name, _ = split_name(task.method.name)
    heuristic = task.problem.heuristics.HEURISTICS[name]
    begin = task.deadline.elapsed_s
    with task.deadline.told():
        solution = heuristic(task.instance, **task.method.settled)
    outcome = Outcome(solution, "HEURISTIC", solve_s=task.deadline.elapsed_s - begin)
    if task.deadline.remaining_s == 0:
        outcome.termination = "time_limit"
    return outcome
