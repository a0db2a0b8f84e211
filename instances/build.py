"""Make the instance library: generate instances from families, prove them, write the indexes.

    python instances/build.py generate tri_domain --traces DIR   # DIR holds the routing traces
    python instances/build.py prove tri_domain [--time-limit S]

``generate`` reads ``instances/<problem>/families.toml``: every list in a family's ``grid`` is
multiplied with the others, and ``instance`` is the name, filled in from the grid. ``prove`` solves
every instance with the exact methods in turn until one closes it, and writes ``index.json``,
``best_known.json`` and ``solutions/``.
"""

import argparse
import hashlib
import sys
import tomllib
from itertools import product
from pathlib import Path
from typing import Any

import moeopt
from moeopt.gap.study import instance_files

LIBRARY = Path(__file__).parent
PROVERS = [("cp-sat", None), ("milp", "highs")]


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
            moeopt.save(instance, target / f"{name}.json")


def prove(folder: Path, time_limit_s: float) -> None:
    """Solve every instance and write the indexes and the solutions."""
    index: dict[str, Any] = {}
    best: dict[str, Any] = {}
    for path in instance_files(folder):
        key = path.relative_to(folder).as_posix()
        instance = moeopt.load(path)
        result = _best_result(instance, time_limit_s)
        if result.solution is None:
            sys.exit(f"{key}: no solution within {time_limit_s} s")
        solution = folder / "solutions" / key
        solution.parent.mkdir(parents=True, exist_ok=True)
        moeopt.save(result.solution, solution)
        index[key] = {
            "family": path.parent.name,
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
            "provenance": instance.provenance,
        }
        best[key] = {
            "objective": result.objective,
            "bound": result.bound,
            "status": result.status,
            "method": result.method,
            "solution": solution.relative_to(folder).as_posix(),
        }
        print(f"{key}: {result.status}, {result.objective}, {result.solve_s:.2f} s", flush=True)
    moeopt.save(index, folder / "index.json")
    moeopt.save(best, folder / "best_known.json")


def _best_result(instance: Any, time_limit_s: float) -> Any:
    """Return the first proven result of the provers, or the best of all."""
    results = []
    for method, engine in PROVERS:
        result = moeopt.solve(instance, method, engine=engine, time_limit_s=time_limit_s)
        if result.termination == "interrupted":
            raise KeyboardInterrupt
        if result.status == "optimal":
            return result
        results.append(result)
    return min(results, key=lambda r: (r.objective is None, r.objective))


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=["generate", "prove"])
    parser.add_argument("problem")
    parser.add_argument("--traces", type=Path, help="folder with the routing traces")
    parser.add_argument("--time-limit", type=float, default=60.0, help="seconds per solve")
    arguments = parser.parse_args()
    folder = LIBRARY / arguments.problem
    if arguments.action == "prove":
        prove(folder, arguments.time_limit)
    elif arguments.traces is None:
        parser.error("generate needs --traces DIR")
    else:
        generate(folder, arguments.traces)


if __name__ == "__main__":
    main()
