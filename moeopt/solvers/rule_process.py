"""Custom heuristics named by file or module, in a child process of their own.

A heuristic that ends its process, crashes it, prints, takes all memory or never returns costs its
own answer and nothing else. The child loads it as `moeopt.solvers.rules.load_rule` does and stays
for the next instance (`moeopt.solvers.process`).
"""

import os
from contextlib import suppress
from traceback import format_exception

from moeopt.core.envelope import InstanceEnvelope
from moeopt.core.errors import HeuristicError, HeuristicTraceback
from moeopt.problems.registry import get_problem
from moeopt.solvers.process import (
    Answering,
    Process,
    ProcessEndedError,
    Words,
    kept,
    serve_pipes,
)
from moeopt.solvers.rules import Proposed, Rule, apply_rule, load_rule, proposed

MEMORY_BYTES = 4 * 2**30
"""What a rule may allocate, where the system can limit it."""

IN_PROCESS = "MOEOPT_RULES_IN_PROCESS"
"""Set to anything, this variable lets rules run in this process, for a debugger say."""


def runs_apart(rule: Rule) -> bool:
    """Tell whether a rule has a process of its own: one that was named by its file or module."""
    return rule.spec is not None and not os.environ.get(IN_PROCESS)


def apply_apart(rule: Rule, instance: InstanceEnvelope, seconds: float) -> Proposed | None:
    """Run a rule in its process and return its solution, not yet checked; None if it is late.

    Raises
    ------
    HeuristicError
        If it raises, returns no solution of the instance, or its process ended.
    KeyboardInterrupt
        At Ctrl-C, after which the process is ended.
    """
    said = {"problem": instance.problem, "instance": instance.model_dump(mode="json")}
    try:
        with kept((rule.spec, rule.source_sha256), lambda: _started(rule)) as process:
            heard = process.ask(said, limit_s=seconds)
    except ProcessEndedError as error:
        raise HeuristicError(f"crashed: {error}") from error
    if heard is None:
        return None
    _refuse_failed(heard)
    return proposed(instance, (heard.get("solution"), heard.get("bound")))


def _refuse_failed(answer: Words | None) -> None:
    if answer is not None and "failed" in answer:
        raised = answer.get("raised")
        cause = None if raised is None else HeuristicTraceback(str(raised))
        raise HeuristicError(str(answer["failed"])) from cause


def _started(rule: Rule) -> Process:
    """Return a process that has loaded a rule."""
    process = Process(__name__)
    _refuse_failed(process.ask({"spec": rule.spec}))
    return process


def answering() -> Answering:
    """Return what answers requests: first the rule's place, then instances."""
    rule = None

    def answer(request: Words, _: bytes) -> Words:
        nonlocal rule
        try:
            if rule is None:
                rule = load_rule(request["spec"])
                return {}
            model = get_problem(request["problem"]).Instance()
            found = apply_rule(rule, model.model_validate(request["instance"]))
            return {"solution": found.solution.model_dump(mode="json"), "bound": found.bound}
        except Exception as error:  # whatever goes wrong is told in one line
            told = {"failed": str(error) or type(error).__name__}
            if error.__cause__ is not None:
                told["raised"] = "".join(format_exception(error.__cause__))
            return told

    return answer


def main() -> None:
    """Serve, with a limit of memory."""
    with suppress(ImportError, ValueError, OSError):  # not on Windows
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    serve_pipes(answering(), prints=True)  # the user's own


if __name__ == "__main__":
    main()
