"""A campaign's progress on stderr: how many solves are done, how fast, what is running."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING

from moeopt.core.objective import Objective
from moeopt.study.attempt import Watch
from moeopt.study.plan import Job
from moeopt.study.record import SolveRecord

from .options import GRAVEST_FIRST, INTERRUPTED, print_error, rich_console, rich_text, warn
from .progress import known

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import MofNCompleteColumn, Task, TaskID
    from rich.text import Text

RATE_OVER_S = 600.0
"""The time left is guessed from the solves of so many seconds."""


def _counted() -> "MofNCompleteColumn":
    """Return a column: so many of how many, once it is known how many there are."""
    from rich.progress import MofNCompleteColumn
    from rich.text import Text

    class Counted(MofNCompleteColumn):
        def render(self, task: "Task") -> "Text":
            return Text("") if task.total is None else super().render(task)

    return Counted()


class Shown(Watch):
    """Draws a campaign where stderr is a terminal; failures are lines on stderr in any case."""

    def __init__(self, console: "Console") -> None:
        from rich.console import Group
        from rich.progress import (
            BarColumn,
            Progress,
            SpinnerColumn,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )

        self._all = Progress(
            *(_counted(), BarColumn(), TextColumn("{task.description}")),
            *(TextColumn("elapsed"), TimeElapsedColumn()),
            *(TextColumn("left"), TimeRemainingColumn()),
            console=console,
            speed_estimate_period=RATE_OVER_S,
        )
        self._each = Progress(
            *(SpinnerColumn(), TimeElapsedColumn(), TextColumn("{task.description}")),
            console=console,
        )
        self.view = Group(self._all, self._each)
        self._bar = self._all.add_task("reading instances", total=None)
        self._running: dict[str, tuple[TaskID, str]] = {}
        self._began = monotonic()
        self.total = self.stored = self.ended = 0
        self.failures: list[SolveRecord] = []
        self.failing: dict[str, None] = {}
        self.was_interrupted = False
        self.left_out = 0

    @property
    def exit_code(self) -> int:
        """130 after Ctrl-C, else the exit code of the gravest failure, 0 if there is none."""
        if self.was_interrupted:
            return INTERRUPTED
        codes = {failure.error().exit_code for failure in self.failures}
        return next((code for code in GRAVEST_FIRST if code in codes), 0)

    def planned(self, total: int, stored: int) -> None:
        """Start the bar with what is still to be solved."""
        self.total, self.stored, self._began = total, stored, monotonic()
        self._all.reset(self._bar, total=total - stored, description="")

    def spared(self, solves: int, doubts: Sequence[str]) -> None:
        """Say what is not solved, and which claims of libraries are not believed."""
        warn(*doubts)
        self.left_out = solves

    def started(self, job: Job) -> None:
        """Show a line for the solve."""
        title = rich_text(f"{job.instance.name}  {job.method}")
        self._running[job.key] = (self._each.add_task(title), title)

    def improved(
        self, job: Job, seconds: float, objective: Objective | None, bound: Objective | None
    ) -> None:
        """Show the solve's incumbent and bound."""
        if job.key in self._running:
            line, title = self._running[job.key]
            now = known(job.instance.problem, objective, bound)
            self._each.update(line, description=f"{title}  {now}")

    def solved(self, job: Job, record: SolveRecord) -> None:
        """Count the solve."""
        self._end(job)

    def failed(self, job: Job, record: SolveRecord) -> None:
        """Say what failed and go on."""
        self.failures.append(record)
        self.failing[job.method] = None
        self._end(job)
        print_error(f"{job.instance.name}, method {job.method}: {record.raw_status}")

    def skipped(self, job: Job) -> None:
        """Count the solve that another process made."""
        self._end(job)

    def interrupted(self) -> None:
        """Remember it for the last line."""
        self.was_interrupted = True

    def _end(self, job: Job) -> None:
        self.ended += 1
        if job.key in self._running:
            line, _ = self._running.pop(job.key)
            self._each.remove_task(line)
        rate = self.ended / max(monotonic() - self._began, 1e-9)
        failed = f", {len(self.failures)} failed" if self.failures else ""
        self._all.update(self._bar, advance=1, description=f"{rate:.1f} solves/s{failed}")


@contextmanager
def showing() -> Iterator[Shown]:
    """Draw a campaign while it runs; one line at its end says what is missing."""
    from rich.live import Live

    console = rich_console(stderr=True)
    shown = Shown(console)
    if console.is_terminal:
        with Live(shown.view, console=console, transient=True, redirect_stderr=True):
            yield shown
    else:
        yield shown
    done = shown.stored + shown.ended - len(shown.failures)
    if shown.left_out:
        print(
            f"moeopt: {shown.left_out} {'solve' if shown.left_out == 1 else 'solves'} by exact "
            "methods left out: the library has the proofs (--prove-again)",
            file=sys.stderr,
        )
    if shown.stored:
        print(f"moeopt: {shown.stored} of {shown.total} solves were in the store", file=sys.stderr)
    if shown.was_interrupted:
        print(f"moeopt: interrupted: {done} of {shown.total} solves done", file=sys.stderr)
    elif shown.failures:
        failed = f"{len(shown.failures)} of {shown.total} solves failed"
        print(f"moeopt: {failed}: {', '.join(shown.failing)}", file=sys.stderr)
