"""Users' rules in a process of their own: what a rule does there, nobody else feels.

A rule that ends its process, crashes it, prints, takes all memory or never returns costs its own
answer and nothing else. The process loads the rule as `moeopt.solvers.rules.load_rule` does and
stays for the next instance; it is ended when a rule is late, and when this process ends. Both
sides speak JSON, a line each, so that nothing that a rule says is executed here.
"""

import os
from collections.abc import Callable
from contextlib import suppress

from moeopt.core.clock import solving_clock
from moeopt.core.envelope import InstanceEnvelope, SolutionEnvelope
from moeopt.problems.registry import get_problem
from moeopt.solvers.limits import Interruptible
from moeopt.solvers.process import Process, ProcessEndedError, Words, serve_pipes
from moeopt.solvers.rules import Rule, RuleFailedError, apply_rule, as_solution, load_rule

MEMORY_BYTES = 4 * 2**30
"""What a rule may allocate, where the system can limit it."""

IN_PROCESS = "MOEOPT_RULES_IN_PROCESS"
"""Set to anything, this variable lets rules run in this process, for a debugger say."""


def runs_apart(rule: Rule) -> bool:
    """Tell whether a rule has a process of its own: one that was named by its file or module."""
    return rule.spec is not None and not os.environ.get(IN_PROCESS)


def apply_apart(
    rule: Rule, instance: InstanceEnvelope, limit: float
) -> Interruptible[SolutionEnvelope]:
    """Run a rule in its process and return its solution, not yet checked; no value if it is late.

    Starting the process does not count.

    Raises
    ------
    RuleFailedError
        If it raises, returns no solution of the instance, or its process ended.
    """
    said = {"problem": instance.problem, "instance": instance.model_dump(mode="json")}
    try:
        with solving_clock().standing():
            process = _of(rule)
        running = process.ask_within(said, limit)
    except ProcessEndedError as error:
        raise RuleFailedError(f"crashed: {error}") from None
    solution = None
    if running.value is not None:
        solution = as_solution(instance, _heard(running.value).get("solution"))
    return Interruptible(solution, ended=running.ended, interrupted=running.interrupted)


def _heard(answer: Words) -> Words:
    if "failed" in answer:
        raise RuleFailedError(str(answer["failed"]))
    return answer


_processes: dict[tuple[str | None, str | None], Process] = {}
"""Of each rule, by its place and the state of its file."""


def _of(rule: Rule) -> Process:
    key = rule.spec, rule.source_sha256
    if key not in _processes or not _processes[key].alive:
        process = Process(__name__)
        _heard(process.ask({"spec": rule.spec}))
        _processes[key] = process
    return _processes[key]


def answering() -> Callable[[Words], Words]:
    """Return what answers requests: first the rule's place, then instances."""
    rule = None

    def answer(request: Words) -> Words:
        nonlocal rule
        try:
            if rule is None:
                rule = load_rule(request["spec"])
                return {}
            model = get_problem(request["problem"]).Instance()
            solution = apply_rule(rule, model.model_validate(request["instance"]))
            return {"solution": solution.model_dump(mode="json")}
        except Exception as error:  # whatever goes wrong is told in one line
            return {"failed": str(error) or type(error).__name__}

    return answer


def main() -> None:
    """Serve, with a limit of memory."""
    with suppress(ImportError, ValueError, OSError):  # not on Windows
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    serve_pipes(answering(), prints=True)  # the user's own


if __name__ == "__main__":
    main()
