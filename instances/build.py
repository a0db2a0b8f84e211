"""Make the instance library: generate instances from families, prove them, write the indexes.

    python instances/build.py generate tri_domain --traces DIR   # DIR holds the routing traces
    python instances/build.py prove tri_domain [--time-limit S] [--methods a,b] [--open]
    python instances/build.py table                              # the families, for README.md

``generate`` reads ``instances/<problem>/families.toml``: every list in a family's ``grid`` is
multiplied with the others, and ``instance`` is the name, filled in from the grid. Families of large
instances have ``suffix = ".json.gz"``. ``prove`` solves every instance with the exact methods in
turn, the problem's own first, until one closes it, and writes ``index.json``, ``best_known.json``
and ``solutions/``. An instance that none closes stays with status "feasible" and its best bound.
With ``--open`` only those that are not proven yet are solved again, and the better solution and
the higher bound are kept.
"""

import argparse
import hashlib
import json
import sys
import tomllib
from itertools import product
from pathlib import Path
from typing import Any

import moeopt
from moeopt.gap.study import instance_files
from moeopt.problems.objective import entries
from moeopt.problems.registry import PROBLEMS, get_problem
from moeopt.solve.methods import problem_methods

LIBRARY = Path(__file__).parent
PROVERS = [("cp-sat", None), ("milp", "highs")]
"""Method and engine of the exact methods that every problem has."""


def generate(folder: Path, traces: Path) -> None:
    """Write the instance files of every family."""
    families = tomllib.loads((folder / "families.toml").read_text())["family"]
    loaded: dict[str, Any] = {}
    for family in families:
        target = folder / family["name"]
        target.mkdir(exist_ok=True)
        grid = family["grid"]
        for values in product(*grid.values()):
            point = dict(zip(grid, values, strict=True))
            arguments = family["fixed"] | point
            if "trace" in arguments:
                file = arguments["trace"]
                arguments["trace"] = loaded.setdefault(file, moeopt.load_trace(traces / file))
                point["trace"] = Path(file).stem
            name = family["instance"].format(**point)
            notes = {"family": family["about"], "origin": family.get("origin")}
            instance = moeopt.generate(folder.name, name=name, notes=notes, **arguments)
            moeopt.save(instance, target / f"{name}{family.get('suffix', '.json')}")


def prove(
    folder: Path, time_limit_s: float, methods: list[str] | None = None, only_open: bool = False
) -> None:
    """Solve every instance and write the indexes and the solutions, after each instance."""
    index = {path.relative_to(folder).as_posix(): _entry(path) for path in instance_files(folder)}
    known = _known(folder, index) if only_open else {}
    best = {key: entry for key, entry in known.items() if entry["status"] == "optimal"}
    for key in [key for key in index if key not in best]:
        result, bound = _best_result(moeopt.load(folder / key), time_limit_s, methods)
        if key in known and not _better(result, known[key]):
            best[key] = _merged(known[key], bound)
            continue
        if result.solution is None:
            sys.exit(f"{key}: no solution within {time_limit_s} s")
        if key in known:
            bound = max(bound, known[key]["bound"], key=entries)
        solution = folder / "solutions" / key
        solution.parent.mkdir(parents=True, exist_ok=True)
        moeopt.save(result.solution, solution)
        best[key] = {
            "objective": result.objective,
            "bound": bound,
            "status": result.status,
            "method": result.method,
            "solution": solution.relative_to(folder).as_posix(),
        }
        moeopt.save({key: index[key] for key in index if key in best}, folder / "index.json")
        moeopt.save({key: best[key] for key in index if key in best}, folder / "best_known.json")
        line = f"{key}: {result.status}, {result.objective}, bound {bound}"
        print(f"{line}, {result.method}, {result.solve_s:.2f} s", flush=True)


def _entry(path: Path) -> dict[str, Any]:
    return {
        "family": path.parent.name,
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "provenance": moeopt.load(path).provenance,
    }


def _known(folder: Path, index: dict[str, Any]) -> dict[str, Any]:
    """Return the entries of instances that are still the same."""
    if not (folder / "best_known.json").is_file():
        return {}
    before, best = (
        json.loads((folder / name).read_text()) for name in ("index.json", "best_known.json")
    )
    return {
        key: entry
        for key, entry in best.items()
        if key in index and before[key]["sha256"] == index[key]["sha256"]
    }


def _better(result: Any, entry: dict[str, Any]) -> bool:
    """Tell whether a result closes what was open or has a better solution."""
    if result.solution is None:
        return False
    objective = list(entries(result.objective))
    return result.status == "optimal" or objective < list(entries(entry["objective"]))


def _merged(entry: dict[str, Any], bound: Any) -> dict[str, Any]:
    """Return an entry with the higher of two bounds; where it meets the objective, proven."""
    if bound is not None:
        bound = max(bound, entry["bound"], key=entries)
        proven = list(entries(bound)) == list(entries(entry["objective"]))
        entry = entry | {"bound": bound, "status": "optimal" if proven else "feasible"}
    return entry


def _best_result(instance: Any, time_limit_s: float, methods: list[str] | None) -> tuple[Any, Any]:
    """Return the first proven result of the provers or the best of all, and the best bound."""
    results = []
    for method, engine in _provers(instance.problem):
        if methods is not None and method not in methods:
            continue
        result = moeopt.solve(instance, method, engine=engine, time_limit_s=time_limit_s)
        if result.termination == "interrupted":
            raise KeyboardInterrupt
        if result.status == "optimal":
            return result, result.bound
        results.append(result)
    solved = [result for result in results if result.solution is not None]
    bounds = [result.bound for result in results if result.bound is not None]
    best = min(solved or results, key=lambda r: entries(r.objective or 0))
    return best, max(bounds, key=entries, default=None)


def _provers(problem: str) -> list[tuple[str, str | None]]:
    """Return method and engine of the exact methods, the problem's own first."""
    known = problem_methods(get_problem(problem)).values()
    own: list[tuple[str, str | None]] = [(m.name, None) for m in known if m.backend == "own"]
    return own + PROVERS


def table() -> str:
    """Return all families as a Markdown table: how many instances, how many proven, what loads."""
    lines = ["| problem | family | instances | proven | what |", "|---|---|---:|---:|---|"]
    for problem in PROBLEMS:
        folder = LIBRARY / problem
        families = tomllib.loads((folder / "families.toml").read_text())["family"]
        best = json.loads((folder / "best_known.json").read_text())
        about = {family["name"]: family["about"] for family in reversed(families)}
        for name in dict.fromkeys(family["name"] for family in families):
            of = [entry for key, entry in best.items() if key.startswith(f"{name}/")]
            proven = sum(entry["status"] == "optimal" for entry in of)
            lines.append(f"| `{problem}` | `{name}` | {len(of)} | {proven} | {about[name]} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=["generate", "prove", "table"])
    parser.add_argument("problem", nargs="?", choices=list(PROBLEMS))
    parser.add_argument("--traces", type=Path, help="folder with the routing traces")
    parser.add_argument("--time-limit", type=float, default=60.0, help="seconds per solve")
    parser.add_argument("--methods", help="exact methods to use, comma-separated (default: all)")
    parser.add_argument("--open", action="store_true", help="leave out what is proven")
    arguments = parser.parse_args()
    if arguments.action == "table":
        print(table(), end="")
        return
    if arguments.problem is None:
        parser.error(f"{arguments.action} needs a problem")
    folder = LIBRARY / arguments.problem
    if arguments.action == "prove":
        methods = None if arguments.methods is None else arguments.methods.split(",")
        prove(folder, arguments.time_limit, methods, arguments.open)
    elif arguments.traces is None:
        parser.error("generate needs --traces DIR")
    else:
        generate(folder, arguments.traces)


if __name__ == "__main__":
    main()
