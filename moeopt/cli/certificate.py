"""``moeopt certificate``: proofs of lower bounds, made and checked in integers."""

import json
from pathlib import Path
from typing import Annotated

import typer

from moeopt.cli.options import Json, group
from moeopt.core.errors import InputError, ModelMismatchError, about

InstanceFile = Annotated[Path, typer.Argument(help="Instance file.", show_default=False)]


def build_app() -> typer.Typer:
    """Return the group of the commands on certificates."""
    return group(
        "Make and check certificates: proofs of lower bounds in integers.",
        {"make": make_command, "check": check_command, "model": model_command},
    )


def make_command(
    instance: InstanceFile,
    out: Annotated[Path, typer.Option(help="The certificate.", show_default=False)],
    time_limit: Annotated[
        float, typer.Option(metavar="S", min=0, help="Seconds for branching.")
    ] = 60.0,
    nodes: Annotated[int, typer.Option(min=1, max=2**16, help="Most nodes of the tree.")] = 1001,
) -> int:
    """Make a certificate of a lower bound by linear relaxations and branching."""
    import moeopt
    from moeopt.certificates.forms import best_certificate
    from moeopt.cli.check import best_known
    from moeopt.cli.options import shown
    from moeopt.core.json_files import save
    from moeopt.problems.registry import get_problem

    given = moeopt.load(instance)
    packing = get_problem(given.problem).packing(given)
    known = best_known(instance, given)
    if known is None:
        known = moeopt.solve(given, work_limit=1.0).objective
    if known is None:
        raise InputError(f"{instance}: no solution is known to hold a bound to")
    found = best_certificate(given, packing.pack(known), time_limit, nodes)
    save(found, out)
    bound = shown(given.problem, packing.unpack(found["bound"]))
    size = sum(len(part["tree"]) for part in found.get("parts", [found]))
    print(f"{out}: proves {bound} with {size} nodes")
    return 0


def check_command(
    instance: InstanceFile,
    certificate: Annotated[Path, typer.Argument(help="Certificate.", show_default=False)],
    as_json: Json = False,
) -> int:
    """Check in integers that a certificate proves a lower bound, whoever made it.

    Exit 2 if it proves nothing of this instance. Where the instance's file stands in a library,
    exit 5 if it proves more than the best known solution costs.
    """
    import moeopt
    from moeopt.certificates.checked import proven_bound, read_certificate
    from moeopt.cli.check import best_known
    from moeopt.cli.options import shown
    from moeopt.core.objective import below

    given = moeopt.load(instance)
    with about(certificate):
        bound = proven_bound(given, read_certificate(certificate))
    best = best_known(instance, given)
    if best is not None and below(best, bound):
        raise ModelMismatchError(f"{certificate}: proves more than the best known solution costs")
    if as_json:
        names = {"file": str(certificate), "problem": given.problem, "instance": given.name}
        print(json.dumps(names | {"bound": bound}))
    else:
        print(f"{certificate}: nothing costs less than {shown(given.problem, bound)}")
    return 0


def model_command(
    instance: InstanceFile,
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
    from moeopt.certificates.checked import read_certificate
    from moeopt.certificates.model import form_of, neutral_model
    from moeopt.core.json_files import save

    form = None
    if certificate is not None:
        with about(certificate):
            form = form_of(read_certificate(certificate))
    data = neutral_model(moeopt.load(instance), form).data
    save(data, out)
    print(f"{out}: {len(data['vars'])} variables, {len(data['rows'])} rows")
    return 0
