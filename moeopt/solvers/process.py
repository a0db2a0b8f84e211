"""Processes for what cannot look at a limit, or is not to be felt here: they can be ended.

They run a module of ours that answers JSON, a line for each line; nothing that is said is executed.
"""

import atexit
import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import IO
from weakref import WeakSet

from moeopt.core.json_files import JsonObject
from moeopt.core.native_output import open_closed_descriptors
from moeopt.solvers.limits import Interruptible, run_interruptible

Words = JsonObject


class ProcessEndedError(Exception):
    """A process ended, or said something else, in place of an answer; the message tells how."""


class Process:
    """A process that stays for the next request until it is ended, or this process ends.

    Parameters
    ----------
    module
        What it runs; it has started once it has answered an empty request.
    """

    def __init__(self, module: str) -> None:
        self.running = subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is this process's
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        _running.add(self)
        self.ask({})

    @property
    def alive(self) -> bool:
        """Whether it can be asked."""
        return self.running.poll() is None

    def end(self) -> None:
        """End it, whatever it does."""
        self.running.kill()
        self.running.wait()
        for pipe in (self.running.stdin, self.running.stdout):
            with suppress(OSError):  # what was not written yet is for nobody
                pipe.close() if pipe is not None else None

    def ask(self, words: Mapping[str, object]) -> Words:
        """Return its answer.

        Raises
        ------
        ProcessEndedError
            If there is none.
        """
        said, heard = self.running.stdin, self.running.stdout
        if said is None or heard is None:
            raise TypeError("a process without pipes")
        with suppress(BrokenPipeError, ValueError):  # how it ended is told instead of an answer
            said.write(json.dumps(words).encode() + b"\n")
            said.flush()
        line = b""
        try:
            line = heard.readline()
            answer: Words = json.loads(line)
        except ValueError:  # no answer, another one, or closed by now
            if not line:
                self.running.wait()  # it has ended, or is about to
            self.end()
            raise ProcessEndedError(_how(self.running.wait())) from None
        return answer

    def ask_within(self, words: Mapping[str, object], limit: float) -> Interruptible[Words]:
        """Return its answer; none if it is late: then, and after Ctrl-C, it is ended."""
        try:
            running = run_interruptible(lambda: self.ask(words), self.end, limit)
        except BaseException:
            self.end()
            raise
        if running.value is None or running.interrupted:
            self.end()
        return running


_running: WeakSet[Process] = WeakSet()


@atexit.register
def end_all() -> None:
    """End all of them; who asks again starts a new one."""
    for process in list(_running):
        process.end()


def _how(code: int) -> str:
    """Return how a process ended."""
    if code >= 0:
        return f"it ended its process with exit code {code}"
    with suppress(ValueError):
        return f"its process was ended by {signal.Signals(-code).name}"
    return f"its process was ended by signal {-code}"


def serve(answer: Callable[[Words], Words], requests: IO[bytes], answers: IO[bytes]) -> None:
    """Answer requests until there are no more."""
    for line in requests:
        request = json.loads(line)
        answers.write(json.dumps(answer(request) if request else {}).encode() + b"\n")
        answers.flush()


def _end_with_parent(requests: int) -> None:
    """End this process when its parent process has, also in the midst of an answer without end."""
    with suppress(AttributeError):  # not on Windows
        waiting = select.poll()
        waiting.register(requests, 0)  # for what is always told: the other side is closed
        waiting.poll()
        os._exit(0)


def serve_pipes(answer: Callable[[Words], Words], prints: bool = False) -> None:
    """Serve on the pipes; what anybody prints goes to stderr with `prints`, else to nothing."""
    open_closed_descriptors()  # or the answers would be on a closed stderr's
    answers = os.fdopen(os.dup(1), "wb")
    if prints:
        os.dup2(2, 1)
    else:
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, 1)
    requests = os.fdopen(os.dup(0), "rb")
    os.close(0)
    os.open(os.devnull, os.O_RDONLY)
    threading.Thread(target=_end_with_parent, args=(requests.fileno(),), daemon=True).start()
    try:
        serve(answer, requests, answers)
    except BrokenPipeError:  # who asked has ended: nobody is told anything
        os._exit(0)
