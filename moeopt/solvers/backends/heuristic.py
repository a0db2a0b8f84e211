"""Run a problem's heuristic."""

from moeopt.solvers.task import Outcome, Task


def run(task: Task) -> Outcome:
    """Return the heuristic's solution; it claims no objective and no bound."""
    heuristic = task.problem.part("heuristics").HEURISTICS[task.method.name]
    begin = task.deadline.elapsed_s
    solution = heuristic(task.instance)
    return Outcome(solution, "HEURISTIC", solve_s=task.deadline.elapsed_s - begin)
