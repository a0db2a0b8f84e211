"""Users' rules in a process of their own: what a rule does there, nobody else feels.

A rule that ends its process, crashes it, prints, takes all memory or never returns costs its own
answer and nothing else. The process loads the rule as `moeopt.solvers.rules.load_rule` does and
stays for the next instance; it is ended when a rule is late, and when this process ends. Both
sides speak JSON, a line each, so that nothing that a rule says is executed here.
"""

import atexit
import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from typing import IO, Any

from moeopt.core.clock import solving_clock
from moeopt.core.envelope import InstanceEnvelope, SolutionEnvelope
from moeopt.problems.registry import get_problem
from moeopt.solvers.interrupt import Interruptible, run_interruptible
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
    with solving_clock().standing():
        process = _of(rule)
    try:
        running = run_interruptible(lambda: process.ask(instance), process.end, limit)
    except RuleFailedError:
        raise
    except BaseException:
        process.end()
        raise
    if not running.ended or running.interrupted:
        process.end()
    return running


class _Process:
    """One rule's process."""

    def __init__(self, rule: Rule) -> None:
        self.running = subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, "-m", __name__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is this process's
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        self._say({"spec": rule.spec})
        self._hear()

    @property
    def alive(self) -> bool:
        return self.running.poll() is None

    def end(self) -> None:
        """End it, whatever it does."""
        self.running.kill()

    def ask(self, instance: InstanceEnvelope) -> SolutionEnvelope:
        """Return the rule's solution of an instance."""
        said = {"problem": instance.problem, "instance": instance.model_dump(mode="json")}
        self._say(said)
        return as_solution(instance, self._hear())

    def _say(self, words: dict[str, Any]) -> None:
        pipe = self.running.stdin
        with suppress(BrokenPipeError):  # how it ended is told when its answer is missing
            if pipe is not None:
                pipe.write(json.dumps(words).encode() + b"\n")
                pipe.flush()

    def _hear(self) -> object:
        line = b"" if self.running.stdout is None else self.running.stdout.readline()
        try:
            answer = json.loads(line)
        except ValueError:
            self.end() if line else None
            raise RuleFailedError(f"crashed: {_how(self.running.wait())}") from None
        if "failed" in answer:
            raise RuleFailedError(str(answer["failed"]))
        return answer.get("solution")


def _how(code: int) -> str:
    """Return how a process ended."""
    if code >= 0:
        return f"it ended its process with exit code {code}"
    with suppress(ValueError):
        return f"its process was ended by {signal.Signals(-code).name}"
    return f"its process was ended by signal {-code}"


_processes: dict[tuple[str | None, str | None], _Process] = {}
"""Of each rule, by its place and the state of its file."""


def _of(rule: Rule) -> _Process:
    key = rule.spec, rule.source_sha256
    if key not in _processes or not _processes[key].alive:
        _processes[key] = _Process(rule)
    return _processes[key]


@atexit.register
def _end_all() -> None:
    for process in _processes.values():
        process.end()


def serve(requests: IO[bytes], answers: IO[bytes]) -> None:
    """Answer requests until there are no more: first the rule's place, then instances."""
    rule = None
    for line in requests:
        request = json.loads(line)
        answer: dict[str, Any] = {}
        try:
            if rule is None:
                rule = load_rule(request["spec"])
            else:
                model = get_problem(request["problem"]).instance
                solution = apply_rule(rule, model.model_validate(request["instance"]))
                answer["solution"] = solution.model_dump(mode="json")
        except Exception as error:  # whatever goes wrong is told in one line
            answer["failed"] = str(error) or type(error).__name__
        answers.write(json.dumps(answer).encode() + b"\n")
        answers.flush()


def main() -> None:
    """Serve on the pipes, with what rules print on stderr."""
    with suppress(ImportError, ValueError, OSError):  # not on Windows
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    requests = os.fdopen(os.dup(0), "rb")
    os.close(0)
    os.open(os.devnull, os.O_RDONLY)
    serve(requests, answers)


if __name__ == "__main__":
    main()
