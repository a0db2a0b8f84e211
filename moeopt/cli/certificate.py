"""``moeopt certificate``: proofs of lower bounds, made and checked in integers."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from moeopt.cli.options import Json, command, print_json
from moeopt.core.errors import ContradictionError, InputError, about

InstanceFile = Annotated[Path, Parameter(help="Instance file.")]


@command
def make_command(
    instance: InstanceFile,
    /,
    *,
    out: Annotated[Path, Parameter(help="The certificate.")],
    time_limit: Annotated[
        float, Parameter(validator=Number(gte=0), help="Seconds for branching.")
    ] = 60.0,
    nodes: Annotated[
        int, Parameter(validator=Number(gte=1, lte=2**16), help="Most nodes of the tree.")
    ] = 1001,
    as_json: Json = False,
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
    if as_json:
        proves = packing.unpack(found["bound"])
        names = {"problem": given.problem, "instance": given.name, "file": str(out)}
        print_json(names | {"bound": proves, "nodes": size})
    else:
        print(f"{out}: proves {bound} with {size} nodes")
    return 0


@command
def check_command(
    instance: InstanceFile,
    certificate: Annotated[Path, Parameter(help="Certificate.")],
    /,
    *,
    as_json: Json = False,
) -> int:
    """Check in integers that a certificate proves a lower bound; its source does not matter.

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
        raise ContradictionError(f"{certificate}: proves more than the best known solution costs")
    if as_json:
        names = {"file": str(certificate), "problem": given.problem, "instance": given.name}
        print_json(names | {"bound": bound})
    else:
        print(f"{certificate}: nothing costs less than {shown(given.problem, bound)}")
    return 0


@command
def model_command(
    instance: InstanceFile,
    /,
    *,
    out: Annotated[Path, Parameter(help="The model.")],
    certificate: Annotated[
        Path | None,
        Parameter("--for", metavar="FILE", help="A certificate: the model that it is about."),
    ] = None,
    as_json: Json = False,
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
    given = moeopt.load(instance)
    data = neutral_model(given, form).data
    save(data, out)
    sizes = {"variables": len(data["vars"]), "rows": len(data["rows"])}
    if as_json:
        names = {"problem": given.problem, "instance": given.name, "file": str(out)}
        print_json({**names, **sizes})
    else:
        print(f"{out}: {sizes['variables']} variables, {sizes['rows']} rows")
    return 0
