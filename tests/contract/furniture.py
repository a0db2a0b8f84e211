"""What a problem must have, as a function that names what is missing."""

import ast
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from moeopt.problems.files import load, load_solution
from moeopt.problems.objective import entries
from moeopt.problems.registry import FURNITURE, Problem
from moeopt.problems.search import ExactModel
from moeopt.solvers.methods import problem_methods
from moeopt.solvers.verdict import check

SPEC_ID = re.compile(r"^- \*\*([A-Z]{2}-C\d+)\*\* \S", re.MULTILINE)
MOD_ID = re.compile(r"^s\.t\. ([A-Z]{2})_C(\d+)", re.MULTILINE)
MIN_INSTANCES = 3


@dataclass(frozen=True)
class Home:
    """A problem, and the folders where its formulation and its instances are."""

    problem: Problem
    formulation: Path
    instances: Path


def missing(home: Home) -> list[str]:
    """Return a sentence for every piece of furniture that is missing or disagrees."""
    found: list[str] = []
    for examine in (_modules, _schema, _methods, _constraint_ids, _instances):
        try:
            found += examine(home)
        except Exception as error:
            found.append(f"{examine.__name__}: {type(error).__name__}: {error}")
    return found


def _modules(home: Home) -> Iterator[str]:
    for name in FURNITURE:
        if not home.problem.has(name):
            yield f"{name}.py is missing"
    for name in ("spec.md", f"{home.problem.name}.mod"):
        if not (home.formulation / name).is_file():
            yield f"formulation: {name} is missing"
    if not import_module(home.problem.package).__doc__:
        yield "__init__.py: no docstring, which `moeopt list problems` shows"


def _schema(home: Home) -> Iterator[str]:
    for module, name in (("instance", "Instance"), ("solution", "Solution")):
        model = getattr(home.problem.part(module), name)
        schema = model.model_json_schema()
        if schema["properties"]["problem"].get("const") != home.problem.name:
            yield f"{module}.py: problem is not fixed to {home.problem.name!r}"
        if schema.get("additionalProperties", True) or not model.model_config["frozen"]:
            yield f"{module}.py: {name} must be frozen and forbid unknown keys"


def _methods(home: Home) -> Iterator[str]:
    heuristics = home.problem.part("heuristics")
    if not heuristics.HEURISTICS:
        yield "heuristics.py: HEURISTICS is empty"
    if not callable(heuristics.WARM_START):
        yield "heuristics.py: WARM_START is not a heuristic"
    for name, function in heuristics.HEURISTICS.items():
        if not function.__doc__:
            yield f"heuristics.py: {name} does not say what its source states"
    if "Proof" not in (home.problem.part("bounds").lower_bound.__doc__ or "") + (
        home.problem.part("bounds").__doc__ or ""
    ) and not _any_proof(home.problem.part("bounds")):
        yield "bounds.py: no proof in any docstring"
    for part, names in (
        ("check", ("violations", "objective", "CONSTRAINTS", "OBJECTIVE")),
        ("oracle", ("candidates", "count", "MAX_CANDIDATES")),
        ("bounds", ("lower_bound", "objective_grid")),
    ):
        for name in names:
            if not hasattr(home.problem.part(part), name):
                yield f"{part}.py: {name} is missing"
    problem_methods(home.problem)
    if home.problem.has("exact"):
        yield from _own_exact(home.problem)


def _own_exact(problem: Problem) -> Iterator[str]:
    """Name what lacks: an algorithm that claims proofs says why, what goes on after it exists."""
    known = set(problem.constraint_ids)
    models = {n for n, method in problem_methods(problem).items() if method.warm_starts}
    for name, method in problem.part("exact").EXACT.items():
        if isinstance(method, ExactModel):
            if (here := set(problem.part(method.module).Model.constraints())) != known:
                odd = sorted(here ^ known)
                yield f"{method.module}: constraints {odd} differ from check.CONSTRAINTS"
            continue
        algorithm = problem.part(method.module)
        if not callable(getattr(algorithm, "solve", None)):
            yield f"{method.module}: solve is missing, which method {name} needs"
        if "Proof" not in (algorithm.__doc__ or ""):
            yield f"{method.module}: no proof in the module's docstring"
        if method.then is not None and method.then not in models:
            yield f"exact.py: {name} goes on with {method.then}, which is no model's method"


def _any_proof(module: object) -> bool:
    return any("Proof" in (getattr(value, "__doc__", "") or "") for value in vars(module).values())


def _constraint_ids(home: Home) -> Iterator[str]:
    known = set(home.problem.part("check").CONSTRAINTS)
    places: dict[str, Callable[[], set[str]]] = {
        "spec.md": lambda: set(SPEC_ID.findall((home.formulation / "spec.md").read_text())),
        f"{home.problem.name}.mod": lambda: {
            f"{letters}-C{number}" for letters, number in MOD_ID.findall(_mathprog(home))
        },
        "check.py's violations": lambda: _ids_in_functions(home.problem.part("check").__file__),
        "cpsat.py": lambda: set(home.problem.part("cpsat").Model.constraints()),
        "milp.py": lambda: set(home.problem.part("milp").Model.constraints()),
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
    if files != set(index) or files != set(best):
        odd = sorted((files ^ set(index)) | (files ^ set(best)))
        yield f"instances: {odd} not in all of the folder, index.json and best_known.json"
        return
    for file, entry in best.items():
        verdict = check(
            load(home.instances / file), load_solution(home.instances / entry["solution"])
        )
        judged = None if verdict.objective is None else list(entries(verdict.objective))
        known, bound = (list(entries(entry[name])) for name in ("objective", "bound"))
        if judged != known or bound > known:
            yield f"instances: {file}: the judge does not confirm best_known.json"
        if (entry["status"] == "optimal") != (bound == known):
            yield f"instances: {file}: status {entry['status']} does not fit the bound"
