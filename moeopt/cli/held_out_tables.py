"""The table of what decisions cost on later loads: of one hold-out, or of many in a campaign."""

from collections.abc import Sequence

from moeopt.cli.options import print_lines, print_table, shown
from moeopt.core.wording import markdown_table
from moeopt.study.holdout import HeldOut
from moeopt.study.later_loads import HeldOutRow
from moeopt.study.references import Bracket
from moeopt.study.table import percent

CLOSE = 0.005
"""Two ends of an excess that are no further apart are shown as one."""

COLUMNS = (
    *("later loads", "scheduled by", "method", "train", "test", "95 %", "largest"),
    *("of the possible gain", "decisions", "pairs"),
)


def print_one(found: HeldOut) -> None:
    """Print what one hold-out was held against, its table, and what the table does not say."""
    print_lines(_head(found))
    at_most = "" if found.own.proven else ", at most"
    print_held_out(found.summary, f"excess over own optima{at_most}")
    print_lines(_notes(found))


def print_held_out(rows: Sequence[HeldOutRow], title: str, markdown: bool = False) -> None:
    """Print what decisions come to on test loads: of one hold-out, or of many in a campaign."""
    cells = [_cells(one) for one in rows]
    if markdown:
        print("\n".join(["", title, "", *markdown_table(COLUMNS, cells, 3)]))
    else:
        print_table(COLUMNS, cells, title, words=3, headings=2)
    for one in rows:
        if one.gap:
            gap = f"proven within {percent(one.gap)} at the median"
            print(f"{one.method}, {one.distance}: {gap}; shares are counted to its bound")


def _cells(one: HeldOutRow) -> list[str]:
    interval = "-" if one.interval is None else " to ".join(f"{100 * x:.1f}" for x in one.interval)
    shares = (percent(one.known), percent(one.later), interval, percent(one.later_max))
    counts = (percent(one.share), str(one.decisions), str(one.pairs))
    return [one.distance, one.schedule or "-", one.method, *shares, *counts]


def _head(found: HeldOut) -> list[str]:
    """Return what was compared, and the two references with their brackets."""
    later = found.later[0] if len(found.later) == 1 else f"{len(found.later)} instances"
    least, most = found.hindsight_excess
    excess = f"at least {percent(least)}" if most is None else _range(least, most)
    return [
        f"{found.problem}: decided on {found.observed}, executed on {later}",
        f"test batches' own optima, {found.windows} together: {_bracket(found, found.own)}",
        f"best single decision in hindsight: {_bracket(found, found.hindsight)}; {excess} above",
    ]


def _bracket(found: HeldOut, one: Bracket) -> str:
    if one.proven:
        return f"{shown(found.problem, one.cost)}, proven"
    gap = "" if one.gap is None else f" (gap {percent(one.gap)})"
    return f"{shown(found.problem, one.bound)} to {shown(found.problem, one.cost)}{gap}"


def _notes(found: HeldOut) -> list[str]:
    """Return what figures do not say: why there are none, and what is not proven."""
    notes = [*found.notes]
    notes += [f"{row.method}: {row.reason}" for row in found.rows if row.reason]
    for row in found.rows:
        if row.unproven:
            notes.append(f"{row.method}: {row.unproven} exact schedules not proven the best")
    return list(dict.fromkeys(notes))


def _range(low: float, high: float) -> str:
    return percent(high) if high - low <= CLOSE else f"{percent(low)} to {percent(high)}"
