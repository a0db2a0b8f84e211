"""Run a user's rule: where the time limit can end it or leave it behind; nothing on trust."""

from moeopt.solvers.interrupt import run_interruptible
from moeopt.solvers.rule_process import apply_apart, runs_apart
from moeopt.solvers.rules import RuleFailedError, apply_rule
from moeopt.solvers.task import Outcome, Task


def run(task: Task) -> Outcome:
    """Return the rule's solution if it is one and the checker finds nothing wrong with it."""
    rule = task.method.rule
    if rule is None:
        raise ValueError(f"{task.method.name} is not a rule")
    begin, remaining = task.deadline.elapsed_s, task.deadline.remaining_s
    try:
        if runs_apart(rule):
            running = apply_apart(rule, task.instance, remaining)
        else:
            running = run_interruptible(
                lambda: apply_rule(rule, task.instance), lambda: None, remaining
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
    outcome.solve_s = task.deadline.elapsed_s - begin
    return outcome


def _failed(task: Task, reason: str, begin: float) -> Outcome:
    return Outcome(None, reason, failed=True, solve_s=task.deadline.elapsed_s - begin)
