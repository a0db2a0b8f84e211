"""What versions of OR-tools say of the models in which CP-SAT's presolve was seen to be wrong.

    pip install --target FOLDER/9.14.6206 ortools==9.14.6206 protobuf==6.31.1   # and so on
    python benchmarks/studies/ortools_versions.py FOLDER [--seconds 10] [--seeds 3]

Every model that CP-SAT is asked for while the instances of ``tests/solvers/false_proofs`` are
solved, by the default method and by ``cp-sat`` with and without a start, is solved by each version
in a folder, in one thread, by each of `SETTINGS`. The truth of a model is the best solution that
anybody found: CP-SAT checks its solutions on the model as it was given. False is "infeasible"
where there is a solution, "optimal" with a worse one, and a bound above one.
The models were chosen because 9.15 is wrong about them: other versions may be wrong about others.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

INSTANCES = Path(__file__).parents[2] / "tests" / "solvers" / "false_proofs"

SETTINGS: dict[str, dict[str, Any]] = {
    "as delivered": {},
    "substitution 0": {"presolve_substitution_level": 0},
    "inclusion 0": {"presolve_inclusion_work_limit": 0},
    "probing 0": {"cp_model_probing_level": 0},
    "inclusion 0, probing 0": {"presolve_inclusion_work_limit": 0, "cp_model_probing_level": 0},
    "all three 0": {
        "presolve_inclusion_work_limit": 0,
        "cp_model_probing_level": 0,
        "presolve_substitution_level": 0,
    },
    "no presolve": {"cp_model_presolve": False},
}


ENDED = {"status": "ENDED ITS PROCESS", "objective": None, "bound": None, "seconds": 0.0}


def answer(path: Path, setting: dict[str, Any], seconds: float, seed: int) -> dict[str, Any]:
    """Return what the OR-tools at hand says of a model; run in a process that has one of them."""
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    text = path.read_text()
    if hasattr(model.proto, "parse_text_format"):  # since 9.15
        model.proto.parse_text_format(text)
    else:
        from google.protobuf import text_format

        text_format.Parse(text, model.proto)
    solver = cp_model.CpSolver()
    for name, value in setting.items():
        setattr(solver.parameters, name, value)
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = seed
    solver.parameters.max_time_in_seconds = seconds
    status = solver.status_name(solver.solve(model))
    response = solver.response_proto
    found = {"status": status, "objective": None, "bound": None, "seconds": solver.user_time}
    if model.has_objective() and status != "INFEASIBLE":
        goal = model.proto.objective
        if status in ("OPTIMAL", "FEASIBLE"):
            terms = zip(goal.vars, goal.coeffs, strict=True)
            found["objective"] = sum(c * response.solution[v] for v, c in terms)
        if status != "UNKNOWN":  # where it may say 0
            found["bound"] = response.inner_objective_lower_bound
    return found


def answers(version: Path, models: list[Path], seconds: float, seeds: int) -> Iterator[list[Any]]:
    """Yield [model, setting, seed, answer]; a process that ended itself is an answer as well."""
    tasks = [[str(m), s, seed] for m in models for s in SETTINGS for seed in range(seeds)]
    environment = os.environ | {"PYTHONPATH": str(version)}
    while tasks:
        command = [sys.executable, __file__, "--answer", str(seconds)]
        asked = json.dumps(tasks)
        done = subprocess.run(
            command, input=asked, env=environment, capture_output=True, text=True, check=False
        )
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        for task, found in zip(tasks, lines, strict=False):
            yield [*task, found]
        tasks = tasks[len(lines) :]
        if tasks:
            yield [*tasks.pop(0), dict(ENDED)]


def record(folder: Path) -> dict[Path, str]:
    """Write the models that the package solves; return each with the instances that it is of."""
    from ortools.sat.python import cp_model

    import moeopt

    written: dict[str, list[str]] = {}
    solve, name = cp_model.CpSolver.solve, ""

    def recorded(solver: Any, model: Any, *more: Any) -> Any:
        of = written.setdefault(str(model.proto), [])
        if name not in of:
            of.append(name)
        return solve(solver, model, *more)

    cp_model.CpSolver.solve = recorded
    for file in sorted(INSTANCES.glob("*.json")):
        if file.stem == "lay_overflow":  # no solver was wrong about it
            continue
        instance = moeopt.load(file)
        name = file.stem
        for options in ({}, {"method": "cp-sat"}, {"method": "cp-sat", "warm_start": False}):
            try:
                moeopt.solve(instance, time_limit_s=10, workers=1, **options)
            except moeopt.MoeoptError as error:
                print(f"{name} {options}: {error}", file=sys.stderr)
    cp_model.CpSolver.solve = solve
    models = {}
    for number, (text, names) in enumerate(written.items()):
        path = folder / f"{number}.txt"
        path.write_text(text)
        models[path] = ", ".join(names)
    return models


def is_false(found: dict[str, Any], truth: float | None) -> bool:
    """Tell whether a claim is contradicted by a solution; `truth` None: none is known."""
    if truth is None:
        return False
    worse = found["status"] == "OPTIMAL" and found["objective"] > truth
    above = found["bound"] is not None and found["bound"] > truth
    return found["status"] == "INFEASIBLE" or worse or above


def models_closed(found: dict[str, list[Any]]) -> Iterator[str]:
    """Yield the models that all versions closed by all settings."""
    of_model: dict[str, set[str]] = {}
    for model, _, _, said in (line for lines in found.values() for line in lines):
        of_model.setdefault(model, set()).add(said["status"])
    yield from (model for model, said in of_model.items() if said <= {"OPTIMAL", "INFEASIBLE"})


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        models = record(Path(folder))
        versions = sorted(options.folder.iterdir(), key=lambda of: [*map(int, of.name.split("."))])
        found = {
            version.name: list(answers(version, list(models), options.seconds, options.seeds))
            for version in versions
        }
    truths: dict[str, float] = {}
    for model, _, _, said in (line for lines in found.values() for line in lines):
        if said["status"] in ("OPTIMAL", "FEASIBLE"):
            value = said["objective"] if said["objective"] is not None else 0
            truths[model] = min(value, truths.get(model, value))
            said["objective"] = value
    print("# CP-SAT of several versions on models that one was wrong about\n")
    print(f"`{shlex.join(['python', *sys.argv])}`, {date.today()}.\n")
    print(f"{len(models)} models, each with {options.seeds} seeds, {options.seconds:g} s.\n")
    print('False of all; "open" is what the limit ended.\n')
    head = "| OR-tools | " + " | ".join(SETTINGS) + " |\n|---|" + "---:|" * len(SETTINGS)
    print(head)
    of_models: Counter[tuple[str, str, str]] = Counter()
    for version, lines in found.items():
        cells = []
        for setting in SETTINGS:
            mine = [line for line in lines if line[1] == setting]
            false = [line for line in mine if is_false(line[3], truths.get(line[0]))]
            for model, *_ in false:
                of_models[models[Path(model)], version, setting] += 1
            ended = sum(said["status"] == "ENDED ITS PROCESS" for *_, said in mine)
            opened = sum(said["status"] in ("FEASIBLE", "UNKNOWN") for *_, said in mine)
            invalid = sum(said["status"] == "MODEL_INVALID" for *_, said in mine)
            notes = [f"{len(false)} of {len(mine)}"]
            for count, word in ((ended, "ended"), (opened, "open"), (invalid, "refused")):
                notes += [f"{count} {word}"] if count else []
            cells.append(", ".join(notes))
        print(f"| {version} | " + " | ".join(cells) + " |")
    print(f"\nCPU seconds of those that every version closed:\n\n{head}")
    closed = set(models_closed(found))
    for version, lines in found.items():
        seconds = Counter[str]()
        for model, setting, _, said in lines:
            seconds[setting] += said["seconds"] if model in closed else 0
        print(f"| {version} | " + " | ".join(f"{seconds[of]:.1f}" for of in SETTINGS) + " |")
    print("\nFalse, by instance:\n\n| instance | OR-tools | setting | times |\n|---|---|---|---:|")
    for (name, version, setting), count in sorted(of_models.items()):
        print(f"| {name} | {version} | {setting} | {count} |")
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--answer"]:
        for path, named, number in json.load(sys.stdin):
            said = answer(Path(path), SETTINGS[named], float(sys.argv[2]), number)
            print(json.dumps(said), flush=True)
    else:
        sys.exit(main())
