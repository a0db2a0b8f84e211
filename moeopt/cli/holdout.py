"""``moeopt holdout``: what decisions on observed loads cost on later ones."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from moeopt.cli.options import (
    OWN_RULES,
    Json,
    command,
    method_names,
    print_json,
    print_lines,
    print_table,
    shown,
)
from moeopt.core.errors import InputError
from moeopt.core.options import Options, arguments_of, option

if TYPE_CHECKING:
    from moeopt.study.holdout import Bracket, HeldOut, Row

SCHEDULES: dict[str, tuple[str, ...]] = {
    "exact": ("exact",),
    "trimoe": ("trimoe",),
    "both": ("exact", "trimoe"),
}

CLOSE = 0.005
"""Two ends of a share that are no further apart are shown as one."""


@dataclass(frozen=True, kw_only=True)
class HoldoutOptions(Options):
    """Options of ``moeopt holdout``."""

    methods: tuple[str, ...] | None = option(
        None,
        "Comma-separated names, or heuristics as in --with; default: the exact method."
        " The sample rule always stands beside them.",
        read=method_names,
        metavar="NAME[,NAME]",
    )
    beside: list[str] | None = option(None, OWN_RULES, flag="--with", metavar="HEURISTIC")
    schedule: str = option("both", "Who schedules a layout.", metavar="exact|trimoe|both")
    sample_rule: str | None = option(None, "Heuristic from which shares of hindsight's gain count.")
    time_limit_s: float = option(10.0, "Seconds for each decision.", metavar="S")
    reference_limit_s: float = option(
        30.0,
        "Seconds for each test batch's optimum, and for the best single decision.",
        metavar="S",
    )
    work_limit: float | None = option(
        None,
        "Units of work for each decision in place of seconds, thrice for references.",
        metavar="W",
    )
    seed: int = option(0, "Seed of everything random.", metavar="N")
    check: bool = option(
        True,
        "Whether the later files must be later loads of the same.",
        flag="--check/--unchecked",
    )


@command
def holdout_command(
    observed: Annotated[Path, Parameter(help="Instance that methods decide on (train).")],
    later: Annotated[list[Path], Parameter(help="Test instances: later loads of the same layer.")],
    /,
    *,
    options: HoldoutOptions,
    as_json: Json = False,
) -> int:
    """Decide on observed loads, execute on later ones, and say how far that is from the best.

    Exit 2 if the later files are no later loads of the same, or no method decided anything.
    """
    import moeopt

    if options.schedule not in SCHEDULES:
        raise InputError(
            f"must be {', '.join(SCHEDULES)}, not {options.schedule!r}", field="--schedule"
        )
    own = {"schedule": SCHEDULES[options.schedule], "beside": options.beside or ()}
    found = moeopt.holdout(
        moeopt.load(observed),
        [moeopt.load(path) for path in later],
        **arguments_of(options, moeopt.holdout) | own,
    )
    if as_json:
        for line in found.to_dicts():
            print_json(line)
    else:
        _print(found)
    return 0 if any(row.later is not None for row in found.rows) else 2


def _print(found: "HeldOut") -> None:
    print_lines(_head(found))
    unit = "excess over own optima" if found.own.proven else "excess over own optima, at most"
    columns = (
        *("scheduled by", "method", "train", "test", unit, "worst batch"),
        *("of the possible gain", "s"),
    )
    rows = ((r.schedule, r.method, *_figures(found, r), f"{r.seconds:.2f}") for r in found.rows)
    print_table(columns, rows, words=2, headings=1)
    print_lines(_notes(found))


def _head(found: "HeldOut") -> list[str]:
    """Return what was compared, and the two references with their brackets."""
    later = found.later[0] if len(found.later) == 1 else f"{len(found.later)} instances"
    least, most = found.hindsight_excess
    excess = f"at least {_percent(least)}" if most is None else _range(least, most)
    return [
        f"{found.problem}: decided on {found.observed}, executed on {later}",
        f"test batches' own optima, {found.windows} together: {_bracket(found, found.own)}",
        f"best single decision in hindsight: {_bracket(found, found.hindsight)}; {excess} above",
    ]


def _bracket(found: "HeldOut", one: "Bracket") -> str:
    if one.proven:
        return f"{shown(found.problem, one.cost)}, proven"
    gap = "" if one.gap is None else f" (gap {_percent(one.gap)})"
    return f"{shown(found.problem, one.bound)} to {shown(found.problem, one.cost)}{gap}"


def _figures(found: "HeldOut", row: "Row") -> list[str]:
    if row.later is None:
        return ["-", "failed", "-", "-", "-"]
    cells = [shown(found.problem, row.known), shown(found.problem, row.later)]
    cells += ["-" if of is None else _percent(of) for of in (row.excess, row.worst)]
    if row.method == found.sample_rule:
        return [*cells, "0: sample rule"]
    if row.share_low is None or row.share_high is None:
        return [*cells, "-"]
    return [*cells, _range(row.share_low, row.share_high)]


def _notes(found: "HeldOut") -> list[str]:
    """Return what figures do not say: why there are none, and what is not proven."""
    notes = [*found.notes]
    notes += [f"{row.method}: {row.reason}" for row in found.rows if row.reason]
    for row in found.rows:
        if row.unproven:
            notes.append(f"{row.method}: {row.unproven} exact schedules not proven the best")
    return list(dict.fromkeys(notes))


def _range(low: float, high: float) -> str:
    return _percent(high) if high - low <= CLOSE else f"{_percent(low)} to {_percent(high)}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
