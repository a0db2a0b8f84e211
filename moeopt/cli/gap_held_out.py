"""The table that ``moeopt gap --held-out`` prints: decisions on loads that came later."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from moeopt.cli.gap_report import opened
from moeopt.cli.options import rich_console, rich_text, table_width

if TYPE_CHECKING:
    from moeopt.study.report.heldout import HeldOutRow
    from moeopt.study.rows import Row
    from moeopt.study.store import Store

COLUMNS = (
    *("decided by", "scheduled by", "later loads", "known", "later", "95 %", "largest"),
    *("of the possible gain", "decisions", "pairs"),
)


def print_held_out(rows: "Sequence[Row]", kept: "Path | Store", markdown: bool) -> None:
    """Print a table for each problem that has instances of observed and of later loads."""
    from rich.table import Table

    from moeopt.study.report.heldout import held_out
    from moeopt.study.report.study import Study

    with opened(kept) as store:
        study = Study.of(rows, store, "")
    console = rich_console(width=table_width(200))
    none = True
    for problem, of in study.problems.items():
        found = held_out(problem, of, study.instances, study.labels)
        none = none and not found
        if not found:
            continue
        title = f"{problem}: on loads that came later, excess over their own optima"
        if markdown:
            print(f"\n{title}\n\n| {' | '.join(COLUMNS)} |\n|{'---|' * 3}{'---:|' * 7}")
            for cells in map(_cells, found):
                print(f"| {' | '.join(cells)} |")
        else:
            table = Table(*COLUMNS, title=title)
            for cells in map(_cells, found):
                table.add_row(*map(rich_text, cells))
            console.print(table)
        for line in _proof(found):
            print(line)
    if none:
        print("no instance has later loads of the same among the others")


def _cells(one: "HeldOutRow") -> list[str]:
    from moeopt.study.table import percent

    interval = "-" if one.interval is None else " to ".join(map(percent, one.interval))
    shares = (percent(one.known), percent(one.later), interval, percent(one.later_max))
    counts = (percent(one.share), str(one.decisions), str(one.pairs))
    return [one.method, one.schedule or "-", one.distance, *shares, *counts]


def _proof(found: "Sequence[HeldOutRow]") -> Iterator[str]:
    """Yield how far hindsight is proven, where it is not to the end."""
    from moeopt.study.table import percent

    for one in found:
        if one.gap:
            gap = f"proven within {percent(one.gap)} at the median"
            yield f"{one.method}, {one.distance}: {gap}; shares are counted to its bound"
