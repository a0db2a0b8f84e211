"""``moeopt explain``: which rules conflict, or what each rule costs."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from moeopt.cli.options import Json, Seed, TimeLimit, Workers, shown

if TYPE_CHECKING:
    from moeopt.solvers.explain import Explanation


def explain_command(
    instance: Annotated[Path, typer.Argument(help="Instance file.")],
    method: Annotated[str, typer.Option("--method", help="cp-sat, milp or mathprog.")] = "cp-sat",
    time_limit: TimeLimit = 60.0,
    seed: Seed = 0,
    workers: Workers = 1,
    as_json: Json = False,
) -> int:
    """Say which rules make an instance infeasible (exit 3), or what each rule costs (exit 0)."""
    import moeopt
    from moeopt.cli.progress import solving

    loaded = moeopt.load(instance)
    with solving(f"{loaded.name}  explain", loaded.problem):
        found = moeopt.explain(loaded, method, time_limit_s=time_limit, seed=seed, workers=workers)
    if as_json:
        names = {"problem": loaded.problem, "instance": loaded.name}
        print(json.dumps(names | asdict(found)))
    else:
        print(f"{loaded.name}: {found.status}")
        _print(loaded.problem, found)
    if found.status == "infeasible":
        return 3
    return 4 if found.objective is None else 0


def _print(problem: str, found: "Explanation") -> None:
    from moeopt.problems.objective import difference
    from moeopt.problems.registry import get_problem

    sentences = get_problem(problem).part("check").CONSTRAINTS
    if found.conflict:
        print("these rules cannot hold together:" if found.minimal else "among these rules:")
    for rule in found.conflict:
        print(f"  {rule}  {sentences[rule]}")
    if not found.without:
        return
    print(f"  optimum with every rule: {shown(problem, found.objective)}")
    for rule, optimum in found.without.items():
        cost = "unknown"
        if found.objective is not None and optimum is not None and found.status == "optimal":
            cost = shown(problem, difference(found.objective, optimum))
        print(f"  {rule} costs {cost}: {sentences[rule]}")
