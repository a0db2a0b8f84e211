"""The outcome of a case as Markdown and as JSON."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from .measurement import WORKERS, Run
from .summary import Figure, Row

HEADER = (
    "| contender | proven | median s | p95 s | p99 s | max s | CPU median s | CPU p99 s "
    "| × baseline | at limit | failed |\n"
    "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
)


@dataclass(frozen=True)
class Report:
    """One case, measured; `machine` and `versions` are those of `benchmarks.harness.machine`.

    `factor`, unless None, is what the others' limit was: so many times what the baseline took.
    """

    case: str
    description: str
    baseline: str
    date: str
    command: str
    repeats: int
    time_limit_s: float
    factor: float | None
    machine: dict[str, Any]
    versions: dict[str, str]
    contradictions: list[str]
    rows: Sequence[Row]
    runs: Sequence[Run]


def to_markdown(report: Report) -> str:
    """Return the table and what one needs to read it."""
    paragraphs = [
        f"## {report.case}",
        report.description,
        "\n".join([HEADER, *(_table_row(row) for row in report.rows)]),
        f"`× baseline`: median over the instances of the time divided by that of "
        f"`{report.baseline}` on the same instance.",
        *_limit_note(report),
        *_failures(report.runs),
        *_contradictions(report.contradictions),
        _conditions(report),
    ]
    return "\n\n".join(paragraphs) + "\n"


def to_document(report: Report) -> dict[str, Any]:
    """Return every single measurement, and what it was made with, as JSON types."""
    document = asdict(report) | {"workers": WORKERS}
    runs = document.pop("runs")
    return document | {"measurements": [_flat(run) for run in runs]}


def _table_row(row: Row) -> str:
    wall = (row.median, row.p95, row.p99, row.maximum)
    figures = (*wall, row.cpu_median, row.cpu_p99, row.ratio)
    proven = f"{row.proven}/{row.instances}"
    cells = [row.contender, proven, *map(_shown, figures), str(row.at_limit), str(row.failed)]
    return f"| {' | '.join(cells)} |"


def _shown(figure: Figure | None) -> str:
    if figure is None:
        return "–"
    return f"{'≥ ' if figure.at_least else ''}{_three_digits(figure.value)}"


def _three_digits(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _limit_note(report: Report) -> list[str]:
    if not any(row.at_limit for row in report.rows):
        return []
    limit = f"{report.time_limit_s:g} s"
    if report.factor is not None:
        limit = f"{report.factor:g} times what `{report.baseline}` took, at most {limit},"
    return [
        f"A contender that hit the limit of {limit} on an instance was not "
        "repeated there. It counts with the time until it stopped; ≥ marks figures that are "
        "therefore lower bounds."
    ]


def _failures(runs: Sequence[Run]) -> list[str]:
    lines = [f"- {run.contender} on {run.instance}: {run.failure}" for run in runs if run.failure]
    return ["Failed, and not repeated there:\n\n" + "\n".join(lines)] if lines else []


def _contradictions(sentences: list[str]) -> list[str]:
    lines = "\n".join(f"- {sentence}" for sentence in sentences)
    return [f"**Contradicting proofs:**\n\n{lines}"] if sentences else []


def _conditions(report: Report) -> str:
    machine = report.machine
    software = {"Python": machine["python"]} | report.versions
    return (
        f"{report.date}, `{report.command}`: repeats {report.repeats}, time limit "
        f"{report.time_limit_s:g} s, workers {WORKERS}. {machine['cpu']}, {machine['cores']} "
        f"cores, {machine['memory_gib']} GiB, {machine['os']}; "
        f"{', '.join(f'{name} {number}' for name, number in software.items())}."
    )


def _flat(run: dict[str, Any]) -> dict[str, Any]:
    measurement = run.pop("measurement") or {}
    return run | measurement
