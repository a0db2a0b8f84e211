"""Custom heuristics, beside those of the problems.

A rule is a function of an instance. It returns a `Solution`, or what the problem's `Solution` is
made of: a mapping of its decision fields, or, where there is one field only, that field's value.
Lists, tuples and NumPy arrays are all the same. It may return a lower bound beside it, as a pair
``(solution, bound)``: one integer, or a tuple of them where the objective has several entries (the
solution is then a `Solution` or a mapping). A bound is a claim and proves nothing by itself. A rule
comes in one of four ways:

* ``moeopt.solve(instance, method=function)``: any callable;
* ``@moeopt.heuristic("tri_domain", "mine")``: registered for this process, then a method's name;
* ``FILE.py:function`` or ``package.module:function`` on the command line, read by `load_rule`;
* a plugin: an installed package with an entry point of the group ``moeopt.heuristics``, whose name
  is ``problem:rule`` (or ``problem.rule``) and whose value is the function::

      [project.entry-points."moeopt.heuristics"]
      "tri_domain:mine" = "my_package.rules:mine"

  A plugin is imported when its rule is first asked for, so that a broken one is in nobody's way.

A function of this process, as in the first two ways, runs in the caller's thread, and no limit ends
it. One that was named by file or module runs in a child process, which is killed at the limit.

Nothing that a rule returns is taken on trust: `apply_rule` converts it, and the problem's checker
decides. Whatever goes wrong in a rule is told in one line (`moeopt.HeuristicError`).
"""

import hashlib
import inspect
import sys
import traceback
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module, metadata
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from numbers import Integral, Real
from pathlib import Path
from types import NoneType
from typing import Any, TypeVar

import numpy as np

from moeopt.core.envelope import InstanceEnvelope, SolutionEnvelope
from moeopt.core.errors import HeuristicError, InputError
from moeopt.core.objective import Objective
from moeopt.core.plugins import entries, in_words, loaded
from moeopt.core.wording import meant, shortened, suggested
from moeopt.problems.registry import AnyProblem, get_problem
from moeopt.solvers.backends import EXACT

GROUP = "moeopt.heuristics"
"""The entry point group of plugins."""

AUTO = "auto"
"""The method that picks a problem's own exact method."""

LONGEST_REASON = 200

Function = Callable[[Any], Any]
F = TypeVar("F", bound=Function)


@dataclass(frozen=True)
class Rule:
    """A user's heuristic.

    Attributes
    ----------
    name
        What results call it: the registered name, or ``file.py:function``, or ``module:function``.
    problem
        The problem it is for; None if it was given without one, and is tried on any.
    function
        Instance -> solution.
    source_path
        The file that defines the function, or that was named; None if there is none, as in an
        interactive session.
    source_sha256
        Hash of that file's bytes (without a file: of the function's source), so that an edited rule
        is another rule. What the file imports is not covered. None if there is no source.
    spec
        What `load_rule` made it of, in a form that any process of this machine can load again; None
        for a function of this process.
    """

    name: str
    problem: str | None
    function: Function
    source_path: Path | None = None
    source_sha256: str | None = None
    spec: str | None = None


_registered: dict[str, dict[str, Rule]] = {}
"""Problem -> name -> rule, of this process."""


def heuristic(problem: str, name: str) -> Callable[[F], F]:
    """Register the decorated function as a heuristic of a problem, for this process.

    Parameters
    ----------
    problem
        The problem's name, e.g. ``"tri_domain"``.
    name
        The method's name; registering it again replaces the heuristic.

    Returns
    -------
    Callable
        A decorator that returns the function as it is.

    Raises
    ------
    InputError
        If there is no such problem, or the problem has a method of that name itself.

    Examples
    --------
    >>> import moeopt
    >>> @moeopt.heuristic("tri_domain", "everything-on-gpu")
    ... def everything_on_gpu(instance):
    ...     return ["gpu"] * len(instance.experts)
    >>> "everything-on-gpu" in moeopt.methods("tri_domain")
    True
    """
    home = get_problem(problem)
    if not isinstance(name, str) or not name.strip() or not name.isprintable():
        raise InputError(f"must be a name for a method, not {shortened(repr(name))}", field="name")
    if name in own_names(home):
        raise InputError(f"{name!r} is a method of {problem} already; choose another", field="name")

    def register(function: F) -> F:
        if not callable(function):
            raise InputError(f"must decorate a function, not {_kind(function)}", field="heuristic")
        rule = Rule(name, problem, function, *source_of(function))
        _registered.setdefault(problem, {})[name] = rule
        return function

    return register


def own_names(problem: AnyProblem) -> set[str]:
    """Return the names of a problem's own methods, which no rule can take."""
    heuristics = {one.name for one in problem.heuristics}
    return {AUTO, *EXACT, *heuristics} | {one.name for one in problem.exact}


def rule_names(problem: str) -> list[str]:
    """Return the names of the rules for a problem: registered ones, then plugins, not imported."""
    return list(dict.fromkeys([*_registered.get(problem, {}), *_plugins().get(problem, {})]))


def get_rule(problem: str, name: str) -> Rule | None:
    """Return the rule of that name, importing it if it is a plugin's; None if there is none.

    Raises
    ------
    InputError
        If the plugin cannot be imported.
    """
    if name in _registered.get(problem, {}):
        return _registered[problem][name]
    entry = _plugins().get(problem, {}).get(name)
    if entry is None:
        return None
    function = loaded(entry, object)
    if not callable(function):
        raise InputError(f"{in_words(entry)} is {_kind(function)}, not a function")
    return Rule(name, problem, function, *source_of(function))


def _plugins() -> dict[str, dict[str, metadata.EntryPoint]]:
    """Return the installed plugins by problem and rule; a name without a problem is nobody's."""
    found: dict[str, dict[str, metadata.EntryPoint]] = {}
    for entry in entries(GROUP).values():
        problem, separator, name = entry.name.partition(":")
        if not separator:
            problem, separator, name = entry.name.partition(".")
        if problem and name:
            found.setdefault(problem.strip(), {})[name.strip()] = entry
    return found


def rule_of(function: Function) -> Rule:
    """Return the rule that a callable is; its name is ``module:function``, or as registered."""
    for rules in _registered.values():
        for rule in rules.values():
            if rule.function is function:
                return rule
    name = getattr(function, "__qualname__", type(function).__qualname__)
    module = getattr(function, "__module__", None) or type(function).__module__
    return Rule(f"{module}:{name}", None, function, *source_of(function))


def load_rule(spec: str) -> Rule:
    """Load a rule from a file or a module.

    Parameters
    ----------
    spec
        ``FILE.py:function`` or ``package.module:function``. A file is run anew at each call, and
        its folder is added to Python's path, as when it is run as a script.

    Returns
    -------
    Rule
        With its problem where the function is registered with `heuristic`, else None.

    Raises
    ------
    InputError
        If there is no such file, module or function, or it cannot be imported.
    """
    source, separator, name = spec.rpartition(":") if isinstance(spec, str) else ("", "", "")
    if not (separator and source and name.isidentifier()):
        shown = shortened(repr(spec))
        raise InputError(
            f"must be FILE.py:function or package.module:function, not {shown}", field="rule"
        )
    path = Path(source)
    is_file = path.suffix == ".py"
    if is_file and not path.is_file():
        raise InputError(f"there is no file {source}", where=spec)
    try:
        module = _run_file(path) if is_file else import_module(source)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        raise InputError(f"cannot be loaded: {because(error, source)}", where=spec) from None
    function = getattr(module, name, None)
    if function is None:
        there = [key for key, one in vars(module).items() if callable(one) and key[0] != "_"]
        known = f"{meant(name, there) or ';'} there are: {', '.join(there) or 'none'}"
        raise InputError(
            f"there is no {name!r} in {source}{known}",
            where=spec,
            suggestion=suggested(name, there),
        )
    if not callable(function):
        raise InputError(f"{name!r} is {_kind(function)}, not a function", where=spec)
    rule = rule_of(function)
    again = f"{path.resolve()}:{name}" if is_file else spec
    label = f"{path.name}:{name}" if is_file else spec
    named = rule.name if rule.problem else label
    path_hash = source_of(module) if is_file else (rule.source_path, rule.source_sha256)
    return Rule(named, rule.problem, function, *path_hash, again)


class _Fresh(SourceFileLoader):
    """Compiles the file each time: cached bytecode may be of a version a second ago."""

    def get_code(self, fullname: str) -> types.CodeType:
        code: types.CodeType = self.source_to_code(self.get_data(self.path), self.path)
        return code


def _run_file(path: Path) -> types.ModuleType:
    absolute = str(path.resolve())
    name = f"moeopt_rules_{hashlib.sha256(absolute.encode()).hexdigest()[:16]}"
    spec = spec_from_file_location(name, absolute, loader=_Fresh(name, absolute))
    if spec is None or spec.loader is None:  # for mypy: a loader is given
        raise ImportError(absolute)
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.append(folder)
    module = module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def source_of(defined: object) -> tuple[Path | None, str | None]:
    """Return the file that a function or module is defined in, and the hash of its bytes."""
    thing: Any = inspect.unwrap(defined) if callable(defined) else defined
    thing = getattr(thing, "func", thing)  # functools.partial
    if not (inspect.ismodule(thing) or inspect.isroutine(thing) or inspect.isclass(thing)):
        thing = type(thing)
    try:
        path = Path(inspect.getsourcefile(thing) or "")
        if path.is_file():
            return path.resolve(), hashlib.sha256(path.read_bytes()).hexdigest()
        return None, hashlib.sha256(inspect.getsource(thing).encode()).hexdigest()
    except (OSError, TypeError):
        return None, None


@dataclass(frozen=True)
class Proposed:
    """Solution and lower bound that a rule returned, not yet checked.

    Attributes
    ----------
    bound
        Its claim that no solution has a lower objective; None if it makes none.
    """

    solution: SolutionEnvelope
    bound: Objective | None = None


def apply_rule(rule: Rule, instance: InstanceEnvelope) -> Proposed:
    """Run a rule and return its solution of the instance, not yet checked, and its bound.

    The heuristic gets a copy of its own, and may change it.

    Raises
    ------
    HeuristicError
        If the rule raises, or what it returns is not a solution of this instance.
    KeyboardInterrupt
        At Ctrl-C.
    """
    try:
        returned = rule.function(instance.model_copy(deep=True))
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        raise HeuristicError(f"raised {because(error, str(rule.source_path))}") from error
    return proposed(instance, returned)


def proposed(instance: InstanceEnvelope, returned: object) -> Proposed:
    """Return what a rule returned: a solution, or a pair of one and a lower bound.

    Raises
    ------
    HeuristicError
        If it is neither; the message says why.
    """
    if isinstance(returned, tuple) and len(returned) == 2 and _is_pair(*returned):
        solution, bound = returned
        return Proposed(as_solution(instance, solution), _bound(instance, bound))
    return Proposed(as_solution(instance, returned))


def _is_pair(first: object, second: object) -> bool:
    """Tell whether two values are a solution and a bound, not a decision of two parts."""
    if isinstance(first, SolutionEnvelope | Mapping):
        return True
    return isinstance(first, list | tuple | np.ndarray) and isinstance(second, Real | NoneType)


def _bound(instance: InstanceEnvelope, bound: object) -> Objective | None:
    """Return a rule's bound: an integer, or one for each entry of the objective."""
    names = get_problem(instance.problem).minimises()
    entries = bound if isinstance(bound, list | tuple) else (bound,)
    if bound is None:
        return None
    if len(entries) != len(names) or not all(_is_whole(one) for one in entries):
        wanted = "an integer" if len(names) == 1 else f"{len(names)} integers"
        raise HeuristicError(f"returned the bound {shortened(repr(bound))}, not {wanted}")
    whole = tuple(int(one) for one in entries)
    return whole if len(names) > 1 else whole[0]


def _is_whole(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def as_solution(instance: InstanceEnvelope, returned: object) -> SolutionEnvelope:
    """Return what a rule returned as a solution of the instance.

    Raises
    ------
    HeuristicError
        If it is not one; the message says why.
    """
    solution: type[SolutionEnvelope] = get_problem(instance.problem).Solution()
    fields = [
        name
        for name, field in solution.model_fields.items()
        if name not in SolutionEnvelope.model_fields and field.is_required()
    ]
    if isinstance(returned, SolutionEnvelope):
        if not isinstance(returned, solution):
            theirs = shortened(repr(returned.problem))
            raise HeuristicError(f"returned a solution of {theirs}, not of {instance.problem!r}")
        found = returned
    else:
        found = _validated(solution, fields, instance, returned)
    if found.instance != instance.name:
        theirs = shortened(repr(found.instance))
        raise HeuristicError(f"returned a solution of instance {theirs}, not of {instance.name!r}")
    return found


def _validated(
    solution: type[SolutionEnvelope],
    fields: list[str],
    instance: InstanceEnvelope,
    returned: object,
) -> SolutionEnvelope:
    if isinstance(returned, Mapping):
        decision: dict[str, object] = {"instance": instance.name, **returned}
    elif isinstance(returned, list | tuple | np.ndarray) and len(fields) == 1:
        decision = {"instance": instance.name, fields[0]: returned}
    else:
        wanted = f"a Solution or a mapping of {', '.join(fields)}"
        if len(fields) == 1:
            wanted = f"a Solution or its {fields[0]}"
        raise HeuristicError(f"returned {_kind(returned)}, not {wanted}")
    try:
        return solution.model_validate(decision)
    except InputError as error:
        raise HeuristicError(f"returned no valid solution: {error}") from error


def because(error: BaseException, source: str | None = None) -> str:
    """Return an exception on one line, with the last line of the user's file that it went through.

    Parameters
    ----------
    source
        The user's file; without one, or where it is not in the traceback, the last file is named.
    """
    text = " ".join(str(error).split())
    line = f"{type(error).__name__}: {text}" if text else type(error).__name__
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [f for f in frames if source and Path(f.filename).name == Path(source).name]
    if theirs:
        line += f" ({Path(theirs[-1].filename).name}, line {theirs[-1].lineno})"
    return line if len(line) <= LONGEST_REASON else line[: LONGEST_REASON - 3] + "..."


def _kind(value: object) -> str:
    if value is None:
        return "None"
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"
