"""What ``moeopt gap`` and ``moeopt sensitivity`` share: which solves, and where they are made."""

import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from moeopt.cli.options import OWN_RULES, given, in_words, method_names, warn
from moeopt.core.errors import InputError
from moeopt.core.options import Options, arguments_of, option

if TYPE_CHECKING:
    import pandas as pd

    from moeopt.study.campaign import Campaign
    from moeopt.study.store import Store

T = TypeVar("T", int, float)


REPORT = (
    "Folder for gap.csv and, where matplotlib is installed, index.html; without it a note on"
    " stderr says so, and the exit code stays."
)


def numbers(flag: str, number: Callable[[str], T]) -> Callable[[str, Any], tuple[T, ...]]:
    """Return what reads the numbers of an option that takes several."""

    def read(_: str, value: str | tuple[T, ...]) -> tuple[T, ...]:
        from moeopt.core.wording import shown

        if isinstance(value, tuple):
            return value
        try:
            return tuple(number(part) for part in value.split(","))
        except ValueError:
            reason = f"must be numbers, separated by commas, not {shown(value)}"
            raise InputError(reason, field=flag) from None

    return read


@dataclass(frozen=True, kw_only=True)
class SolvesOptions(Options):
    """Options that say which solves a campaign consists of; a campaign's file says it itself."""

    group = "Solving"

    methods: tuple[str, ...] | None = option(
        None,
        "Comma-separated names, `heuristics`, `published` (the heuristic of the problem's papers),"
        " `exact`, or custom heuristics as in --with; default: every heuristic.",
        read=method_names,
        metavar="NAME[,NAME]",
    )
    time_limits_s: tuple[float, ...] | None = option(
        None,
        "Seconds for each solve; default: 60, or none with --work-limit.",
        read=numbers("--time-limit", float),
        flag="--time-limit",
        metavar="S[,S]",
    )
    work_limits: tuple[float, ...] | None = option(
        None,
        "Units of work for each solve, each about a second of one core: the same table on every"
        " machine.",
        read=numbers("--work-limit", float),
        flag="--work-limit",
        metavar="W[,W]",
    )
    seeds: tuple[int, ...] = option(
        (0,),
        "Seeds; every method runs with each.",
        read=numbers("--seed", int),
        flag="--seed",
        metavar="N[,N]",
    )
    workers: int = option(1, "Threads; --work-limit needs 1.", metavar="N")


@dataclass(frozen=True, kw_only=True)
class CampaignOptions(SolvesOptions):
    """Options that only matter where something is solved."""

    group = "Campaign"

    rules: list[str] | None = option(None, OWN_RULES, flag="--with", metavar="HEURISTIC")
    jobs: int = option(1, "Solves at once, each in a process.", metavar="N")
    executor: str | None = option(None, "Solve on a Dask cluster.", metavar="dask://HOST:PORT")
    resume: bool = option(False, "Do not repeat what the store has already.")
    prove_again: bool = option(
        False,
        "Run exact methods also where best_known.json of the instance's library has the proof.",
    )


def campaign_of(paths: Sequence[Path], options: CampaignOptions) -> "Campaign":
    """Return the campaign in a file, with custom heuristics beside it, or that of the options."""
    from moeopt.study.campaign import Campaign, Part, is_campaign, make_settings, read_campaign

    rules = options.rules or []
    _refuse_methods(paths)
    files = [path for path in paths if is_campaign(path)]
    if files:
        if len(paths) > 1:
            raise InputError(f"{files[0]}: a campaign cannot be combined with other paths")
        refuse(given(options, SolvesOptions), f"{files[0]}: the campaign decides that")
        campaign = read_campaign(files[0]).beside(rules)
    else:
        settings = make_settings(**arguments_of(options, make_settings) | {"rules": rules})
        campaign = Campaign([Part(paths, settings)])
    return campaign.proving_again() if options.prove_again else campaign


def _refuse_methods(paths: Sequence[Path]) -> None:
    """Refuse paths that are methods: a shell takes ``--methods a b`` apart at the blank."""
    from moeopt.problems.registry import PROBLEMS
    from moeopt.solvers.methods import methods

    lost = [path for path in paths if not path.exists()]
    for name in (str(path) for path in lost):
        if any(name in methods(problem) for problem in PROBLEMS):
            reason = "there is no such file; separate several methods by commas"
            raise InputError(f"{reason}: --methods ...,{name}", field=name)


def refuse(asked: Mapping[str, object], why: str) -> None:
    """Refuse options that would be overruled."""
    for flag in asked:
        raise InputError(f"{why}", field=flag)


def command_line(name: str, paths: Sequence[Path] | None, options: Options) -> str:
    """Return the command line that makes the same report; a store is used instead of solving."""
    words = ["moeopt", name, *map(str, paths or ())]
    for flag, value in given(options).items():
        for one in value if isinstance(value, list) else [value]:
            words += [flag] if one is True else [flag, in_words(one)]
    if paths and getattr(options, "store", None) and "--resume" not in words:
        words.append("--resume")
    return shlex.join(words)


def solved(
    campaign: "Campaign", store: "Path | Store", options: CampaignOptions
) -> tuple["pd.DataFrame", int]:
    """Solve, and return the rows and the exit code: that of the gravest failure."""
    from moeopt.cli.campaign_progress import showing
    from moeopt.study.pool import oversubscribed
    from moeopt.study.study import run_campaign

    warning = None if options.executor else oversubscribed(options.jobs, campaign.workers)
    if warning:
        warn(warning)
    with showing() as shown, redirect_stdout(sys.stderr):  # a heuristic may print
        given = arguments_of(options, run_campaign) | {"store": store, "watch": shown}
        rows = run_campaign(campaign, **given)
    return rows, shown.exit_code
