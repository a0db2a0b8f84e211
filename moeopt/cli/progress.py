"""A progress line on stderr while a solver runs; nothing where stderr is not a terminal."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from moeopt.core.objective import Objective

from .options import rich_console, rich_text, shown

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn

Update = Callable[[float, Objective | None, Objective | None], None]


def _bar(*columns: "ProgressColumn") -> "Progress":
    from rich.progress import Progress

    return Progress(*columns, console=rich_console(stderr=True), transient=True)


def known(problem: str, objective: Objective | None, bound: Objective | None) -> str:
    """Return what is known of a solve so far."""
    return f"incumbent {shown(problem, objective)}, bound {shown(problem, bound)}"


@contextmanager
def solving(title: str, problem: str) -> Iterator[Update]:
    """Show `title`, the seconds, and the incumbent and bound that the yielded function is given."""
    if not sys.stderr.isatty():  # rich is imported where it draws
        yield lambda seconds, objective, bound: None
        return
    from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

    with _bar(SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()) as bar:
        task = bar.add_task(rich_text(title))

        def update(seconds: float, objective: Objective | None, bound: Objective | None) -> None:
            now = known(problem, objective, bound)
            bar.update(task, description=f"{rich_text(title)}  {now}")

        yield update


@contextmanager
def counting(title: str) -> Iterator[Callable[[int, int, str], None]]:
    """Show `title`, how many of all are done, and which one runs, as the function is told."""
    if not sys.stderr.isatty():
        yield lambda done, total, name: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with _bar(*columns, TimeElapsedColumn()) as bar:
        task = bar.add_task(rich_text(title), total=None)

        def update(done: int, total: int, name: str) -> None:
            bar.update(task, completed=done, total=total, description=rich_text(f"{title} {name}"))

        yield update
