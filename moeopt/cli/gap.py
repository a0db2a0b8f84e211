"""``moeopt gap``: methods against the optimum, as tables, CSV and Parquet."""

import json
import shlex
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from moeopt.cli.options import OWN_RULES, command, method_names, warn
from moeopt.core.errors import InputError
from moeopt.core.options import Options, option

if TYPE_CHECKING:
    from moeopt.study.attempt import Watch
    from moeopt.study.campaign import Campaign
    from moeopt.study.rows import Row
    from moeopt.study.settlements import Running
    from moeopt.study.store import Store

T = TypeVar("T", int, float)


@dataclass(frozen=True, kw_only=True)
class GapOptions(Options):
    """Options of ``moeopt gap``."""

    methods: str | None = option(
        None,
        "Comma-separated names, `heuristics`, `published` (the rule of the problem's papers),"
        " `exact`, or rules as in --with; default: every heuristic.",
    )
    rules: list[str] | None = option(None, OWN_RULES, flag="--with", metavar="RULE")
    time_limit: str | None = option(
        None, "Seconds for each solve; default: 60, or none with --work-limit.", metavar="S[,S]"
    )
    work_limit: str | None = option(
        None,
        "Units of work for each solve, each about a second of one core: the same table on every"
        " machine.",
        metavar="W[,W]",
    )
    seed: str = option("0", "Seeds; every method runs with each.", metavar="N[,N]")
    workers: int = option(1, "Threads; --work-limit needs 1.", metavar="N")
    jobs: int = option(1, "Solves at once, each in a process.", metavar="N")
    executor: str | None = option(None, "Solve on a Dask cluster.", metavar="dask://HOST:PORT")
    store: Path | None = option(None, "Keep every result in this file.", metavar="FILE")
    resume: bool = option(False, "Do not repeat what the store has already.")
    prove_again: bool = option(
        False,
        "Run exact methods also where best_known.json of the instance's library has the proof.",
    )
    report: Path | None = option(
        None,
        "Folder for gap.csv and, with the extra `report`, index.html; without the extra a note on"
        " stderr says so, and the exit code stays.",
        metavar="DIR",
    )
    csv: Path | None = option(None, "Every number, as CSV.", metavar="FILE")
    parquet: Path | None = option(None, "Every number, as Parquet.", metavar="FILE")
    by: str | None = option(
        None, "Split families in the printed tables by a fact, such as batch.", metavar="FACT"
    )
    markdown: bool = option(False, "Print the summary as Markdown, without times.")
    instances: bool = option(False, "Print also each instance and each family.")
    as_json: bool = option(False, "One JSON object per solve and line on stdout.", flag="--json")
    held_out: bool = option(
        False, "Print also what decisions cost on later loads, where instances have later twins."
    )
    settlements: bool = option(
        False,
        "Instead: excess under every reading of what the papers leave open, one at a time;"
        " --methods takes heuristics.",
    )
    points: int | None = option(
        None,
        "With --settlements: all of them at once, at N points of their grid, the defaults and"
        " random ones; names the best and the worst point.",
        metavar="N",
    )
    traces: Path | None = option(
        None,
        "With --settlements: the folder with the instances' traces, for other batches of them.",
        metavar="DIR",
    )


SOLVING = ("methods", "time_limit", "work_limit", "seed", "workers")
"""What a campaign's file decides."""

DECIDING = (*SOLVING, "rules", "prove_again", "jobs", "executor", "resume")
"""What means nothing where nothing is solved."""

OF_SETTLEMENTS = (
    *("paths", "methods", "time_limit", "work_limit", "store", "resume", "jobs", "csv"),
    *("settlements", "points", "traces"),
)
"""Parameters that --settlements can be combined with, at points of the grid too."""

ONE_AT_A_TIME = ("markdown", "report")
"""Further ones without --points."""

SAID = (
    *("settlements", "methods", "rules", "time_limit", "work_limit", "seed", "workers"),
    *("prove_again", "jobs", "executor", "store", "report"),
)
"""What decides what a report says."""


@command
def gap_command(
    *,
    ctx: typer.Context,
    paths: Annotated[
        list[Path] | None,
        typer.Argument(help="Instance files or folders; or one campaign (.toml, .json)."),
    ] = None,
    options: GapOptions,
) -> int:
    """Print how far methods are above the optimum, per instance and per family.

    With --store and no paths: of what the store holds. A solve that fails, such as one by a rule of
    your own, gets a line on stderr and a row; the others go on, and the exit code is that of the
    gravest failure (2 for a rule), 0 if there is none.
    """
    from moeopt.cli.report import write_report
    from moeopt.study.store import Store

    if options.resume and options.store is None:
        raise InputError("--resume: needs --store, the file to go on with")
    if options.traces is not None and not options.settlements:
        raise InputError("--traces: needs --settlements")
    if options.points is not None and not options.settlements:
        raise InputError("--points: needs --settlements")
    with Store() as memory:
        kept = options.store or memory
        if options.settlements:
            others = ctx.params.keys() - {*OF_SETTLEMENTS, *ONE_AT_A_TIME}
            _refuse(ctx, sorted(others), "cannot be combined with --settlements")
            if not paths:
                raise InputError("Missing argument 'PATHS': instances or folders")
            if options.points is not None:
                _refuse(ctx, ONE_AT_A_TIME, "cannot be combined with --points")
                return _jointly(paths, options.points, options, kept)
            return _settlements(ctx, paths, options, kept)
        if paths:
            campaign = _campaign(ctx, paths, options)
            rows, code = _run(campaign, kept, options)
        elif options.store is not None:
            _refuse(ctx, DECIDING, "without paths the store decides that")
            with Store(options.store, create=False) as store:
                rows, code = store.rows(), 0
        else:
            raise InputError("Missing argument 'PATHS': instances, a campaign, or --store FILE")
        if options.report is not None:
            write_report(rows, kept, options.report, _command_of(ctx))
        _write(rows, options)
        _print(rows, kept, options)
    return code


def _settlements(
    ctx: typer.Context, paths: Sequence[Path], options: GapOptions, kept: "Path | Store"
) -> int:
    """Solve under every reading, print the table and write what is asked for."""
    from moeopt.cli.campaign_progress import showing
    from moeopt.cli.gap_tables import print_settlements
    from moeopt.cli.report import write_report
    from moeopt.core.json_files import write_bytes
    from moeopt.study.settlements import sensitivity, spans, to_csv, to_markdown

    with showing() as watch:
        readings = sensitivity(paths, method_names(options.methods), _running(options, kept, watch))
    if options.csv is not None:
        write_bytes(to_csv(readings).encode(), options.csv)
    if options.markdown:
        print(to_markdown(readings), end="")
    else:
        print_settlements(readings)
    if options.report is not None:
        rows, _ = _run(_campaign(ctx, paths, options), kept, options)
        write_report(rows, kept, options.report, _command_of(ctx), spans(readings))
    return watch.exit_code


def _running(options: GapOptions, kept: "Path | Store", watch: "Watch") -> "Running":
    """Return how instances are solved under settlements."""
    from moeopt.study.settlements import Running

    seconds, work = _limits(options)
    return Running(
        time_limit_s=None if seconds is None else seconds[0],
        work_limit=None if work is None else work[0],
        store=kept,
        resume=options.resume,
        jobs=options.jobs,
        watch=watch,
        traces=options.traces,
    )


def _jointly(paths: Sequence[Path], points: int, options: GapOptions, kept: "Path | Store") -> int:
    """Solve at points of the grid of all settlements and print each rule's range with its ends."""
    from moeopt.cli.campaign_progress import showing
    from moeopt.core.json_files import write_bytes
    from moeopt.study.settlements import joint_sentences, joint_to_csv, jointly

    if points < 1:
        raise InputError(f"--points: must be at least 1, not {points}")
    with showing() as watch:
        running = _running(options, kept, watch)
        found, size = jointly(paths, method_names(options.methods), points=points, running=running)
    if options.csv is not None:
        write_bytes(joint_to_csv(found).encode(), options.csv)
    print("\n".join(joint_sentences(found, size)))
    return watch.exit_code


def _campaign(ctx: typer.Context, paths: Sequence[Path], options: GapOptions) -> "Campaign":
    """Return the campaign in a file, with the rules beside it, or the one of the options."""
    from moeopt.study.campaign import Campaign, Part, is_campaign, make_settings, read_campaign

    rules = options.rules or []
    files = [path for path in paths if is_campaign(path)]
    if files:
        if len(paths) > 1:
            raise InputError(f"{files[0]}: a campaign goes alone, without other paths")
        _refuse(ctx, SOLVING, f"{files[0]}: the campaign decides that")
        campaign = read_campaign(files[0]).beside(rules)
    else:
        seconds, work = _limits(options)
        settings = make_settings(
            methods=method_names(options.methods),
            time_limits_s=seconds,
            work_limits=work,
            seeds=_numbers("--seed", options.seed, int),
            workers=options.workers,
            rules=rules,
        )
        campaign = Campaign([Part(paths, settings)])
    return campaign.proving_again() if options.prove_again else campaign


def _flag(parameter: str) -> str:
    """Return the option of one of the command's parameters."""
    own = {"rules": "--with", "as_json": "--json"}
    return own.get(parameter) or f"--{parameter.replace('_', '-')}"


def _is_given(ctx: typer.Context, parameter: str) -> bool:
    source = ctx.get_parameter_source(parameter)
    return source is not None and source.name == "COMMANDLINE"


def _refuse(ctx: typer.Context, parameters: Sequence[str], why: str) -> None:
    """Refuse options that would be overruled."""
    for one in parameters:
        if _is_given(ctx, one):
            raise InputError(f"{_flag(one)}: {why}")


def _command_of(ctx: typer.Context) -> str:
    """Return the command line that makes the same report; a store is used instead of solving."""
    words = ["moeopt", "gap", *map(str, ctx.params["paths"] or ())]
    for name in SAID:
        if _is_given(ctx, name):
            given = ctx.params[name]
            for value in given if isinstance(given, list | tuple) else [given]:
                words += [_flag(name)] if value is True else [_flag(name), str(value)]
    if ctx.params["paths"] and ctx.params["store"]:
        words.append("--resume")
    return shlex.join(words)


def _limits(options: GapOptions) -> tuple[list[float] | None, list[float] | None]:
    """Return what both options say, seconds and units of work."""
    given = {"--time-limit": options.time_limit, "--work-limit": options.work_limit}
    seconds, work = (t if t is None else _numbers(flag, t, float) for flag, t in given.items())
    return seconds, work


def _numbers(flag: str, text: str, number: Callable[[str], T]) -> list[T]:
    from moeopt.core.wording import shown

    try:
        return [number(part) for part in text.split(",")]
    except ValueError:
        reason = f"must be numbers, separated by commas, not {shown(text)}"
        raise InputError(f"{flag}: {reason}") from None


def _run(
    campaign: "Campaign", store: "Path | Store", options: GapOptions
) -> tuple[list["Row"], int]:
    """Solve, and return the rows and the exit code: that of the gravest failure."""
    from moeopt.cli.campaign_progress import showing
    from moeopt.study.pool import oversubscribed
    from moeopt.study.study import run_campaign

    jobs, executor = options.jobs, options.executor
    warning = None if executor else oversubscribed(jobs, campaign.workers)
    if warning:
        warn(warning)
    with showing() as shown, redirect_stdout(sys.stderr):  # a rule may print
        resume = options.resume or options.settlements
        rows = run_campaign(
            campaign, store=store, resume=resume, jobs=jobs, executor=executor, watch=shown
        )
    return rows, shown.exit_code


def _write(rows: "Sequence[Row]", options: GapOptions) -> None:
    from moeopt.study.export import export_csv, export_parquet

    if options.csv is not None:
        export_csv(rows, options.csv)
    if options.parquet is not None:
        export_parquet(rows, options.parquet)


def _print(rows: "Sequence[Row]", kept: "Path | Store", options: GapOptions) -> None:
    from moeopt.cli.gap_tables import print_held_out, print_tables
    from moeopt.study.export import record
    from moeopt.study.table import front_markdown, split_by, standings, summarise, to_markdown

    if options.as_json:
        for row in rows:
            print(json.dumps(record(row)))
        return
    if options.by is not None:
        rows = split_by(rows, options.by)
    if not options.markdown:
        print_tables(rows, everything=options.instances)
    else:
        if len({row.result.problem for row in rows}) > 1:
            print(front_markdown(standings(rows)))
        print(to_markdown(summarise(rows)), end="")
    if options.held_out:
        print_held_out(rows, kept, options.markdown)
