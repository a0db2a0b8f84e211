"""A progress line on stderr while a solver runs; nothing where stderr is not a terminal."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from moeopt.cli.options import rich_console, rich_text, shown
from moeopt.core.objective import Objective

Update = Callable[[float, Objective | None, Objective | None], None]


@contextmanager
def solving(title: str, problem: str) -> Iterator[Update]:
    """Show `title`, the seconds, and the incumbent and bound that the yielded function is given."""
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = rich_console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task(rich_text(title))

        def update(seconds: float, objective: Objective | None, bound: Objective | None) -> None:
            known = f"incumbent {shown(problem, objective)}, bound {shown(problem, bound)}"
            bar.update(task, description=f"{rich_text(title)}  {known}")

        yield update


@contextmanager
def counting() -> Iterator[Callable[[int, int, str, str], None]]:
    """Show how many solves of a study are done; the yielded function is told before each."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    console = rich_console(stderr=True)
    columns = (MofNCompleteColumn(), BarColumn(), TextColumn("{task.description}"))
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task("")

        def on_start(done: int, total: int, instance: str, method: str) -> None:
            bar.update(
                task, completed=done, total=total, description=rich_text(f"{instance} {method}")
            )

        yield on_start
