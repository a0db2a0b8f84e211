"""Write a page per problem around its specification: docs/problems/*.md and their index.

    python docs/build.py

Methods, options and families are read from the code and the instance library, the mathematics from
``formulations/<problem>/spec.md``; nothing is written by hand there, and a test compares.
"""

import json
import tomllib
from collections.abc import Iterator
from importlib import import_module
from inspect import getdoc
from pathlib import Path

from moeopt.problems.info import ExactModel
from moeopt.problems.registry import PROBLEMS, get_problem
from moeopt.sim.generate import generator_of
from moeopt.solvers.methods import problem_methods

ROOT = Path(__file__).parents[1]
PAGES = Path(__file__).parent / "problems"

MODELS = {
    "cp-sat": "the model of section Model, solved by CP-SAT",
    "milp": "the same as a mixed-integer program, by HiGHS or another engine (`--engine`)",
    "mathprog": "the algebraic model, GNU MathProg, by GLPK",
    "brute-force": "every solution of a tiny instance, judged",
}
"""Exact methods that every problem has."""


def page(name: str) -> str:
    """Return the page of a problem."""
    summary = first_line(import_module(PROBLEMS[name]).__doc__)
    parts = [f"# {name}", summary, *try_it(name), *methods(name), *options(name), *families(name)]
    return "\n\n".join([*parts, *specification(name)]) + "\n"


def index() -> str:
    """Return the index of the pages."""
    lines = ["# The problems", ""]
    for name, package in PROBLEMS.items():
        lines.append(f"- [`{name}`]({name}.md): {first_line(import_module(package).__doc__)}")
    return "\n".join(lines) + "\n"


def try_it(name: str) -> Iterator[str]:
    """Yield commands on the first proven instance of the library."""
    best = json.loads((ROOT / "instances" / name / "best_known.json").read_text())
    first = next(key for key, entry in best.items() if entry["status"] == "optimal")
    instance, solution = (f"instances/{name}/{path}" for path in (first, best[first]["solution"]))
    heuristic = next(m.name for m in problem_methods(get_problem(name)).values())
    yield "## Try it"
    commands = [
        f"moeopt solve {instance} --method {heuristic}",
        f"moeopt solve {instance} --method {best[first]['method']}",
        f"moeopt check {instance} {solution}",
        f"moeopt gap {(Path('instances') / name / first).parent.as_posix()}",
    ]
    yield "```sh\n" + "\n".join(commands) + "\n```"


def methods(name: str) -> Iterator[str]:
    """Yield the table of methods, each with what its docstring begins with."""
    problem = get_problem(name)
    heuristics = problem.part("heuristics").HEURISTICS
    own = problem.info.exact_methods
    rows = ["| method | kind | what it does |", "|---|---|---|"]
    for method in problem_methods(problem).values():
        if method.name in heuristics:
            about = first_line(getdoc(heuristics[method.name]))
        elif method.name in own:
            exact = own[method.name]
            about = first_line(problem.part(exact.module).__doc__)
            if isinstance(exact, ExactModel):
                about += f" Solved by {exact.solver}."
        else:
            about = MODELS[method.name]
        rows.append(f"| `{method.name}` | {method.kind} | {about} |")
    yield "## Methods"
    yield "\n".join(rows)


def options(name: str) -> Iterator[str]:
    """Yield the options of the generator."""
    yield f"## Making instances: `moeopt generate {name}`"
    rows = ["| option | default | meaning |", "|---|---|---|"]
    for field, info in generator_of(name).Options.model_fields.items():
        default = "" if info.default is None else f"`{info.default}`"
        meaning = info.description or ""
        rows.append(f"| `--{field.replace('_', '-')}` | {default} | {meaning} |")
    yield "\n".join(rows)


def families(name: str) -> Iterator[str]:
    """Yield the families of the library."""
    folder = ROOT / "instances" / name
    listed = tomllib.loads((folder / "families.toml").read_text())["family"]
    best = json.loads((folder / "best_known.json").read_text())
    about: dict[str, str] = {}
    for family in listed:
        about.setdefault(family["name"], family["about"])
    rows = ["| family | instances | proven | what |", "|---|---:|---:|---|"]
    for family, what in about.items():
        of = [entry for key, entry in best.items() if key.startswith(f"{family}/")]
        proven = sum(entry["status"] == "optimal" for entry in of)
        rows.append(f"| `{family}` | {len(of)} | {proven} | {what} |")
    yield f"## Instances: [`instances/{name}`](../../instances/README.md)"
    yield "\n".join(rows)


def specification(name: str) -> Iterator[str]:
    """Yield the specification, its headings one level down."""
    text = (ROOT / "formulations" / name / "spec.md").read_text().strip()
    _, *lines = text.splitlines()  # the title is the page's own
    yield "## Formulation"
    yield f"From [`formulations/{name}/spec.md`](../../formulations/{name}/spec.md)."
    yield "\n".join(f"#{line}" if line.startswith("#") else line for line in lines).strip()


def first_line(text: str | None) -> str:
    """Return the first line of a docstring."""
    return (text or "").strip().splitlines()[0] if text else ""


def main() -> None:
    """Write all pages."""
    PAGES.mkdir(exist_ok=True)
    for name in PROBLEMS:
        (PAGES / f"{name}.md").write_text(page(name))
    (PAGES / "README.md").write_text(index())


if __name__ == "__main__":
    main()
