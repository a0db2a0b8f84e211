"""Progress on stderr."""

from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from .measurement import Run


class Display(Progress):
    """A bar that is drawn between turns only, so that drawing takes nobody's time."""

    def __init__(self, case: str, turns: int) -> None:
        columns = (MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
        super().__init__(*columns, console=Console(stderr=True), auto_refresh=False)
        self._case = case
        self._turn = 0
        self._task = self.add_task(f"{case}: warm-up", total=turns)

    def announce(self, repeat: int, instance: str, contender: str) -> None:
        """Show which turn comes now."""
        label = f"{self._case}: repeat {repeat + 1}, {instance}, {contender}"
        self.update(self._task, completed=self._turn, description=label, refresh=True)
        self._turn += 1

    def note(self, run: Run) -> None:
        """Say so if a run was the last of its contender on its instance."""
        if run.last:
            reason = run.failure or "hit the time limit"
            line = f"{run.contender} on {run.instance}: {reason}; not repeated"
            self.console.print(line, markup=False, highlight=False, soft_wrap=True)

    def finish(self) -> None:
        """Show that all turns are over."""
        self.update(self._task, completed=self._turn, description=self._case, refresh=True)
