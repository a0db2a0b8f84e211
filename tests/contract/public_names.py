"""Public names of the package with their signatures, as text.

    python -m tests.contract.public_names    # writes public_names.txt anew

Signatures are those of the source: the same text on every Python and for every version of numpy.
"""

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from types import ModuleType
from typing import Any, TypeGuard

import moeopt
from tests.rooms.core import EVERY_PROBLEM, HEURISTICS, lazy_names
from tests.rooms.problems import PROBLEMS

FILE = Path(__file__).with_suffix(".txt")

Function = ast.FunctionDef | ast.AsyncFunctionDef


def public_names() -> str:
    """Return a line for each public name; members of a class stand indented below it."""
    lines = [line for name in sorted(moeopt.__all__) for line in described(name, moeopt)]
    for name in sorted(PROBLEMS):
        problem = getattr(moeopt, name)
        for inside in sorted({*EVERY_PROBLEM, HEURISTICS, "PROBLEM"} | offered(problem)):
            lines += described(inside, problem, f"{name}.")
    return "\n".join(lines) + "\n"


def offered(package: ModuleType) -> set[str]:
    """Return the names that a problem's package tells `lazy_names` of, beside every problem's."""
    calls = [node for node in ast.walk(ast.parse(inspect.getsource(package))) if is_lazy(node)]
    return {name for call in calls for more in call.args[1:] for name in ast.literal_eval(more)}


def is_lazy(node: ast.AST) -> TypeGuard[ast.Call]:
    """Tell whether a node is the call that makes names lazy."""
    return isinstance(node, ast.Call) and ast.unparse(node.func) == lazy_names.__name__


def described(name: str, where: Any, prefix: str = "") -> Iterator[str]:
    """Yield a public name with its signature, then the members of a class."""
    value = getattr(where, name)
    if inspect.isclass(value):
        yield f"class {prefix}{name}"
        yield from (f"    {line}" for line in members(value))
    elif inspect.isfunction(value):
        yield signature(definition(value), prefix + name)
    else:
        yield f"{prefix}{name}: {type(value).__name__}"


def members(value: type) -> list[str]:
    """Return the public fields, properties and methods of a class, those of bases included.

    Bases outside the package are left out.
    """
    found: dict[str, str] = {}
    for base in reversed(value.__mro__):
        if not base.__module__.startswith("moeopt."):
            continue
        for node in definition(base).body:
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                found[node.target.id] = ast.unparse(node)
            elif isinstance(node, Function):
                found[node.name] = signature(node)
    return [line for name, line in sorted(found.items()) if not name.startswith("_")]


def definition(value: Any) -> Any:
    """Return the syntax of a class or function."""
    return ast.parse(dedent(inspect.getsource(value))).body[0]


def signature(node: Function, name: str | None = None) -> str:
    """Return a function's name, parameters and result; a property is marked as one."""
    names = {ast.unparse(one) for one in node.decorator_list}
    kinds = [kind for kind in ("property", "cached_property", "classmethod") if kind in names]
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    marks = "".join(f"{kind} " for kind in kinds)
    return f"{marks}{name or node.name}({ast.unparse(node.args)}){returns}"


if __name__ == "__main__":
    FILE.write_text(public_names())
