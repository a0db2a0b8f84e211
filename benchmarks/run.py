"""Measure cases: ``python benchmarks/run.py [CASE ...]``; ``--help`` lists the options.

README.md says what is measured, and how to add a case.
"""

import argparse
import shlex
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.harness.case import Case, case_names, load_case, parts
from benchmarks.harness.contradictions import contradictions
from benchmarks.harness.display import Display
from benchmarks.harness.machine import machine, use_one_core, versions
from benchmarks.harness.measure import measure, measure_against
from benchmarks.harness.report import Report, to_document, to_markdown
from benchmarks.harness.summary import summarise
from moeopt.core.json_files import save
from moeopt.core.native_output import drop_native_stdout

CASES = Path(__file__).parent / "cases"


def main(argv: Sequence[str], folder: Path = CASES) -> int:
    """Measure the cases that `argv` names, or all; return 1 if proofs contradict each other."""
    known = case_names(folder)
    options = _options(argv, known)
    if options.list:
        for name in known:
            print(f"{name}: {load_case(folder, name).DESCRIPTION}")
        return 0
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
    command = shlex.join(["python", "benchmarks/run.py", *argv])
    contradicted = False
    for name in options.case or known:
        case = load_case(folder, name)
        report = run_case(name, case, options.repeats, options.time_limit, command, options.factor)
        print(to_markdown(report))
        if options.out:
            _write(report, options.out)
        for sentence in report.contradictions:
            contradicted = True
            print(f"contradicting proofs: {sentence}", file=sys.stderr)
    return int(contradicted)


def run_case(
    name: str,
    case: Case,
    repeats: int,
    time_limit_s: float,
    command: str,
    factor: float | None = None,
) -> Report:
    """Measure one case, with progress on stderr."""
    date = datetime.now(UTC).isoformat(timespec="seconds")
    contenders, instances = parts(name, case)
    runs = []
    with Display(name, repeats * len(instances) * len(contenders)) as display:
        taking = measure if factor is None else partial(measure_against, case.BASELINE, factor)
        for run in taking(contenders, instances, repeats, time_limit_s, display.announce):
            runs.append(run)
            display.note(run)
        display.finish()
    return Report(
        case=name,
        description=case.DESCRIPTION,
        baseline=case.BASELINE,
        date=date,
        command=command,
        repeats=repeats,
        time_limit_s=time_limit_s,
        factor=factor,
        machine=machine(),
        versions=versions(),
        contradictions=contradictions(runs),
        rows=summarise(runs, contenders, case.BASELINE),
        runs=runs,
    )


def _options(argv: Sequence[str], known: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="benchmarks/run.py", description="Measure cases and print a Markdown table for each."
    )
    parser.add_argument("case", nargs="*", help="cases to measure; all if none is named")
    parser.add_argument("--repeats", type=int, default=3, help="default: 3")
    parser.add_argument(
        "--time-limit", type=float, default=60.0, help="seconds for each run; default: 60"
    )
    parser.add_argument(
        "--factor",
        type=float,
        help="measure the baseline first, then give the others so many times what it took",
    )
    parser.add_argument("--out", type=Path, help="folder to write CASE.json and CASE.md to")
    parser.add_argument("--list", action="store_true", help="list the cases and stop")
    options = parser.parse_args(argv)
    if options.repeats < 1 or not options.time_limit > 0:
        parser.error("--repeats and --time-limit must be positive")
    if options.factor is not None and not options.factor > 0:
        parser.error("--factor must be positive")
    if unknown := [name for name in options.case if name not in known]:
        parser.error(f"unknown case {unknown[0]!r}; known cases: {', '.join(known)}")
    return options


def _write(report: Report, folder: Path) -> None:
    save(to_document(report), folder / f"{report.case}.json")
    (folder / f"{report.case}.md").write_text(to_markdown(report), encoding="utf-8")


if __name__ == "__main__":
    use_one_core()
    drop_native_stdout()
    sys.exit(main(sys.argv[1:]))
