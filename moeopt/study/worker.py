"""What runs in a process of the local pool: it takes solves from a pipe and sends their results."""

import os
import signal
import threading
from collections.abc import Collection
from multiprocessing import parent_process
from multiprocessing.connection import Connection
from time import monotonic

from moeopt.problems.objective import Objective
from moeopt.solvers.task import Progress
from moeopt.study.attempt import Ended, attempt
from moeopt.study.plan import Job

Ready = None
"""The first message: the process is up."""

News = tuple[float, Objective | None, Objective | None]
"""Seconds, incumbent and bound of a running solve."""

Message = Ended | News | None

RETIRED = 77
"""The exit code of a process that has done its last solve and has taken no other."""

NEWS_EVERY_S = 0.2
SETTLE_S = 0.5


def serve(connection: "Connection[Message, Job]") -> None:
    """Solve what comes until the other end is closed.

    Ctrl-C is the parent's business. A process whose parent has gone ends at once. One that a
    solver's thread was left behind in (it did not stop in time) ends as well: the next solve
    would share its core with it, and the pool starts another process.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.dup2(2, 1)  # what a solver prints is no result of ours
    connection.send(Ready)
    while True:
        try:
            job = connection.recv()
        except EOFError:
            return
        before = set(threading.enumerate())
        try:
            _solve(connection, job)
        except OSError:  # nobody listens any more
            return
        if _left_behind(before):
            os._exit(RETIRED)


def _solve(connection: "Connection[Message, Job]", job: Job) -> None:
    """Solve one job; news of it go out now and then, and never after its result."""
    news = NowAndThen(lambda *news: connection.send(news))
    ended = attempt(job, news)
    with news.sending:
        news.over = True
        connection.send(ended)


class NowAndThen:
    """Passes on a solve's incumbents and bounds, but not more often than anybody can read.

    Solvers call from their own threads. Whoever holds `sending` is alone; after `over` nothing is
    passed on any more.
    """

    def __init__(self, send: Progress) -> None:
        self._send = send
        self._latest = -NEWS_EVERY_S
        self.sending = threading.Lock()
        self.over = False

    def __call__(
        self, seconds: float, objective: Objective | None, bound: Objective | None
    ) -> None:
        """Pass on the news if the last ones are old enough."""
        with self.sending:
            if not self.over and monotonic() - self._latest >= NEWS_EVERY_S:
                self._latest = monotonic()
                self._send(seconds, objective, bound)


def _left_behind(before: Collection[threading.Thread]) -> bool:
    """Tell whether a thread that the solve has started is still there."""
    new = [thread for thread in threading.enumerate() if thread not in before]
    for thread in new:
        thread.join(SETTLE_S)
    return any(thread.is_alive() for thread in new)


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
