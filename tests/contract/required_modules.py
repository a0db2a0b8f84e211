"""What a problem must have, as a function that names what is missing."""

import ast
import json
import re
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from inspect import getdoc, signature
from pathlib import Path
from types import ModuleType
from typing import get_args

from moeopt import check, load, load_solution
from tests.rooms.core import IN_WORDS, InstanceEnvelope, entries
from tests.rooms.problems import AnyProblem
from tests.rooms.solvers import problem_methods

SPEC_ID = re.compile(r"^- \*\*([A-Z]{2}-C\d+)\*\* \S", re.MULTILINE)
MOD_ID = re.compile(r"^s\.t\. ([A-Z]{2})_C(\d+)", re.MULTILINE)
MIN_INSTANCES = 3

REQUIRED_MODULES = (
    *("instance", "check", "bounds", "heuristics", "assumptions", "cpsat", "view", "generate"),
)
"""The modules every problem package has."""

NAMES = {
    "instance": ("Instance", "Solution"),
    "check": (
        *("violations", "objective", "CONSTRAINTS", "OBJECTIVE"),
        *("candidates", "count", "MAX_CANDIDATES"),
    ),
    "bounds": ("lower_bound", "objective_grid"),
    "heuristics": ("WARM_START",),
    "assumptions": ("ASSUMPTIONS",),
    "model": ("Model",),
    "view": ("facts", "differences", "changes"),
    "generate": ("Options", "generate"),
}
"""Names in the modules of every problem, as methods of the base class use them."""


@dataclass(frozen=True)
class Home:
    """A problem, its package, and where its formulation, instances and tests are."""

    problem: AnyProblem
    package: ModuleType
    formulation: Path
    instances: Path
    tests: Path


def missing(home: Home) -> list[str]:
    """Return a sentence for everything that is missing or disagrees."""
    found: list[str] = []
    for examine in (
        _modules,
        _table,
        _schema,
        _public,
        _info,
        _methods,
        _constraint_ids,
        _instances,
    ):
        try:
            found += examine(home)
        except Exception as error:
            found.append(f"{examine.__name__}: {type(error).__name__}: {error}")
    return found


def _modules(home: Home) -> Iterator[str]:
    for name in REQUIRED_MODULES:
        if not Path(home.package.__file__ or "").with_name(f"{name}.py").is_file():
            yield f"{name}.py is missing"
    for name in ("spec.md", f"{home.problem.name}.mod"):
        if not (home.formulation / name).is_file():
            yield f"formulation: {name} is missing"
    if not list(home.tests.glob("test_*.py")):
        yield "tests: the problem has none of its own"
    if not home.problem.about:
        yield "__init__.py: no docstring, which `moeopt list problems` shows"


def _table(home: Home) -> Iterator[str]:
    """Import each module of the base class's table; name those that are there in vain."""
    problem = home.problem
    there = {"execute": problem.has("execute"), "later": problem.holdout is not None}
    for part, module in problem.MODULES.items():
        if there.get(part, True):
            problem.module(part)
        elif Path(home.package.__file__ or "").with_name(f"{module[1:]}.py").is_file():
            yield f"{module[1:]}.py is there, but absent says why not"


def _schema(home: Home) -> Iterator[str]:
    for module, model in (
        ("instance", home.problem.Instance()),
        ("solution", home.problem.Solution()),
    ):
        schema = model.model_json_schema()
        if schema["properties"]["problem"].get("const") != home.problem.name:
            yield f"{module}.py: problem is not fixed to {home.problem.name!r}"
        if schema.get("additionalProperties", True) or not model.model_config["frozen"]:
            yield f"{module}.py: {model.__name__} must be frozen and forbid unknown keys"


def _public(home: Home) -> Iterator[str]:
    """Name what a library user would miss: arrays with their shapes, and a size in words."""
    instance = home.problem.Instance()
    text = getdoc(instance) or ""
    if "from_arrays(" not in text or "\nExamples\n" not in text:
        yield "instance.py: Instance: the docstring has no example of from_arrays"
    yield from _arguments(instance)
    if "size" not in vars(instance):
        yield "instance.py: Instance.size is missing, which its repr shows"
    for name in ("Instance", "Solution", "CONSTRAINTS", "OBJECTIVE", "HEURISTICS", "lower_bound"):
        if not hasattr(home.package, name):
            yield f"__init__.py: {name} is no public name"


NO_ARGUMENTS = {"problem", "schema_version"}
"""Fields that an instance fills in by itself."""


def _arguments(instance: type[InstanceEnvelope]) -> Iterator[str]:
    """Name fields that `from_arrays` does not declare, unless the class makes them of others."""
    declared = signature(instance.from_arrays).parameters  # type: ignore[attr-defined]
    tables = {table.name: table for table in instance.TABLES}
    makes = "_arranged" in vars(instance)
    fields = {name: info.is_required() for name, info in instance.model_fields.items()}
    for name in tables:
        row = get_args(instance.model_fields[name].annotation)[0]
        own = {of: info for of, info in row.model_fields.items() if of not in fields}
        fields |= {of: info.is_required() for of, info in own.items()}
    for name, required in fields.items():
        if name not in {*declared, *tables, *NO_ARGUMENTS} and not (required and makes):
            yield f"instance.py: from_arrays does not declare {name}"
    for name, parameter in declared.items():
        if parameter.kind != parameter.KEYWORD_ONLY or parameter.annotation == parameter.empty:
            yield f"instance.py: from_arrays: {name} is not a typed argument by name"


def _info(home: Home) -> Iterator[str]:
    """Name what PROBLEM leaves unsaid: a part is there, or it says why not; never both."""
    info = home.problem
    for name, text in (("title", info.title), ("paper", info.paper)):
        if not text:
            yield f"PROBLEM: {name} is empty"
    heuristics = {one.name for one in info.heuristics}
    if info.published not in heuristics:
        yield f"PROBLEM: published {info.published!r} is no heuristic"
    for one in info.heuristics:
        if one.information not in IN_WORDS:
            yield f"PROBLEM: {one.name}: information must be one of {', '.join(IN_WORDS)}"
        if one.coincides_with is not None and one.coincides_with not in heuristics:
            yield f"PROBLEM: {one.name} coincides with {one.coincides_with}, which is no heuristic"
        if one.needs is not None and one.needs not in _fields(info):
            yield f"PROBLEM: {one.name} needs {one.needs}, which is no field of the instance"
    later = None if info.holdout is None else info.module("later")
    there = {
        "restrictions": bool(info.restrictions),
        "holdout": info.holdout is not None,
        "robust": hasattr(later, "draw") and hasattr(later, "decide"),
        "lanes": hasattr(info.module("view"), "lanes"),
        "execute": Path(home.package.__file__ or "").with_name("execute.py").is_file(),
    }
    for part, present in there.items():
        if present == bool(info.absent.get(part)):
            wrong = (
                "is there, but absent says why not" if present else "lacks, and absent is silent"
            )
            yield f"PROBLEM: {part} {wrong}"
    if odd := set(info.absent) - set(info.OPTIONAL):
        yield f"PROBLEM: absent names {sorted(odd)}, which are no optional parts"
    if odd := set(info.unpriced) - set(info.constraints()):
        yield f"PROBLEM: unpriced {sorted(odd)} are no constraints"
    if odd := set(info.restrictions) - _fields(info):
        yield f"PROBLEM: restrictions {sorted(odd)} are no fields of the instance"
    options = set(info.Options().model_fields)
    holdout = info.holdout
    if holdout is not None and not holdout.options <= options:
        odd = sorted(holdout.options - options)
        yield f"PROBLEM: holdout: {odd} are no options of the generator"
    if (info.sample_rule in heuristics) != (holdout is not None):
        rule = info.sample_rule
        yield f"PROBLEM: sample_rule {rule!r} must be a heuristic if there is a hold-out"


def _fields(problem: AnyProblem) -> set[str]:
    return set(problem.Instance().model_fields)


def _methods(home: Home) -> Iterator[str]:
    if not home.problem.heuristics:
        yield "PROBLEM: heuristics is empty"
    for name, function in home.problem.functions().items():
        if not function.__doc__:
            yield f"heuristics.py: {name} does not say what its source states"
    bounds = home.problem.module("bounds")
    if "Proof" not in (bounds.__doc__ or "") and not _any_proof(bounds):
        yield "bounds.py: no proof in any docstring"
    for part, names in NAMES.items():
        for name in names:
            if not hasattr(home.problem.module(part), name):
                yield f"{part}.py: {name} is missing"
    problem_methods(home.problem)
    yield from _own_exact(home.problem)


def _own_exact(problem: AnyProblem) -> Iterator[str]:
    """Name what lacks: an algorithm that claims proofs says why, what goes on after it exists."""
    models = {n for n, method in problem_methods(problem).items() if method.warm_starts}
    for method in problem.exact:
        name, algorithm = method.name, problem.algorithm(method)
        if not callable(getattr(algorithm, "solve", None)):
            yield f"{algorithm.__name__}: solve is missing, which method {name} needs"
        if "Proof" not in (algorithm.__doc__ or ""):
            yield f"{name}: no proof in the module's docstring"
        if method.then is not None and method.then not in models:
            yield f"PROBLEM: {name} goes on with {method.then}, which is no model's method"


def _any_proof(module: object) -> bool:
    return any("Proof" in (getattr(value, "__doc__", "") or "") for value in vars(module).values())


def _constraint_ids(home: Home) -> Iterator[str]:
    known = set(home.problem.constraints())
    places: dict[str, Callable[[], set[str]]] = {
        "spec.md": lambda: set(SPEC_ID.findall((home.formulation / "spec.md").read_text())),
        f"{home.problem.name}.mod": lambda: {
            f"{letters}-C{number}" for letters, number in MOD_ID.findall(_mathprog(home))
        },
        "check.py's violations": lambda: _ids_in_functions(home.problem.module("check").__file__),
        "cpsat.py": lambda: set(home.problem.Model("cp-sat").constraints()),
        "the MILP model": lambda: set(home.problem.Model("milp").constraints()),
    }
    for place, ids in places.items():
        if (here := ids()) != known:
            yield f"{place}: constraints {sorted(here ^ known)} differ from check.CONSTRAINTS"


def _mathprog(home: Home) -> str:
    return (home.formulation / f"{home.problem.name}.mod").read_text()


def _ids_in_functions(file: str) -> set[str]:
    """Return the IDs that stand in the functions of check.py, outside the table of all IDs."""
    tree = ast.parse(Path(file).read_text())
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    constants = (n.value for f in functions for n in ast.walk(f) if isinstance(n, ast.Constant))
    return {c for c in constants if isinstance(c, str) and re.fullmatch(r"[A-Z]{2}-C\d+", c)}


def _instances(home: Home) -> Iterator[str]:
    index = json.loads((home.instances / "index.json").read_text())
    best = json.loads((home.instances / "best_known.json").read_text())
    files = {
        path.relative_to(home.instances).as_posix()
        for path in home.instances.glob("*/*.json*")
        if path.parent.name != "solutions"
    }
    if len(files) < MIN_INSTANCES:
        yield f"instances: {len(files)} files, at least {MIN_INSTANCES} are due"
    families = tomllib.loads((home.instances / "families.toml").read_text())["family"]
    described = {family["name"] for family in families if family["about"]}
    if unknown := sorted({Path(file).parent.name for file in files} - described):
        yield f"families.toml: does not say how {unknown} were made"
    if files != set(index) or files != set(best):
        odd = sorted((files ^ set(index)) | (files ^ set(best)))
        yield f"instances: {odd} not in all of the folder, index.json and best_known.json"
        return
    # The smallest ones: `instances/build.py verify`, which the library's tests run, reads them all.
    smallest = sorted(best, key=lambda file: (home.instances / file).stat().st_size)
    for file in smallest[:MIN_INSTANCES]:
        entry = best[file]
        verdict = check(
            load(home.instances / file), load_solution(home.instances / entry["solution"])
        )
        recomputed = None if verdict.objective is None else list(entries(verdict.objective))
        known, bound = (list(entries(entry[name])) for name in ("objective", "bound"))
        if recomputed != known or bound > known:
            yield f"instances: {file}: the checker does not confirm best_known.json"
        if (entry["status"] == "optimal") != (bound == known):
            yield f"instances: {file}: status {entry['status']} does not fit the bound"
