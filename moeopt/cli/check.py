"""``moeopt check``: let the checker look at a solution file."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from moeopt.cli.options import Json, shown

VALID, INVALID = 0, 2


def check_command(
    instance: Annotated[Path, typer.Argument(help="Instance file.")],
    solution: Annotated[Path, typer.Argument(help="Solution file.")],
    as_json: Json = False,
) -> int:
    """Check a solution; exit 0 if it is valid, 2 if it violates a constraint."""
    import moeopt
    from moeopt.errors import InputError

    problem, decision = moeopt.load(instance), moeopt.load_solution(solution)
    try:
        verdict = moeopt.check(problem, decision)
    except InputError as error:
        raise InputError(f"{solution}: {error}") from None
    if as_json:
        report = {
            "problem": problem.problem,
            "instance": problem.name,
            "valid": verdict.valid,
            "objective": verdict.objective,
            "violations": verdict.violations,
        }
        print(json.dumps(report))
    elif verdict.valid:
        print(f"{solution}: valid, objective {shown(problem.problem, verdict.objective)}")
    if not verdict.valid and not as_json:
        for constraint, sentence in verdict.violations:
            print(f"{solution}: {constraint}: {sentence}", file=sys.stderr)
    return VALID if verdict.valid else INVALID
