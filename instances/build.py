"""Make the instance library: generate instances from families, prove them, write the indexes.

    python -m instances.build generate tri_domain [--traces DIR]   # DIR holds the routing traces
    python -m instances.build restate tri_domain [--traces DIR]  # the same with other provenance
    python -m instances.build prove tri_domain [--time-limit S] [--methods a,b] [--families a,b]
    python -m instances.build remade [tri_domain] [--traces DIR]  # are the files the committed ones
    python -m instances.build verify [tri_domain] [--again]      # hold every entry to its claims
    python -m instances.build table [--write]    # families; README.md's tables and SHA256SUMS

``generate`` reads ``instances/<problem>/families.toml``: every list in a family's ``grid`` is
multiplied with the others, those in ``together`` go side by side as one, and ``instance`` is the
name, filled in from the grid. Families of large instances have ``suffix = ".json.gz"``; with
``dedupe = true`` they are made from what is left of a trace without what it reads twice; ``notes``
go into the provenance. Instances in a family's ``kept`` stay as they are: name -> why the
generator makes another one by now; ``every`` of them. ``prove`` solves every instance with the
exact methods in turn, the problem's own first, until one closes it, and writes ``index.json``,
``best_known.json`` and ``solutions/``. An instance that none closes stays with status "feasible"
and its best bound. With ``--open`` only those that are not proven yet are solved again, and the
better solution and the higher bound are kept; with ``--families`` only those of these families.
``restate`` generates again what is indexed, where only the provenance is to change, and keeps
solutions and bounds; where anything else would change it writes nothing.
``remade`` generates every family in a scratch folder, prints the files whose SHA-256 is not that in
SHA256SUMS, and exits with 1 if there are any; without traces only families that need none.
``verify`` reads every instance and solution: the file is the indexed one, the checker accepts the
solution and counts the stated objective, the event engine executes it in that time where it can, no
bound is above it; with ``--again`` the stated method proves every optimum anew. It prints what is
wrong and exits with 1.
"""

import argparse
import hashlib
import json
import shutil
import sys
import tomllib
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import moeopt
from benchmarks.rooms.core import entries
from benchmarks.rooms.problems import PROBLEMS, compare, get_problem
from benchmarks.rooms.sim import read_trace
from benchmarks.rooms.solvers import problem_methods
from benchmarks.rooms.study import instance_files, place
from instances.tools.entries import SUMS, TYPES, entries_of, problem_folders, sums, today
from instances.tools.submissions import certificate_faults

LIBRARY = Path(__file__).parent
EVERY = "every"
"""Stands for all instances of a family in its ``kept``."""

ACTIONS = ["generate", "restate", "remade", "prove", "verify", "table"]
PROVERS = [("cp-sat", None), ("milp", "highs")]
"""Method and engine of the exact methods that every problem has."""


def types_table(library: Path) -> str:
    """Return each problem's instances, independent samples, certificates, and counts of types."""
    heads = ("instances", "samples", "proven", "certified", *TYPES)
    lines = [f"| problem | {' | '.join(heads)} |", "|---|" + "---:|" * len(heads)]
    rows, total = [], set()
    for folder in problem_folders(library):
        best = json.loads((folder / "best_known.json").read_text())
        index = json.loads((folder / "index.json").read_text())
        cells = {place(key, index[key]["provenance"])[0] for key in best}
        proven = [entry for entry in best.values() if entry["status"] == "optimal"]
        found = [entry.type for entry in entries_of(folder)]
        counts = [len(best), len(cells), len(proven), sum("certificate" in one for one in proven)]
        rows.append([*counts, *(found.count(name) for name in TYPES)])
        total |= cells
        lines.append(f"| `{folder.name}` | {' | '.join(map(str, rows[-1]))} |")
    sums_of = [sum(column) for column in zip(*rows, strict=True)]
    sums_of[1] = len(total)
    lines.append(f"| all | {' | '.join(map(str, sums_of))} |")
    return "\n".join(lines) + "\n"


def generate(folder: Path, traces: Path | None = None, drawn_only: bool = False) -> None:
    """Write the instance files of every family; drawn ones need no traces."""
    families = tomllib.loads((folder / "families.toml").read_text())["family"]
    loaded: dict[str, Any] = {}
    for family in families:
        target = folder / family["name"]
        target.mkdir(exist_ok=True)
        grid = family["grid"]
        beside = family.get("together", {})
        for values, row in product(
            product(*grid.values()), zip(*beside.values(), strict=True) if beside else [()]
        ):
            point = dict(zip((*grid, *beside), (*values, *row), strict=True))
            arguments = family["fixed"] | point
            if drawn_only and "trace" in arguments:
                continue
            if "trace" in arguments:
                file = arguments["trace"]
                if traces is None:
                    sys.exit(f"{family['name']}: needs --traces DIR, the folder with {file}")
                arguments["trace"] = loaded[file] = loaded.get(file) or read_trace(traces / file)
                if family.get("dedupe"):
                    arguments["trace"] = moeopt.dedupe_trace(loaded[file])
                point["trace"] = Path(file).stem
            name = family["instance"].format(**point)
            if name in (kept := family.get("kept", {})) or EVERY in kept:
                continue
            notes = {"family": family["about"], "origin": family.get("origin")}
            notes |= family.get("notes", {})
            # A table of models: which other model's instances tell the same.
            if original := family.get("same_experiment_as", {}).get(arguments.get("model")):
                notes["same_experiment_as"] = original
            instance = moeopt.generate(folder.name, name=name, notes=notes, **arguments)
            moeopt.save(instance, target / f"{name}{family.get('suffix', '.json')}")


def remade(folder: Path, traces: Path | None = None) -> list[str]:
    """Return the files of a problem that come out other than they are committed."""
    committed = {}
    for line in (LIBRARY / SUMS).read_text().splitlines():
        digest, _, name = line.partition("  ")
        committed[name] = digest
    with TemporaryDirectory() as scratch:
        made = Path(scratch) / folder.name
        made.mkdir()
        shutil.copy(folder / "families.toml", made)
        generate(made, traces, drawn_only=traces is None)
        files = {file.relative_to(scratch).as_posix(): file for file in instance_files(made)}
        other = [
            name
            for name, file in files.items()
            if hashlib.sha256(file.read_bytes()).hexdigest() != committed.get(name)
        ]
    print(f"{folder.name}: {len(files)} made, {len(other)} other", flush=True)
    return other


def restate(folder: Path, traces: Path | None = None) -> None:
    """Generate indexed instances anew where only their provenance changes; exit where more does.

    An instance that keeps all else has the optimum and the bound that it had.
    """
    index = json.loads((folder / "index.json").read_text())
    with TemporaryDirectory() as scratch:
        made = Path(scratch) / folder.name
        made.mkdir()
        shutil.copy(folder / "families.toml", made)
        generate(made, traces)
        for key in index:
            before, after = moeopt.load(folder / key), moeopt.load(made / key)
            if after != before.model_copy(update={"provenance": after.provenance}):
                sys.exit(f"{key}: more than the provenance would change")
        for key in index:
            shutil.copy(made / key, folder / key)
    moeopt.save({key: _entry(folder / key) for key in index}, folder / "index.json")


def prove(
    folder: Path,
    time_limit_s: float,
    methods: list[str] | None = None,
    only_open: bool = False,
    families: list[str] | None = None,
) -> None:
    """Solve every instance and write the indexes and the solutions, after each instance."""
    index = {path.relative_to(folder).as_posix(): _entry(path) for path in instance_files(folder)}
    known = _known(folder, index) if only_open or families else {}
    best = {key: entry for key, entry in known.items() if entry["status"] == "optimal"}
    asked = [key for key in index if families is None or index[key]["family"] in families]
    for key in [key for key in asked if key not in best]:
        result, bound = _best_result(moeopt.load(folder / key), time_limit_s, methods)
        if key in known and not _better(result, known[key]):
            best[key] = _merged(known[key], bound)
        elif result.solution is None:
            sys.exit(f"{key}: no solution within {time_limit_s} s")
        else:
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
                "date": today(),
            }
        # What is still open stays in the files until its turn comes: nothing is lost on the way.
        kept = known | best
        moeopt.save({key: index[key] for key in index if key in kept}, folder / "index.json")
        moeopt.save({key: kept[key] for key in index if key in kept}, folder / "best_known.json")
        line = f"{key}: {best[key]['status']}, {best[key]['objective']}, bound {best[key]['bound']}"
        print(f"{line}, {result.method}, {result.solve_s:.2f} s", flush=True)


def _entry(path: Path) -> dict[str, Any]:
    instance = moeopt.load(path)
    provenance = instance.provenance
    entry = {
        "family": path.parent.name,
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        "quantum_ns": instance.quantum_ns,
        "provenance": provenance,
    }
    if original := (provenance or {}).get("same_experiment_as"):
        entry["same_experiment_as"] = original
    return entry


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
        if list(entries(bound)) != list(entries(entry["bound"])):
            kept = {name: entry[name] for name in entry if name != "certificate"}
            entry = kept | {"bound": bound, "date": today()}
        entry = entry | {"status": "optimal" if proven else "feasible"}
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


ORIGIN = {"machine", "model", "trace", "seed"}
"""What the provenance of every instance states."""


def verify(
    folder: Path,
    *,
    execute: bool = True,
    again: bool = False,
    time_limit_s: float = 60.0,
    share: tuple[int, int] = (0, 1),
) -> list[str]:
    """Return what is wrong with a problem's entries, one line each.

    Parameters
    ----------
    execute
        Whether the event engine runs every solution, which takes most of the time.
    again, time_limit_s
        Whether every optimum is proven anew, and the limit of each proof.
    share
        Look into instances and certificates k, k + n, k + 2 n, ... only, for (k, n); of the other
        instances the hash is held to the index.
    """
    index, best = (
        json.loads((folder / name).read_text()) for name in ("index.json", "best_known.json")
    )
    files = {path.relative_to(folder).as_posix() for path in instance_files(folder)}
    every, some = files & {*index} & {*best}, files | {*index} | {*best}
    wrong = [f"{key}: is not in all of folder and indexes" for key in sorted(some - every)]
    names: dict[str, str] = {}
    for number, key in enumerate(sorted(every)):
        if hashlib.sha256((folder / key).read_bytes()).hexdigest() != index[key]["sha256"]:
            wrong.append(f"{key}: is not the file that was indexed")
        if number % share[1] != share[0]:
            continue
        instance, entry = moeopt.load(folder / key), best[key]
        if (first := names.setdefault(instance.name, key)) != key:
            wrong.append(f"{key}: has the name of {first}")
        if instance.provenance != index[key]["provenance"]:
            wrong.append(f"{key}: provenance is not that of the index")
        if lacks := sorted(ORIGIN - set(instance.provenance or {})):
            wrong.append(f"{key}: provenance: {', '.join(lacks)} is missing")
        solution = moeopt.load_solution(folder / entry["solution"])
        wrong += [
            f"{key}: {reason}" for reason in _false_claims(instance, solution, entry, execute)
        ]
        if again and entry["status"] == "optimal" and "certificate" not in entry:
            result = moeopt.solve(instance, entry["method"], time_limit_s=time_limit_s)
            if result.status != "optimal" or _plain(result.objective) != entry["objective"]:
                found = f"{result.status} {_plain(result.objective)}"
                wrong.append(f"{key}: {entry['method']} gives {found}, not {entry['objective']}")
    return wrong + certificate_faults(folder, share)


def _false_claims(instance: Any, solution: Any, entry: dict[str, Any], execute: bool) -> list[str]:
    """Return what checker and engine say against an entry."""
    try:
        verdict = moeopt.check(instance, solution)
    except moeopt.InputError as error:
        return [f"the solution: {error}"]
    if not verdict.valid:
        return [f"the solution breaks {verdict.violations[0][0]}: {verdict.violations[0][1]}"]
    wrong = []
    if _plain(verdict.objective) != entry["objective"]:
        wrong.append(f"the solution costs {_plain(verdict.objective)}, not {entry['objective']}")
    bound, objective = (list(entries(entry[name])) for name in ("bound", "objective"))
    if bound > objective or (bound == objective) != (entry["status"] == "optimal"):
        wrong.append(f"status {entry['status']} with bound {bound} and objective {objective}")
    runs = execute and get_problem(instance.problem).has("execute")
    if runs and not compare(instance, solution).agree:
        wrong.append("the event engine takes another time than the checker counts")
    return wrong


def _plain(objective: Any) -> Any:
    """Return an objective as it stands in JSON: a lexicographic one is a list."""
    return list(objective) if isinstance(objective, tuple) else objective


def table() -> str:
    """Return all families as a Markdown table: instances, samples among them, proven, what loads.

    Where there are fewer samples than instances, windows of one layer or draw overlap or are
    nested.
    """
    lines = ["| problem | family | instances | samples | proven | what |"]
    lines += ["|---|---|---:|---:|---:|---|"]
    for problem in PROBLEMS:
        folder = LIBRARY / problem
        families = tomllib.loads((folder / "families.toml").read_text())["family"]
        best = json.loads((folder / "best_known.json").read_text())
        index = json.loads((folder / "index.json").read_text())
        about = {family["name"]: _words(family) for family in reversed(families)}
        for name in dict.fromkeys(family["name"] for family in families):
            of = [key for key in best if key.startswith(f"{name}/")]
            proven = sum(best[key]["status"] == "optimal" for key in of)
            cells = {place(key, index[key]["provenance"])[0] for key in of}
            counts = f"{len(of)} | {len(cells)} | {proven}"
            lines.append(f"| `{problem}` | `{name}` | {counts} | {about[name]} |")
    return "\n".join(lines) + "\n"


def _words(family: dict[str, Any]) -> str:
    """Return what a family is, and what was found out about it after it was made."""
    remark = family.get("remark")
    return f"{family['about']} ({remark})" if remark else str(family["about"])


def write_table() -> None:
    """Put both tables into the library's README.md, between their marks, and write SHA256SUMS."""
    page = LIBRARY / "README.md"
    text = page.read_text()
    for name, lines in (("types", types_table(LIBRARY)), ("families", table())):
        before, begin, rest = text.partition(f"<!-- {name}: begin -->\n")
        _, end, after = rest.partition(f"<!-- {name}: end -->")
        text = before + begin + lines + end + after
    page.write_text(text)
    (LIBRARY / SUMS).write_text(sums(LIBRARY))


def _verify_all(problem: str | None, again: bool, time_limit_s: float) -> int:
    """Print what is wrong and how much was looked at; return the exit code."""
    failed = 0
    for name in PROBLEMS if problem is None else [problem]:
        wrong = verify(LIBRARY / name, again=again, time_limit_s=time_limit_s)
        failed += bool(wrong)
        print(*wrong, sep="\n", end="\n" * bool(wrong))
        count = len(instance_files(LIBRARY / name))
        print(f"{name}: {count} instances, {len(wrong)} faults", flush=True)
    return int(failed > 0)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=ACTIONS)
    parser.add_argument("problem", nargs="?", choices=list(PROBLEMS))
    parser.add_argument("--traces", type=Path, help="folder with the routing traces")
    parser.add_argument("--time-limit", type=float, default=60.0, help="seconds per solve")
    parser.add_argument("--methods", help="exact methods to use, comma-separated (default: all)")
    parser.add_argument("--families", help="families to prove, comma-separated (default: all)")
    parser.add_argument("--again", action="store_true", help="prove every optimum anew")
    parser.add_argument("--write", action="store_true", help="put the table into README.md")
    parser.add_argument("--open", action="store_true", help="leave out what is proven")
    arguments = parser.parse_args()
    if arguments.action == "table":
        if arguments.write:
            write_table()
        else:
            print(table(), end="")
        return
    if arguments.action == "verify":
        sys.exit(_verify_all(arguments.problem, arguments.again, arguments.time_limit))
    if arguments.action == "remade":
        names = list(PROBLEMS) if arguments.problem is None else [arguments.problem]
        other = [file for name in names for file in remade(LIBRARY / name, arguments.traces)]
        print(*other, sep="\n", end="\n" * bool(other))
        sys.exit(bool(other))
    if arguments.problem is None:
        parser.error(f"{arguments.action} needs a problem")
    folder = LIBRARY / arguments.problem
    if arguments.action == "prove":
        methods = None if arguments.methods is None else arguments.methods.split(",")
        families = None if arguments.families is None else arguments.families.split(",")
        prove(folder, arguments.time_limit, methods, arguments.open, families)
    elif arguments.action == "restate":
        restate(folder, arguments.traces)
    else:
        generate(folder, arguments.traces)


if __name__ == "__main__":
    main()
