"""``moeopt check``: let the checker look at a solution file."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from moeopt.cli.options import BAD_INPUT, DONE, Json, command, print_json, shown, warn
from moeopt.core.errors import InputError, about

if TYPE_CHECKING:
    from moeopt.core.envelope import InstanceEnvelope
    from moeopt.core.objective import Objective
    from moeopt.exporters.targets.exact_model import OutsideAnswer


@command
def check_command(
    instance: Annotated[Path, Parameter(help="Instance file.")],
    solution: Annotated[Path, Parameter(help="Solution file, or another solver's answer (.sol).")],
    /,
    *,
    out: Annotated[
        Path | None, Parameter(help="Write the solution that a .sol file holds.")
    ] = None,
    as_json: Json = False,
) -> int:
    """Check a solution; exit 0 if it is valid, 2 if it violates a constraint.

    Where the instance's file stands in a library, it says how the best known solution compares.

    A .sol file is what HiGHS, SCIP, CBC or Gurobi say of the model that `moeopt export --to lp` or
    mps has written.
    """
    import moeopt
    from moeopt.study.known import compared, standing

    problem = moeopt.load(instance)
    answer = _answer(problem, solution)
    decision = moeopt.load_solution(solution) if answer is None else answer.solution
    if out is not None:
        if answer is None:
            raise InputError(f"{solution} is no .sol file", field="--out")
        moeopt.save(decision, out)
    with about(solution):
        verdict = moeopt.check(problem, decision)
    if answer is not None and answer.differs(problem, verdict.objective):
        warn(f"{solution}: {answer.writer} says {answer.claim:,.0f}, the checker another")
    best = best_known(instance, problem) if verdict.valid else None
    if as_json:
        report = {
            "problem": problem.problem,
            "instance": problem.name,
            "valid": verdict.valid,
            "objective": verdict.objective,
            "violations": verdict.violations,
        }
        if best is not None and verdict.objective is not None:
            report |= {"best": best, "standing": standing(verdict.objective, best)}
        print_json(report)
    elif verdict.objective is not None:
        line = f"{solution}: valid, objective {shown(problem.problem, verdict.objective)}"
        if best is not None:
            line += f", {compared(problem.problem, verdict.objective, best)}"
        print(line)
    if not verdict.valid and not as_json:
        for constraint, sentence in verdict.violations:
            print(f"{solution}: {constraint}: {sentence}", file=sys.stderr)
    return DONE if verdict.valid else BAD_INPUT


def best_known(file: Path, instance: "InstanceEnvelope") -> "Objective | None":
    """Return the objective of the best known solution, None if the file stands in no library."""
    from moeopt.study.known import Libraries

    try:
        known = Libraries().known(file, instance)
    except InputError as error:
        warn(error)
        return None
    return None if known is None else known.objective


def _answer(instance: "InstanceEnvelope", file: Path) -> "OutsideAnswer | None":
    """Return what a .sol file holds, None for any other file."""
    if not file.name.removesuffix(".gz").endswith(".sol"):
        return None
    from moeopt.exporters.targets.exact_model import read_answer

    return read_answer(instance, file)
