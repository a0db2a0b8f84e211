"""Which figures on our pages are older than what decides them.

    python benchmarks/figures.py                    # what to run again, with its cost
    python benchmarks/figures.py run PAGE... [DIR=PATH] [--write]   # run them, and compare
    python benchmarks/figures.py stamp PAGE...      # these were run again, and are on the page

``figures.json`` has an entry for each block of figures: page, command, cost, and a hash of each
thing that the block hangs on. For the package that is not its source but answers on small instances
(what rules decide, what a search proves in how much work, what is generated and predicted): code
that is cut anew makes no page stale, and a rule that decides otherwise does. Where a run is too
dear to repeat whenever something changes, the block is ``dated``: its page says of which day it is.

``run`` takes ``PAGE`` or ``PAGE#WHAT`` and says which numbers of the page the commands no longer
print (`benchmarks.harness.regenerate`); ``--write`` puts changed rows on the page and stamps it.
Words in capitals in a command (``DIR``: real traces) are given as ``DIR=PATH``.

A thing is a folder of the library (files, optima), ``rules P``, ``search P`` or ``made P`` of a
problem, ``predictions``, Python code (without comments and docstrings), or another file.
"""

import ast
import datetime
import hashlib
import json
import sys
from functools import cache
from pathlib import Path
from typing import Any

import moeopt
from benchmarks.harness.regenerate import regenerate
from benchmarks.rooms.problems import PROBLEMS, get_problem

ROOT = Path(__file__).parents[1]
LIBRARY = ROOT / "instances"
FIGURES = Path(__file__).with_suffix(".json")
SEARCHING = "local-search"
"""Rule that no page's table has, and whose answer hangs on how long it searches."""
PREDICTED = (
    ("rtx4090+ryzen-am5", "glm-4.5-air", "llama.cpp"),
    ("2xrtx3090+epyc-7002", "glm-4.5-air", "llama.cpp"),
    ("rtx4090+epyc-9005", "deepseek-v3", "ik_llama.cpp"),
    ("rtx4090+xeon-spr", "deepseek-v3", "ktransformers"),
)
MADE: dict[str, dict[str, Any]] = {"cache": {"tokens": 50, "slots": 56}, "threads": {"threads": 32}}
"""Options of ``made P`` that a problem needs, or that keep its instance small."""
PLAIN = str | bytes | int | float | complex


def digest(*parts: object) -> str:
    """Return a short hash of what JSON can hold."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:8]


def bare(source: str) -> list[list[str]]:
    """Return what Python code says, without comments, docstrings and layout, in any version."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            node.body = node.body[ast.get_docstring(node, clean=False) is not None :]
    fields = ((type(node).__name__, ast.iter_fields(node)) for node in ast.walk(tree))
    return [[kind, *(repr(v) for _, v in found if isinstance(v, PLAIN))] for kind, found in fields]


def answers(problem: str, methods: list[str], work: float, searching: bool) -> list[object]:
    """Return what methods answer on the smallest instance of three families.

    Of searches on open ones, and what they took; of rules their decisions alone.
    """
    best = json.loads((LIBRARY / problem / "best_known.json").read_text())
    first: dict[str, Path] = {}
    for name in sorted(best, key=lambda name: ((LIBRARY / problem / name).stat().st_size, name)):
        if not searching or best[name]["status"] != "optimal" or len(first) > 1:
            first.setdefault(name.split("/")[0], LIBRARY / problem / name)
    found = []
    for file in list(first.values())[:3]:
        instance = moeopt.load(file)
        for method in methods:
            try:
                result = moeopt.solve(instance, method, work_limit=work)
            except moeopt.InputError:  # the rule does not admit such an instance
                found.append([file.name, method])
            else:
                spent = [f"{result.work or 0:.6g}"] if searching else []
                found.append([file.name, method, result.objective, result.bound, *spent])
    return found


def library(within: str) -> list[object]:
    """Return the files' hashes and the proven optima of the instances whose names begin so."""
    files = (LIBRARY / "SHA256SUMS").read_text().splitlines()
    found: list[object] = [line for line in files if line.split()[1].startswith(within)]
    for file in sorted(LIBRARY.glob("*/best_known.json")):
        for name, entry in json.loads(file.read_text()).items():
            if f"{file.parent.name}/{name}".startswith(within) and entry["status"] == "optimal":
                found.append([name, entry["objective"]])
    return found


@cache
def seen(thing: str) -> str:
    """Return the hash of one thing that figures hang on, as it is now."""
    kind, _, name = thing.partition(" ")
    if kind == "rules":
        rules = [rule for rule in get_problem(name).functions() if rule != SEARCHING]
        return digest(answers(name, rules, 0.01, False))
    if kind == "search":
        return digest(answers(name, [get_problem(name).exact[0].name], 0.02, True))
    if kind == "made":
        own = MADE.get(name, {}) | {"machine": "trimoe", "model": "deepseek-v2-lite"}
        if name != "split":  # which no workload changes
            own["workload"] = "trimoe-skew"
        return digest(moeopt.generate(name, **own).model_dump_json())
    if kind == "predictions":
        given: dict[str, Any] = {"bits": "Q4_K_M", "context": 4096}
        made = [moeopt.predict(on, of, runtime=by, **given) for on, of, by in PREDICTED]
        return digest([f"{one.tokens_per_s:.4g}" for one in made])
    path = ROOT / thing
    if path.is_relative_to(LIBRARY) and path.is_dir():
        return digest(library(thing.removeprefix("instances").removeprefix("/")))
    if path.is_dir() or path.suffix == ".py":
        code = sorted(path.rglob("*.py")) if path.is_dir() else [path]
        return digest(*(bare(file.read_text()) for file in code))
    return digest(path.read_text())


def figures() -> list[dict[str, Any]]:
    """Return the entries of figures.json."""
    found: list[dict[str, Any]] = json.loads(FIGURES.read_text())
    return found


def hashes(figure: dict[str, Any], searches: bool = True) -> dict[str, str]:
    """Return the hash of a figure's command and of each thing; ``rules *`` is of every problem."""
    found = {"command": digest(figure["command"])}
    for thing in figure["on"]:
        for one in [thing[:-1] + name for name in PROBLEMS] if thing[-1] == "*" else [thing]:
            if searches or not one.startswith("search "):
                found[one] = seen(one)
    return found


def stale(searches: bool = True, dated: bool = True) -> list[str]:
    """Return what to run again; without what searches alone have changed, or pages date."""
    found = []
    for figure in figures():
        if figure.get("dated") and not dated:
            continue
        now, was = hashes(figure, searches), figure["seen"]
        changed = [thing for thing, hashed in now.items() if was.get(thing) != hashed]
        if changed:
            why = ", ".join(changed) if was else "never held to it"
            found.append(f"{figure['page']}#{figure['what']}, of {figure['run']}: {why}")
            found.append(f"    {figure['command']}  # {figure['cost']}")
    return found


def stamp(pages: set[str]) -> None:
    """Say of the figures of PAGE, or of the one of PAGE#WHAT, that they were made today."""
    found = figures()
    for figure in found:
        if {figure["page"], f"{figure['page']}#{figure['what']}"} & pages:
            figure["run"] = datetime.datetime.now(datetime.UTC).date().isoformat()
            figure["seen"] = hashes(figure)
    entries = (
        ",\n".join(f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in one.items())
        for one in found
    )
    FIGURES.write_text("[\n{\n" + "\n},\n{\n".join(entries) + "\n}\n]\n")


def run(*words: str) -> int:
    """Run the commands of pages and print what they say other than the pages; 1 if anything is."""
    given = dict(word.split("=", 1) for word in words if "=" in word)
    pages = {word for word in words if "=" not in word and word != "--write"}
    write = "--write" in words
    chosen = {
        f"{one['page']}#{one['what']}": one
        for one in figures()
        if {one["page"], f"{one['page']}#{one['what']}"} & pages
    }
    if unknown := {page for page in pages if not any(name.startswith(page) for name in chosen)}:
        print(f"no figures of {', '.join(sorted(unknown))} in {FIGURES.name}")
        return 2
    done, differ = set(), False
    for name, one in chosen.items():
        print(f"{name}: {one['command']}", flush=True)
        try:
            found = regenerate(one, given, ROOT, write)
        except ValueError as error:
            print(f"  not run: {error}")
            differ = True
            continue
        print(*found.lines(), sep="\n", flush=True)
        differ |= bool(found.changed or found.missing)
        if not found.missing and (write or not found.changed):
            done.add(name)
    if write:
        stamp(done)
    return int(differ)


def text_of(page: str) -> str:
    """Return a page's words with single spaces, and without the bars of its tables."""
    return " ".join((ROOT / page).read_text().replace("|", " ").split())


def main(command: str = "", *pages: str) -> int:
    """Run a command; the exit code is 1 where figures are stale."""
    if command == "run":
        return run(*pages)
    if command == "stamp":
        stamp({*pages})
    else:
        print("\n".join(stale()) or "no figure is older than what it hangs on")
        return bool(stale())
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
