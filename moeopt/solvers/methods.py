"""The methods of each problem, found from its modules without importing solvers."""

from dataclasses import replace
from pathlib import Path

from moeopt.core.assumptions import assumed_name, check_assumed, split_name
from moeopt.core.envelope import InstanceEnvelope
from moeopt.core.errors import InputError
from moeopt.core.problem import Engine, ExactMethod
from moeopt.core.wording import shown, unknown_name
from moeopt.problems.files import InstanceLike, as_instance
from moeopt.problems.registry import AnyProblem, get_problem
from moeopt.solvers.backends import EXACT as EXACT
from moeopt.solvers.rules import AUTO, Function, Rule, get_rule, own_names, rule_names, rule_of
from moeopt.solvers.task import MODELS as MODELS
from moeopt.solvers.task import Method as Method

GOES_ON = "cp-sat"
"""What `auto` hands over to where the problem names nothing else."""


def problem_methods(problem: AnyProblem) -> dict[str, Method]:
    """Return a problem's methods by name: heuristics, then the exact ones, its own first.

    Neither ``auto`` nor users' rules are among them: these are what the problem itself brings.
    """
    found = {of.name: Method(of.name, "heuristic", "heuristic") for of in problem.heuristics}
    found |= {own.name: _own(own) for own in problem.exact}
    models: dict[str, Engine] = {"cp-sat": "cp-sat", "milp": "milp"}
    for name, backend in EXACT.items():
        found[name] = Method(name, "exact", backend, models.get(name))
    return found


def _own(exact: ExactMethod) -> Method:
    return Method(exact.name, "exact", "own", own=exact, then=exact.then)


def _one_of(problem: AnyProblem, name: str) -> Method | None:
    """Return a problem's method of a name, without making all the others; None if there is none."""
    if problem.known_heuristic(name) is not None:
        return Method(name, "heuristic", "heuristic")
    if own := next((one for one in problem.exact if one.name == name), None):
        return _own(own)
    return problem_methods(problem).get(name)


def automatic(problem: AnyProblem, relaxed: bool = False) -> Method:
    """Return what ``auto`` stands for: the problem's best own exact method, and CP-SAT after it.

    Parameters
    ----------
    relaxed
        Whether constraints are left out, which models can and a problem's own algorithms cannot.
    """
    own = problem.exact[0].name if problem.exact else GOES_ON
    name = GOES_ON if relaxed else own
    chosen = _one_of(problem, name) or problem_methods(problem)[name]
    if chosen.backend != "own" or chosen.then is not None:
        return chosen
    return replace(chosen, then=GOES_ON)


def get_method(problem: AnyProblem, name: str | Rule | Function) -> Method:
    """Return a method of a problem, or what a user's rule is as a method.

    Parameters
    ----------
    name
        ``auto``, one of `problem_methods`, a registered rule's or a plugin's name; or the rule
        itself. A heuristic's name may carry assumptions: ``trimoe[tie_order=gpu]``.

    Raises
    ------
    InputError
        If the problem has no such method, the message listing those it has; if it takes no such
        assumption; if the rule is for another problem, or a plugin cannot be loaded.
    """
    if isinstance(name, Rule):
        return _rule(problem, name)
    if callable(name):
        return _rule(problem, rule_of(name))
    if not isinstance(name, str):
        raise InputError(
            f"must be a method's name or a function, not {shown(name)}", field="method"
        )
    if name == AUTO:
        return automatic(problem)
    if (one := _one_of(problem, name)) is not None:
        return one
    found = problem_methods(problem)
    rule = get_rule(problem.name, name)
    if rule is not None:
        return _rule(problem, rule)
    plain, assumed = split_name(name)
    if assumed and plain in found:
        check_assumed(plain, assumed, problem.assumptions())
        return replace(found[plain], name=assumed_name(plain, assumed), assumed=assumed)
    if name.endswith(".py"):
        reason = f"{shown(name)}: is a file; name its function, too: {name}:FUNCTION"
        raise InputError(reason, field="method")
    known = [AUTO, *found, *rule_names(problem.name)]
    raise unknown_name("method", name, known, whose=f" for {problem.name}")


def _rule(problem: AnyProblem, rule: Rule) -> Method:
    if rule.problem not in (None, problem.name):
        raise InputError(
            f"{rule.name!r} is for {rule.problem}, not for {problem.name}", field="method"
        )
    return Method(rule.name, "heuristic", "rule", rule=rule)


def method_kind(problem: AnyProblem, name: str) -> str:
    """Return "heuristic" or "exact"; users' rules are heuristics, and are not imported for this."""
    if name == AUTO:
        return "exact"
    found = problem_methods(problem).get(split_name(name)[0])
    return found.kind if found else "heuristic"


def methods(problem: InstanceLike) -> list[str]:
    """Return the names of the methods that a problem can be solved with.

    Parameters
    ----------
    problem
        The problem's name, e.g. ``"tri_domain"``; or an instance of it, or the instance's file.

    Returns
    -------
    list of str
        ``auto`` first, then the problem's heuristics, custom ones (by `moeopt.heuristic` or a
        plug-in), and the exact methods.

    Raises
    ------
    InputError
        If there is no such problem.

    Examples
    --------
    >>> import moeopt
    >>> moeopt.methods("cache")[:3]
    ['auto', 'uniform-ways', 'best-uniform']
    """
    if isinstance(problem, InstanceEnvelope | Path) or str(problem).endswith((".json", ".gz")):
        problem = as_instance(problem).problem
    home = get_problem(problem)
    own = problem_methods(home)
    users = [name for name in rule_names(problem) if name not in own_names(home)]
    heuristics = [name for name, method in own.items() if method.kind == "heuristic"]
    return [AUTO, *heuristics, *users, *(name for name in own if name not in heuristics)]
