"""Run a user's rule: in a thread that the time limit can leave behind, and nothing on trust."""

from moeopt.solvers.interrupt import run_interruptible
from moeopt.solvers.rules import RuleFailedError, apply_rule
from moeopt.solvers.task import Outcome, Task


def run(task: Task) -> Outcome:
    """Return the rule's solution if it is one and the checker finds nothing wrong with it."""
    rule = task.method.rule
    if rule is None:
        raise ValueError(f"{task.method.name} is not a rule")
    begin = task.deadline.elapsed_s
    copy = task.instance.model_copy(deep=True)  # the checker's own stays as it is, whatever happens
    copied = task.deadline.elapsed_s
    try:
        running = run_interruptible(
            lambda: apply_rule(rule, copy), lambda: None, task.deadline.remaining_s
        )
    except RuleFailedError as error:
        return _failed(task, str(error), begin)
    if running.value is None:
        outcome = Outcome(None, "LEFT BEHIND", "time_limit")
        outcome.termination = "interrupted" if running.interrupted else "time_limit"
    else:
        check = task.problem.check
        for constraint, sentence in check.violations(task.instance, running.value):
            return _failed(task, f"its solution violates {constraint}: {sentence}", begin)
        outcome = Outcome(running.value, "HEURISTIC")
    outcome.build_s, outcome.solve_s = copied - begin, task.deadline.elapsed_s - copied
    return outcome


def _failed(task: Task, reason: str, begin: float) -> Outcome:
    return Outcome(None, reason, failed=True, solve_s=task.deadline.elapsed_s - begin)
