"""``moeopt explain``: which rules conflict; or what binds, what would help, what rules cost."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from moeopt.cli.options import Json, SolvingOptions, command, print_json, shown
from moeopt.core.errors import about
from moeopt.core.options import arguments_of

if TYPE_CHECKING:
    from moeopt.core.objective import Objective
    from moeopt.solvers.explain import Binding, Explanation


@command
def explain_command(
    instance: Annotated[Path, Parameter(help="Instance file.")],
    /,
    solution: Annotated[
        Path | None,
        Parameter(
            name="--solution",
            metavar="FILE",
            help="What to look at, also right behind the instance; default: the best found.",
        ),
    ] = None,
    *,
    method: Annotated[str, Parameter(help="cp-sat or milp.")] = "cp-sat",
    options: SolvingOptions,
    as_json: Json = False,
) -> int:
    """Say which rules make an instance infeasible (exit 3); or what binds, helps, costs (exit 0).

    For a solution: the device on which the critical path lies, and which single change would help
    most. For the instance: what each rule costs, which is the optimum's fall without it.
    """
    import moeopt
    from moeopt.cli.progress import solving
    from moeopt.problems.execute import checked

    loaded = moeopt.load(instance)
    decision = None if solution is None else moeopt.load_solution(solution)
    if decision is not None:
        with about(solution):
            checked(loaded, decision)
    with solving(f"{loaded.name}  explain", loaded.problem):
        found = moeopt.explain(loaded, method, decision, **arguments_of(options, moeopt.explain))
    if as_json:
        names = {"problem": loaded.problem, "instance": loaded.name}
        print_json(names | asdict(found))
    else:
        print(loaded.name)
        _print(loaded.problem, found)
    if found.status == "infeasible":
        return 3
    return 4 if found.objective is None else 0


def _print(problem: str, found: "Explanation") -> None:
    from moeopt.core.objective import difference
    from moeopt.problems.registry import get_problem

    sentences = get_problem(problem).constraints()
    if found.status == "infeasible":
        print("these rules cannot hold together:" if found.minimal else "among these rules:")
        for rule in found.conflict:
            print(f"  {rule}  {sentences[rule]}")
        return
    if found.binding is not None:
        _print_binding(problem, found)
    word = "optimum" if found.status == "optimal" else f"best known, {found.status},"
    print(f"rules: {word} with all of them {shown(problem, found.objective)}")
    for rule, sentence in sentences.items():
        optimum, reason = found.without.get(rule), found.reasons.get(rule)
        if rule not in found.without:
            print(f"  {rule} cannot be left out, as {reason}: {sentence}")
        elif found.objective is None or optimum is None or reason:
            print(f"  {rule} costs unknown: {sentence}\n      {reason}")
        else:
            cost = shown(problem, difference(found.objective, optimum))
            print(f"  {rule} costs {cost}: {sentence}")


def _excess(binding: "Binding", found: "Explanation") -> str:
    """Return how far a solution is above the best that is known, in words."""
    from moeopt.core.objective import relative

    if found.objective is None:
        return ""
    above = relative(binding.objective, found.objective, found.objective)
    best = "the optimum" if found.status == "optimal" else "the best known"
    if binding.objective == found.objective:
        return f", {best}"
    if above is None:
        return ""
    return f", {100 * abs(above):.1f} % {'above' if above > 0 else 'below'} {best}"


def _print_binding(problem: str, explained: "Explanation") -> None:
    """Print how good the solution is, where the critical path lies, and the best changes."""
    from moeopt.core.objective import below, difference
    from moeopt.problems.registry import get_problem

    found = explained.binding
    assert found is not None  # noqa: S101
    print(f"solution: {shown(problem, found.objective)}{_excess(found, explained)}")
    whole = sum(found.devices.values())
    unit = get_problem(problem).minimises()[0].rpartition("_")[2]
    if found.devices:
        print(f"  {next(iter(found.devices))} is the bottleneck; the critical path is")
    for name, part in found.parts.items():
        share = f"{100 * part / whole:.0f} %"
        print(f"    {name:24} {part:,} {unit} ({share})")
    if found.tied:
        print(f"  without slack as well: {', '.join(found.tied)}")
    tried = f"{found.tried:,} valid single changes" + ("" if found.complete else ", not all")
    if not found.changes:
        print(f"changes: none is valid ({tried})")
        return
    helps = below(found.changes[0].objective, found.objective)
    print(f"changes: the best of {tried}" + ("" if helps else "; none helps"))
    for change in found.changes:
        more = difference(change.objective, found.objective)
        others = "other" if change.alike == 1 else "others"
        alike = f"; {change.alike:,} {others} alike" if change.alike else ""
        print(f"  {shown(problem, change.objective)} ({_signed(more)}): {change.what}{alike}")


def _signed(more: "Objective") -> str:
    from moeopt.core.objective import entries

    return ", ".join(f"{entry:+,}" for entry in entries(more))
