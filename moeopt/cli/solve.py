"""``moeopt solve``: solve instances and print, save or draw what comes out."""

import sys
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from moeopt.cli.options import (
    BAD_INPUT,
    DONE,
    GRAVEST_FIRST,
    INFEASIBLE,
    NO_SOLUTION,
    Json,
    SolvingOptions,
    command,
    print_error,
    print_json,
    shown,
    stem,
)
from moeopt.core.errors import HeuristicError, InputError, MoeoptError
from moeopt.core.options import arguments_of, option

if TYPE_CHECKING:
    from moeopt.core.envelope import InstanceEnvelope
    from moeopt.solvers.result import Result


@dataclass(frozen=True, kw_only=True)
class SolveOptions(SolvingOptions):
    """Options of ``moeopt solve``."""

    method: str = option(
        "auto",
        "See `moeopt list methods`; or a custom heuristic: FILE.py:function or"
        " package.module:function.",
    )
    engine: str | None = option(None, "Of milp: highs, cbc, scip, gurobi, cplex.")
    verify: bool = option(
        True,
        "Confirm by a second reason what rests on one engine's word.",
        flag="--verify/--no-verify",
    )
    out: Path | None = option(None, "Save the solution to this file or folder.", group="Output")


@command
def solve_command(
    instances: Annotated[list[Path], Parameter(help="Instance files.")],
    /,
    *,
    options: SolveOptions,
    as_json: Json = False,
) -> int:
    """Solve instances; exit 0 solved, 2 bad input, 3 infeasible, 4 nothing found, 5 a bug."""
    from moeopt import load, solve
    from moeopt.cli.progress import solving
    from moeopt.solvers.result import failed_result
    from moeopt.solvers.rules import load_rule

    targets, method = _targets(instances, options.out), options.method
    chosen = load_rule(method) if ":" in method else method
    given = arguments_of(options, solve) | {"method": chosen}
    codes = []
    for path in instances:
        try:
            instance = load(path)
            title = f"{instance.name}  {method}"
            with solving(title, instance.problem) as on_progress, redirect_stdout(sys.stderr):
                result = solve(instance, **given, on_progress=on_progress)
            unsaved = _save(result, targets.get(path))
            _print(result, instance, as_json)
            if unsaved:
                print_error(f"--out: {unsaved}")
                codes.append(BAD_INPUT)
            codes.append(_exit_code(result))
            if result.termination == "interrupted":
                _warn_skipped(instances[len(codes) :])
                break
        except HeuristicError as error:
            print_error(f"{path}: {error}")
            if as_json:
                known = (instance.problem, instance.name), error.heuristic or method
                failed = failed_result(*known, options.seed, options.workers, error.reason)
                print_json(failed.to_dict())
            codes.append(error.exit_code)
        except MoeoptError as error:
            message = str(error) if str(error).startswith(str(path)) else f"{path}: {error}"
            print_error(message)
            codes.append(error.exit_code)
    return next(code for code in GRAVEST_FIRST if code in codes)


def _exit_code(result: "Result") -> int:
    if result.objective is not None:
        return DONE
    return INFEASIBLE if result.status == "infeasible" else NO_SOLUTION


def _targets(instances: list[Path], out: Path | None) -> dict[Path, Path]:
    """Return where each instance's solution goes, before anything is solved for nothing."""
    if out is None:
        return {}
    if len(instances) == 1 and not out.is_dir():
        if not out.parent.is_dir():
            raise InputError(f"{out.parent} is not a folder", field="--out")
        return {instances[0]: out}
    if out.exists() and not out.is_dir():
        raise InputError(f"{out} must be a folder for several instances", field="--out")
    if len(instances) > 1 and out.suffix in (".json", ".gz"):
        raise InputError(
            f"{out} must be a folder for several instances, not a file's name", field="--out"
        )
    targets = {path: out / f"{stem(path)}.solution.json" for path in instances}
    if len(set(targets.values())) < len(targets):
        raise InputError("several instance files have the same name", field="--out")
    return targets


def _save(result: "Result", target: Path | None) -> str | None:
    """Save the solution, if there is one; return why it could not be, so that it is printed yet."""
    import moeopt

    if target is None or result.solution is None:
        return None
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        moeopt.save(result.solution, target)
    except OSError as error:
        return f"{error.filename or target}: {error.strerror or error}"
    except InputError as error:
        return str(error)
    return None


def _print(result: "Result", instance: "InstanceEnvelope", as_json: bool) -> None:
    if as_json:
        print_json(result.to_dict())
        return
    from moeopt.solvers.result import compiling

    gap = "-" if result.gap is None else f"{100 * result.gap:.3f} %"
    engine = f" ({result.engine})" if result.engine else ""
    print(f"{result.instance}: {result.problem}, {result.method}{engine}")
    print(f"  status     {result.said}, {result.termination} [{result.raw_status}]")
    print(f"  objective  {shown(result.problem, result.objective)}")
    print(f"  bound      {shown(result.problem, result.bound)}, gap {gap}")
    if (precision := _precision(result, instance)) is not None:
        print(f"  precision  {precision}")
    extra = compiling(result.compile_s)
    print(f"  time       {result.build_s:.3f} s building, {result.solve_s:.3f} s solving{extra}")
    if result.work is not None:
        print(f"  work       {result.work:.3f} of {result.work_limit:g} units")
    if result.solution is not None and sys.stdout.isatty():
        _draw(result, instance)


def _precision(result: "Result", instance: "InstanceEnvelope") -> str | None:
    """Return what rounding leaves of a proof, where the problem has something to say about it."""
    from moeopt.problems.registry import get_problem

    if result.solution is None:
        return None
    return get_problem(result.problem).precision(instance, result.solution)


def _draw(result: "Result", instance: "InstanceEnvelope") -> None:
    from moeopt.cli.gantt import draw
    from moeopt.problems.execute import critical_lanes

    if result.solution is not None:
        drawn = critical_lanes(instance, result.solution)
        if drawn is not None:
            print(draw(drawn.lanes, get_terminal_size().columns))
            print(f"  {drawn.caption}")


def _warn_skipped(rest: list[Path]) -> None:
    if rest:
        print(f"moeopt: interrupted: {len(rest)} instances not solved", file=sys.stderr)


@command
def warm_command(
    *,
    jobs: Annotated[int | None, Parameter(help="Processes; default: one per processor.")] = None,
    as_json: Json = False,
) -> int:
    """Compile the kernels of all problems now, so that no solve waits for one: servers, CI.

    They are kept in the user's cache folder, or in $MOEOPT_CACHE_DIR; done once, it ends at once.
    """
    from moeopt.solvers.warm import warm

    def tell(problem: str, compiled: int, done: int, total: int) -> None:
        print(f"moeopt: {done}/{total} {problem}: {compiled} compiled", file=sys.stderr)

    found = warm(jobs, on_progress=tell)
    if as_json:
        record = {"compiled": found.compiled, "seconds": found.seconds}
        print_json(record | {"folder": str(found.folder)})
    else:
        print(f"{found.compiled} kernels compiled in {found.seconds:.1f} s, kept in {found.folder}")
    return 0
