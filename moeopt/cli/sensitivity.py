"""``moeopt sensitivity``: heuristics against the optimum under each assumption."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from moeopt.cli.campaign import REPORT, CampaignOptions, campaign_of, command_line, solved
from moeopt.cli.options import (
    LimitOptions,
    command,
    method_names,
    print_json,
    print_lines,
    print_table,
)
from moeopt.cli.report import write_report
from moeopt.core.errors import InputError
from moeopt.core.options import arguments_of, option

if TYPE_CHECKING:
    from moeopt.study.assumptions import Reading, Running
    from moeopt.study.attempt import Watch
    from moeopt.study.store import Store


@dataclass(frozen=True, kw_only=True)
class SensitivityOptions(LimitOptions):
    """Options of ``moeopt sensitivity``."""

    group = "Assumptions"

    methods: tuple[str, ...] | None = option(
        None,
        "Comma-separated heuristics; default: the heuristic of the problem's papers.",
        read=method_names,
        metavar="NAME[,NAME]",
    )
    points: int | None = option(
        None,
        "Change all assumptions at once, at N points of their grid, the defaults and random ones;"
        " names the best and the worst point.",
        least=1,
        metavar="N",
    )
    traces: Path | None = option(
        None, "Folder with the instances' traces, for other batches of them.", metavar="DIR"
    )
    store: Path | None = option(
        None, "Keep every result in this file.", metavar="FILE", group="Campaign"
    )
    resume: bool = option(False, "Do not repeat what the store has already.", group="Campaign")
    jobs: int = option(1, "Solves at once, each in a process.", metavar="N", group="Campaign")
    report: Path | None = option(None, REPORT, metavar="DIR", group="Output")
    csv: Path | None = option(None, "Every number, as CSV.", metavar="FILE", group="Output")
    markdown: bool = option(False, "Print the table as Markdown.", group="Output")
    as_json: bool = option(
        False, "Print one JSON object per row (docs/json.md).", flag="--json", group="Output"
    )


@command
def sensitivity_command(
    paths: Annotated[list[Path], Parameter(help="Instance files or folders.")],
    /,
    *,
    options: SensitivityOptions,
) -> int:
    """Print the excess of heuristics under each value of each assumption."""
    from moeopt.study.store import Store

    if options.resume and options.store is None:
        raise InputError("needs --store, the file to go on with", field="--resume")
    if options.traces is not None and not options.traces.is_dir():
        raise InputError(f"{options.traces} is not a folder", field="--traces")
    with Store() as memory:
        if options.points is None:
            return _one_at_a_time(paths, options, options.store or memory)
        for flag, value in {"--markdown": options.markdown, "--report": options.report}.items():
            if value:
                raise InputError("cannot be combined with --points", field=flag)
        return _jointly(paths, options.points, options, options.store or memory)


def _one_at_a_time(paths: Sequence[Path], options: SensitivityOptions, kept: "Path | Store") -> int:
    """Solve under every value, print the table and write what is asked for."""
    from moeopt.cli.campaign_progress import showing
    from moeopt.core.json_files import write_bytes
    from moeopt.study.assumptions import sensitivity, sentences, spans, to_csv, to_markdown

    with showing() as watch:
        readings = sensitivity(paths, options.methods, _running(options, kept, watch))
    if options.csv is not None:
        write_bytes(to_csv(readings).encode(), options.csv)
    if options.as_json:
        for reading in readings:
            print_json(_record(reading))
    elif options.markdown:
        print(to_markdown(readings), end="")
    else:
        from moeopt.study.assumptions import HEADS, cells

        title = "excess over the optimum, one assumption at a time"
        print_table((*HEADS, "optimal"), map(cells, readings), title, words=4, headings=2)
        print_lines(sentences(readings))
    if options.report is not None:
        again = CampaignOptions(
            methods=options.methods,
            time_limits_s=None if options.time_limit_s is None else (options.time_limit_s,),
            work_limits=None if options.work_limit is None else (options.work_limit,),
            resume=True,
            jobs=options.jobs,
        )
        solves, _ = solved(campaign_of(paths, again), kept, again)
        line = command_line("sensitivity", paths, options)
        write_report(solves, kept, options.report, line, spans(readings))
    return watch.exit_code


def _record(reading: "Reading") -> dict[str, object]:
    """Return a row of the table for JSON."""
    from moeopt.study.table import known

    found = reading.summary
    return {
        "problem": found.problem,
        "assumption": reading.assumption.name,
        "value": reading.value,
        "default": reading.assumption.default,
        "method": reading.method,
        "instances": found.instances,
        "skipped": reading.skipped,
        "proven": found.proven,
        "excess_median": known(found.excess_median),
        "excess_max": known(found.excess_max),
        "optimal": known(found.optimal),
    }


def _running(options: SensitivityOptions, kept: "Path | Store", watch: "Watch") -> "Running":
    """Return how instances are solved under assumptions."""
    from moeopt.study.assumptions import Running

    return Running(**arguments_of(options, Running) | {"store": kept, "watch": watch})


def _jointly(
    paths: Sequence[Path], points: int, options: SensitivityOptions, kept: "Path | Store"
) -> int:
    """Solve at points of the grid of all assumptions; print each heuristic's range and its ends."""
    from moeopt.cli.campaign_progress import showing
    from moeopt.core.json_files import write_bytes
    from moeopt.study.assumptions import joint_sentences, joint_to_csv, jointly

    with showing() as watch:
        running = _running(options, kept, watch)
        found, size = jointly(paths, options.methods, points=points, running=running)
    if options.csv is not None:
        write_bytes(joint_to_csv(found).encode(), options.csv)
    if options.as_json:
        from moeopt.study.table import known

        for one in found:
            summary = one.summary
            record = {"problem": summary.problem, "method": summary.method, "values": one.values}
            more = {name: known(getattr(summary, name)) for name in ("excess_median", "excess_max")}
            print_json({**record, **more})
    else:
        print("\n".join(joint_sentences(found, size)))
    return watch.exit_code
