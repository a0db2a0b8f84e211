"""Commands on the instance library: solutions and bounds, checked and entered; tables."""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from benchmarks.rooms.cli import Json, command, new_app, print_error, run_app
from benchmarks.rooms.core import unknown
from benchmarks.rooms.solvers import with_unit
from instances.tools.entries import (
    LIBRARY,
    Entry,
    Where,
    open_table,
    problem_folders,
    problem_table,
    short_table,
)
from instances.tools.rekey import rekey_command
from instances.tools.submissions import (
    certificate_faults,
    certificates,
    certified,
    credited,
    enter,
    enter_bound,
    submitted,
)
from moeopt import InputError, MoeoptError

InstanceFile = Annotated[
    Path | None, Parameter("--instance", help="The instance's file, if no name says which.")
]
Write = Annotated[bool, Parameter("--write", help="Enter what is better into the library.")]
By = Annotated[str | None, Parameter("--by", help="To whom an entry is credited.")]


def check_command(
    files: Annotated[list[Path], Parameter(help="Solutions: .json, or a solver's .sol.")],
    library: Where = LIBRARY,
    instance: InstanceFile = None,
    write: Write = False,
    by: By = None,
    as_json: Json = False,
) -> int:
    """Check solutions exactly and say how they compare with the best known.

    A .sol file is what HiGHS, SCIP, CBC or Gurobi say of the model that `moeopt export --to lp` or
    mps has written; its name is the instance's, or --instance gives it. Exit 2 if a file is
    refused, 5 if one costs less than what is recorded as proven.
    """
    by = credited(by)

    def look(file: Path) -> Told:
        found = submitted(library, file, instance)
        entered = enter(found, by) if write else []
        costs = f"objective {with_unit(found.entry.problem, found.objective)}"
        report = {"objective": found.objective, "best": found.entry.objective}
        sentence = f"{costs}: {found.sentence()}"
        return found.entry, sentence, report | {"standing": found.standing}, entered

    return _each(files, look, as_json)


def verify_command(
    files: Annotated[
        list[Path] | None,
        Parameter(help="Certificates; by default the library's own."),
    ] = None,
    /,
    *,
    library: Where = LIBRARY,
    instance: InstanceFile = None,
    write: Write = False,
    by: By = None,
    as_json: Json = False,
) -> int:
    """Verify certificates of bounds in integers, whoever made them.

    Exit 2 if a file proves nothing, 5 if one proves more than a known solution costs.
    """
    by = credited(by)
    if not files:
        return _verify_all(library)

    def look(file: Path) -> Told:
        found = certified(library, file, instance)
        entered = enter_bound(found, by) if write else []
        proves = f"proves {with_unit(found.entry.problem, found.bound)}: {found.sentence()}"
        report = {"bound": found.bound, "best_bound": found.entry.bound}
        return found.entry, proves, report, entered

    return _each(files, look, as_json)


def table_command(
    problem: Annotated[
        str | None, Parameter(help="A problem; by default the open instances of all.")
    ] = None,
    /,
    *,
    library: Where = LIBRARY,
    markdown: Annotated[
        bool, Parameter("--markdown", help="All that is known, as a Markdown table.")
    ] = False,
) -> int:
    """Print instances with their best objective and what is open; --markdown prints all facts."""
    folders = {folder.name: folder for folder in problem_folders(library)}
    if problem is not None and problem not in folders:
        raise InputError(f"PROBLEM: {unknown(problem, folders)}")
    if not markdown:
        text = short_table(library, problem)
    else:
        text = open_table(library) if problem is None else problem_table(folders[problem])
    print(text, end="")
    return 0


Told = tuple[Entry, str, Mapping[str, object], list[Path]]
"""Report on a file: its entry, a sentence, fields for JSON, and the files that were written."""


def _each(files: list[Path], look: Callable[[Path], Told], as_json: bool) -> int:
    """Look at files, print the report on each, and return the largest exit code."""
    code = 0
    for file in files:
        try:
            entry, sentence, report, entered = look(file)
        except MoeoptError as error:
            print_error(str(error))
            code = max(code, error.exit_code)
            continue
        if as_json:
            names = {"file": str(file), "problem": entry.problem, "instance": entry.name}
            print(json.dumps(names | dict(report) | {"entered": list(map(str, entered))}))
            continue
        print(f"{file}: {entry.problem}/{entry.name}: {sentence}")
        for path in entered:
            print(f"{path}: written")
    return code


def _verify_all(library: Path) -> int:
    code = 0
    for folder in problem_folders(library):
        wrong = certificate_faults(folder)
        for line in wrong:
            print(f"{folder.name}: {line}", file=sys.stderr)
        print(f"{folder.name}: {certificates(folder)} certificates, {len(wrong)} faults")
        code = max(code, InputError.exit_code * bool(wrong))
    return code


COMMANDS = {
    "check": check_command,
    "verify": verify_command,
    "table": table_command,
    "rekey": rekey_command,
}


def run(argv: Sequence[str]) -> int:
    """Run a command line and return its exit code; errors are one line on stderr."""
    app = new_app(
        "python -m instances.tools",
        "Check solutions and bounds against the instance library, and enter better ones.",
    )
    for name, function in COMMANDS.items():
        app.command(command(function), name=name)
    return run_app(app, argv)
