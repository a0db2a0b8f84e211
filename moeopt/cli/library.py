"""``moeopt library``: solutions and bounds for the instance library, checked and entered."""

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from moeopt.cli.options import Json, group, print_error
from moeopt.core.errors import InputError, MoeoptError
from moeopt.core.wording import unknown

if TYPE_CHECKING:
    from moeopt.library.entries import Entry

Where = Annotated[Path, typer.Option("--library", help="Folder of the instance library.")]
InstanceFile = Annotated[
    Path | None, typer.Option("--instance", help="The instance's file, if no name says which.")
]
Write = Annotated[bool, typer.Option("--write", help="Enter what is better into the library.")]
By = Annotated[str | None, typer.Option("--by", help="To whom an entry is credited.")]

INSTANCES = Path("instances")


def build_app() -> typer.Typer:
    """Return the group of the commands on the instance library."""
    return group(
        "Check solutions and bounds against the instance library, and enter better ones.",
        {
            "check": check_command,
            "certify": certify_command,
            "model": model_command,
            "verify": verify_command,
            "table": table_command,
        },
    )


def check_command(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="Solutions: .json, or a solver's .sol.")
    ],
    library: Where = INSTANCES,
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
    from moeopt.cli.options import shown
    from moeopt.library.submissions import credited, enter, submitted

    by = credited(by)

    def look(file: Path) -> Told:
        found = submitted(library, file, instance)
        entered = enter(found, by) if write else []
        costs = f"objective {shown(found.entry.problem, found.objective)}"
        report = {"objective": found.objective, "best": found.entry.objective}
        sentence = f"{costs}: {found.sentence()}"
        return found.entry, sentence, report | {"standing": found.standing}, entered

    return _each(files, look, as_json)


def verify_command(
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[FILE...]", help="Certificates; by default the library's own."),
    ] = None,
    library: Where = INSTANCES,
    instance: InstanceFile = None,
    write: Write = False,
    by: By = None,
    as_json: Json = False,
) -> int:
    """Verify certificates of bounds in integers, whoever made them.

    Exit 2 if a file proves nothing, 5 if one proves more than a known solution costs.
    """
    from moeopt.cli.options import shown
    from moeopt.library.submissions import certified, credited, enter_bound

    by = credited(by)
    if not files:
        return _verify_all(library)

    def look(file: Path) -> Told:
        found = certified(library, file, instance)
        entered = enter_bound(found, by) if write else []
        proves = f"proves {shown(found.entry.problem, found.bound)}: {found.sentence()}"
        report = {"bound": found.bound, "best_bound": found.entry.bound}
        return found.entry, proves, report, entered

    return _each(files, look, as_json)


def certify_command(
    instance: Annotated[Path, typer.Argument(help="Instance file.", show_default=False)],
    out: Annotated[Path, typer.Option(help="The certificate.", show_default=False)],
    library: Where = INSTANCES,
    time_limit: Annotated[
        float, typer.Option(metavar="S", min=0, help="Seconds for branching.")
    ] = 60.0,
    nodes: Annotated[int, typer.Option(min=1, max=2**16, help="Most nodes of the tree.")] = 1001,
) -> int:
    """Make a certificate of a lower bound by linear relaxations and branching."""
    import moeopt
    from moeopt.certificates.forms import best_certificate
    from moeopt.cli.options import shown
    from moeopt.core.json_files import save
    from moeopt.library.entries import find
    from moeopt.problems.registry import get_problem

    given = moeopt.load(instance)
    packing = get_problem(given.problem).packing(given)
    try:
        known = find(library, given.name, given.problem).objective
    except InputError:  # an instance of one's own
        best = moeopt.solve(given, work_limit=1.0)
        if best.objective is None:
            raise InputError(f"{instance}: no solution is known to hold a bound to") from None
        known = best.objective
    found = best_certificate(given, packing.pack(known), time_limit, nodes)
    save(found, out)
    bound = shown(given.problem, packing.unpack(found["bound"]))
    size = sum(len(part["tree"]) for part in found.get("parts", [found]))
    print(f"{out}: proves {bound} with {size} nodes")
    return 0


def model_command(
    instance: Annotated[Path, typer.Argument(help="Instance file.", show_default=False)],
    out: Annotated[Path, typer.Option(help="The model.", show_default=False)],
    certificate: Annotated[
        Path | None,
        typer.Option("--for", metavar="FILE", help="A certificate: the model that it is about."),
    ] = None,
) -> int:
    """Write an instance's model in integers, which certificates are checked against.

    Without --for it is the exact one. `python certificate.py MODEL CERTIFICATE` checks a
    certificate without any package installed.
    """
    import moeopt
    from moeopt.certificates.certificate import RefusedError, read
    from moeopt.certificates.model import form_of, neutral_model
    from moeopt.core.json_files import save

    try:
        form = None if certificate is None else form_of(read(certificate))
    except (InputError, RefusedError) as error:
        raise InputError(f"{certificate}: {error}") from None
    data = neutral_model(moeopt.load(instance), form).data
    save(data, out)
    print(f"{out}: {len(data['vars'])} variables, {len(data['rows'])} rows")
    return 0


def table_command(
    problem: Annotated[
        str | None, typer.Argument(help="A problem; by default the open instances of all.")
    ] = None,
    library: Where = INSTANCES,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="All that is known, as a Markdown table.")
    ] = False,
) -> int:
    """Print instances with their best objective and what is open; --markdown prints all facts."""
    from moeopt.library.entries import open_table, problem_folders, problem_table, short_table

    folders = {folder.name: folder for folder in problem_folders(library)}
    if problem is not None and problem not in folders:
        raise InputError(f"PROBLEM: {unknown(problem, folders)}")
    if not markdown:
        text = short_table(library, problem)
    else:
        text = open_table(library) if problem is None else problem_table(folders[problem])
    print(text, end="")
    return 0


Told = tuple["Entry", str, Mapping[str, object], list[Path]]
"""What is said of a file: its entry, a sentence, a report, and the files that were written."""


def _each(files: list[Path], look: Callable[[Path], Told], as_json: bool) -> int:
    """Look at files, print what is said of each, and return the largest exit code."""
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
    from moeopt.library.entries import problem_folders
    from moeopt.library.submissions import certificate_faults, certificates

    code = 0
    for folder in problem_folders(library):
        wrong = certificate_faults(folder)
        for line in wrong:
            print(f"{folder.name}: {line}", file=sys.stderr)
        print(f"{folder.name}: {certificates(folder)} certificates, {len(wrong)} faults")
        code = max(code, InputError.exit_code * bool(wrong))
    return code
