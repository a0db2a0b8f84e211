"""Run a problem's heuristic."""

from moeopt.problems.settlements import split_name
from moeopt.solvers.task import Outcome, Task


def run(task: Task) -> Outcome:
    """Return the heuristic's solution; it claims no objective and no bound."""
    name, _ = split_name(task.method.name)
    heuristic = task.problem.part("heuristics").HEURISTICS[name]
    begin = task.deadline.elapsed_s
    solution = heuristic(task.instance, **task.method.settled)
    return Outcome(solution, "HEURISTIC", solve_s=task.deadline.elapsed_s - begin)
