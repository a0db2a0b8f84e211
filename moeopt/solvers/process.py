"""Killable child processes, for code that cannot look at a limit or may break its process.

A child runs a module of this package, answers one request after the other, and is kept for the
next one; it is killed where it is late, at Ctrl-C, and when this process ends. A request is a line
of JSON, with bytes after it where it needs them; an answer is a line of JSON. Nothing that a child
says is executed or unpickled.

`pebble` and `multiprocessing` do not serve here: their children run the caller's script once more
(without an ``if __name__ == "__main__"`` in it, every worker ends at once), go on after a caller
that was killed, print on its stdout, and answer in pickles.
"""

import atexit
import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager, suppress
from math import inf
from time import monotonic
from typing import IO, Any
from weakref import WeakSet

from moeopt.core.clock import solving_clock
from moeopt.core.native_output import open_closed_descriptors

Words = dict[str, Any]
Answering = Callable[[Words, bytes], Words]
"""Answers a request and the bytes after it."""

POLL_S = 0.05
"""Seconds after which Ctrl-C is acted on at the latest."""

ENDING_S = 5.0
"""Seconds that a child may take to exit after it has closed its pipe."""

BYTES = "bytes"
"""Field of a request: how many bytes follow its line."""

NEWS = "news"
"""Field of a line that comes before the answer."""


class ProcessEndedError(Exception):
    """The child exited, or sent no valid answer; the message says how it ended."""


class Process:
    """A child that stays for the next request until it is ended, or this process ends.

    Parameters
    ----------
    module
        The module that it runs; it has started once it has answered an empty request.
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
            with suppress(OSError):  # the rest of a request is not sent any more
                pipe.close() if pipe is not None else None

    def ask(
        self,
        words: Mapping[str, object],
        payload: bytes = b"",
        limit_s: float = inf,
        on_news: Callable[[Any], None] = lambda _: None,
    ) -> Words | None:
        """Return the answer to a request; None if it is late: the child is ended then.

        `on_news` is called, in another thread, with what the child says by `tell` meanwhile.

        Raises
        ------
        ProcessEndedError
            If there is none.
        KeyboardInterrupt
            At Ctrl-C, after which the child is ended.
        """
        line = b""

        def talk() -> None:
            nonlocal line
            line = self._heard(words, payload, on_news)

        talking = threading.Thread(target=talk, daemon=True)
        talking.start()
        until = monotonic() + limit_s
        try:
            while talking.is_alive() and (left := until - monotonic()) > 0:
                talking.join(min(POLL_S, left))  # Ctrl-C is acted on in between
        except BaseException:
            self._end(talking)
            raise
        if is_late := talking.is_alive():
            self._end(talking)
        try:
            answer: Words = json.loads(line)
        except ValueError:  # no answer, or a part of one
            if is_late:
                return None
            if not line:
                with suppress(subprocess.TimeoutExpired):
                    self.running.wait(ENDING_S)  # it has ended, or is about to
            self.end()
            raise ProcessEndedError(_how(self.running.wait())) from None
        return answer

    def _end(self, talking: threading.Thread) -> None:
        """End it, and with it the thread that waits for its answer."""
        self.running.kill()
        talking.join()
        self.end()

    def _heard(
        self, words: Mapping[str, object], payload: bytes, on_news: Callable[[Any], None]
    ) -> bytes:
        """Send a request and return the line that comes back; empty if the child has ended."""
        said, heard = self.running.stdin, self.running.stdout
        if said is None or heard is None:
            raise TypeError("a process without pipes")
        request = {**words, BYTES: len(payload)} if payload else words
        sent = json.dumps(request).encode() + b"\n" + payload
        with suppress(BrokenPipeError, ValueError):  # how it ended is told instead of an answer
            said.write(sent)
            said.flush()
            while (line := heard.readline()).startswith(b'{"news"') and line.endswith(b"\n"):
                on_news(json.loads(line)[NEWS])
            return line
        return b""


_running: WeakSet[Process] = WeakSet()
_idle: dict[Hashable, list[Process]] = defaultdict(list)
"""Children that wait for a request: starting one takes longer than many of them."""


@contextmanager
def kept(key: Hashable, start: Callable[[], Process]) -> Iterator[Process]:
    """Lend an idle child of this process and of a kind, or a new one; it is idle again after.

    Starting one does not count as solving.
    """
    idle = _idle[os.getpid(), key]
    process = idle.pop() if idle else None
    while process is not None and not process.alive:
        process = idle.pop() if idle else None
    if process is None:
        with solving_clock().standing():
            process = start()
    try:
        yield process
    finally:
        if process.alive:
            idle.append(process)


@atexit.register
def end_all() -> None:
    """End all of them; the next request starts a new one."""
    for process in list(_running):
        process.end()


def _how(code: int) -> str:
    """Return how a process ended."""
    if code >= 0:
        return f"it ended its process with exit code {code}"
    with suppress(ValueError):
        return f"its process was ended by {signal.Signals(-code).name}"
    return f"its process was ended by signal {-code}"


_told: IO[bytes] | None = None
"""Where a child's answers go."""


def tell(news: object) -> None:
    """Say something to the caller before the answer, from a child that is answering."""
    if _told is not None:
        _told.write(json.dumps({NEWS: news}).encode() + b"\n")
        _told.flush()


def serve(answer: Answering, requests: IO[bytes], answers: IO[bytes]) -> None:
    """Answer requests until there are no more."""
    global _told
    _told = answers
    while line := requests.readline():
        request = json.loads(line)
        payload = requests.read(request.pop(BYTES, 0))
        answers.write(json.dumps(answer(request, payload) if request else {}).encode() + b"\n")
        answers.flush()


def _end_with_parent(requests: int) -> None:
    """End this process when its parent process has, also in the midst of an answer without end."""
    with suppress(AttributeError):  # not on Windows
        waiting = select.poll()
        waiting.register(requests, 0)  # for what is always told: the other side is closed
        waiting.poll()
        os._exit(0)


def serve_pipes(answer: Answering, prints: bool = False) -> None:
    """Serve on the pipes.

    Parameters
    ----------
    answer
        Returns the answer to a request.
    prints
        Whether what is printed meanwhile goes to the caller's stderr; by default nobody sees it,
        such as debug lines of HiGHS on stdout and of SCIP on stderr.
    """
    open_closed_descriptors()  # or the answers would be on a closed stderr's
    answers = os.fdopen(os.dup(1), "wb")
    requests = os.fdopen(os.dup(0), "rb")
    os.close(0)
    nothing = os.open(os.devnull, os.O_RDWR)  # file descriptor 0
    os.dup2(2 if prints else nothing, 1)
    if not prints:
        os.dup2(nothing, 2)
    threading.Thread(target=_end_with_parent, args=(requests.fileno(),), daemon=True).start()
    try:
        serve(answer, requests, answers)
    except BrokenPipeError:  # nobody waits for an answer any more
        os._exit(0)
