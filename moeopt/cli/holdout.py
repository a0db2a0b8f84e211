"""``moeopt holdout``: what decisions on observed loads cost on later ones."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from moeopt.cli.options import (
    OWN_RULES,
    Json,
    command,
    method_names,
    print_json,
)
from moeopt.core.errors import InputError
from moeopt.core.options import Options, arguments_of, option

SCHEDULES: dict[str, tuple[str, ...]] = {
    "exact": ("exact",),
    "trimoe": ("trimoe",),
    "both": ("exact", "trimoe"),
}


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
    schedule: str = option("both", "Scheduler of a layout.", metavar="exact|trimoe|both")
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
    """Decide on observed loads, execute on later ones, and compare with the best decision.

    Exit 2 if the later files are no later loads of the same, or no method decided anything.
    """
    import moeopt
    from moeopt.cli.held_out_tables import print_one

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
        print_one(found)
    return 0 if any(row.later is not None for row in found.rows) else 2
