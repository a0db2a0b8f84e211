"""MkDocs hook: the pages that are made from the code, and mathematics without a script.

    mkdocs build --strict

A problem's page is written around ``formulations/<problem>/spec.md`` with
methods, options and families read from the code and the instance library, the tables of instances
are made from the library, and the API reference names what is public. Nothing of that is kept in
git. Links between files of the repository lead to the pages made of them; formulas become MathML,
which browsers show without any script or network. Words of the glossary say what they mean.
"""

import html
import json
import logging
import os
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from inspect import getdoc
from pathlib import Path, PurePosixPath
from textwrap import indent

from latex2mathml.converter import convert
from limits import limits_of
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import moeopt
from moeopt.core.lazy import EVERY_PROBLEM
from moeopt.exporters.exported import Exported
from moeopt.planner.options import ExecutionOptions, PlanOptions
from moeopt.planner.report import PlanReport
from moeopt.problems.cache import online as cache_online
from moeopt.problems.deferral import online as deferral_online
from moeopt.problems.placement import online as placement_online
from moeopt.problems.registry import PROBLEMS, get_problem
from moeopt.problems.tri_domain import online
from moeopt.sim.machines.machine import Machine
from moeopt.sim.machines.page import machine_page
from moeopt.sim.models.model_shape import ModelShape
from moeopt.sim.traces.trace import Counts, Trace
from moeopt.sim.traces.workload import Workload
from moeopt.solvers.explain import Binding, Change, Explanation
from moeopt.solvers.methods import problem_methods
from moeopt.solvers.result import Verdict
from moeopt.study.gap_table import GapTable
from moeopt.systems.plan_run import Simulation

sys.path.append(str(Path(__file__).parents[1]))  # mkdocs adds the folder of a hook, `docs`

from instances.tools.entries import TYPES as INSTANCE_TYPES
from instances.tools.entries import entries_of, open_table, problem_folders, problem_table

ROOT = Path(__file__).parents[1]
LOG = logging.getLogger("mkdocs.hooks.moeopt")  # a warning here fails a strict build

MODELS = {
    "cp-sat": "the model of section Formulation, solved by CP-SAT",
    "milp": "the same as a mixed-integer program, by HiGHS or another engine (`--engine`)",
    "brute-force": "every solution of a tiny instance, checked",
}
"""Methods that problems share."""

TYPES = [
    *(
        Verdict,
        Explanation,
        Binding,
        Change,
        GapTable,
        Trace,
        Counts,
        Workload,
        Machine,
        ModelShape,
    ),
    *(Simulation, Exported, ExecutionOptions, PlanOptions, PlanReport),
]
"""What public functions take and return, beside instances and solutions."""

ONLINE = {
    "tri_domain": online.Scheduler,
    "deferral": deferral_online.Scheduler,
    "cache": cache_online.Lru,
    "placement": placement_online.Residents,
}
"""Problem -> what a runtime asks while it runs (docs/online.md)."""

WIDE = "---\nhide: [toc]\n---\n"
"""Before a page that is one table: the room of its contents goes to the table."""

ELSEWHERE = {
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "instances/README.md": "instances.md",
    "benchmarks/README.md": "benchmarks.md",
    "formulations/TEMPLATE/README.md": "adding.md",
} | {f"formulations/{name}/spec.md": f"problems/{name}.md" for name in PROBLEMS}
"""Files outside ``docs/`` that the site shows -> their page."""


def units(problem: str) -> str:
    """Return in words what objectives of a problem are, e.g. "makespan_ns, then penalty"."""
    names = get_problem(problem).minimises()
    return ", then ".join(f"`{name}`" for name in names)


def instances_page(folder: Path) -> str:
    """Return the page of a problem's instances."""
    found = entries_of(folder)
    counts = ", ".join(f"{sum(e.type == t for e in found)} {t}" for t in INSTANCE_TYPES)
    parts = [
        f"# Instances of {folder.name}",
        f"{len(found)} instances: {counts}. Objective and bound in {units(folder.name)}. "
        "[What the types mean](../instances.md#types).",
        problem_table(folder).rstrip(),
    ]
    return "\n\n".join(parts) + "\n"


def open_page(library: Path) -> str:
    """Return the page of the instances that are open."""
    found = [e for folder in problem_folders(library) for e in entries_of(folder)]
    unsolved = [e for e in found if e.type == "open"]
    of = ", ".join(
        f"{problem} in {units(problem)}" for problem in dict.fromkeys(e.problem for e in unsolved)
    )
    parts = [
        "# Open instances",
        f"{len(unsolved)} of {len(found)} instances are open. A better solution or a higher bound "
        "is welcome: [how to hand one in](benchmark.md). Objectives: " + of + ".",
        open_table(library).rstrip(),
    ]
    return "\n\n".join(parts) + "\n"


LISTED = {"Problems": "problems", "Instances": "instances", "Python library": "api"}
"""Section of the navigation -> folder of the pages of its problems."""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """List every problem's pages in the navigation, in its group."""
    for group in config.nav or []:
        for pages in group.values():
            for section in pages if isinstance(pages, list) else []:
                for title, folder in LISTED.items():
                    if title in section:
                        section[title] += [{name: f"{folder}/{name}.md"} for name in PROBLEMS]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that no file in ``docs/`` holds."""
    made = {page: led(file, page) for file, page in ELSEWHERE.items()}
    made |= {f"problems/{name}.md": problem_page(name) for name in PROBLEMS}
    made["open-instances.md"] = WIDE + open_page(ROOT / "instances")
    for name in PROBLEMS:
        made[f"instances/{name}.md"] = WIDE + instances_page(ROOT / "instances" / name)
    made["machine-fields.md"] = WIDE + machine_page()
    made["problems/index.md"] = problem_index()
    made["api/index.md"] = api_functions()
    made["api/types.md"] = api_types()
    made |= {f"api/{name}.md": api_problem(name) for name in PROBLEMS}
    for page, content in made.items():
        files.append(File.generated(config, page, content=content))
    return files


# Links


DISPLAYED = re.compile(r"^(\$\$[^$]+\$\$)$", re.MULTILINE)
"""A displayed formula; Python-Markdown wants blank lines around it where code hosts do not."""

LINK = re.compile(r"(!?)\[([^\]]+)\]\(([^)#:\s]+)(#[^)\s]*)?\)")


BOTH_WAYS = re.compile(
    r"^```sh\n(?P<Shell>(?:(?!```).)*)^```\n+```python\n(?P<Python>(?:(?!```).)*)^```$",
    re.DOTALL | re.MULTILINE,
)
"""A command, and right below it the program that does the same."""


def tabs(pair: re.Match[str]) -> str:
    """Return a command and a program as two tabs."""
    shown = [
        f'=== "{title}"\n\n' + indent(f"```{kind}\n{pair[title]}```", "    ")
        for title, kind in (("Shell", "sh"), ("Python", "python"))
    ]
    return "\n\n".join(shown)


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead the links of a page that is a file in ``docs/``; say what the glossary's words mean."""
    here = page.file.src_uri
    text = markdown if page.file.generated_by else led_text(markdown, f"docs/{here}", here)
    text = BOTH_WAYS.sub(tabs, text)
    return text if here == "glossary.md" else f"{text}\n\n{abbreviations()}"


def led(file: str, page: str) -> str:
    """Return a file's text with its links and pictures leading to where the site has them."""
    return led_text((ROOT / file).read_text(), file, page)


def led_text(text: str, file: str, page: str) -> str:
    """Return a text of a file with its links led; one to what the site does not show is plain."""

    def lead(link: re.Match[str]) -> str:
        picture, shown, target, anchor = link[1], link[2], link[3], link[4] or ""
        path = os.path.normpath(PurePosixPath(file).parent / target)
        if not (ROOT / path).exists():
            LOG.warning("%s links to %s, which does not exist", file, target)
        if path == "README.md":
            path = "docs/index.md"
        if path not in ELSEWHERE and not path.startswith("docs/"):
            return shown
        to = ELSEWHERE.get(path, path.removeprefix("docs/"))
        return f"{picture}[{shown}]({os.path.relpath(to, PurePosixPath(page).parent)}{anchor})"

    return DISPLAYED.sub(r"\n\1\n", LINK.sub(lead, text))


# The glossary


ENTRY = re.compile(r"^- \*\*(.+?)\*\*([^:]*): (.+?)(?: \(`.*\))?$", re.MULTILINE)
"""A line of the glossary: a term, its other names, what it means; not the place in the code."""

EVERYDAY = {
    *("path", "way", "copy", "part", "grain", "grid", "repeat", "cluster", "symmetry"),
    *("information", "train", "test"),
}
"""Terms that also stand in sentences about other things: no page explains them."""


@cache
def glossary() -> dict[str, str]:
    """Return term -> meaning, of the glossary's page."""
    found = {}
    for term, others, meaning in ENTRY.findall((ROOT / "docs" / "glossary.md").read_text()):
        for name in (term, *re.findall(r"[,[] ?([\w -]+)", others)):
            if name not in EVERYDAY:
                text = re.sub(r"[`*]|\[(.*?)\]\(.*?\)", r"\1", meaning)
                found |= {name: text, f"{name}s": text}
    return found


def abbreviations() -> str:
    """Return the glossary as the extension ``abbr`` reads it."""
    return "\n".join(f"*[{term}]: {meaning}" for term, meaning in glossary().items())


ABBREVIATION = re.compile(r'<abbr title="[^"]*">(.*?)</abbr>')
HEADING = re.compile(r"<h[1-6].*?</h[1-6]>|<a .*?</a>|<summary.*?</summary>", re.DOTALL)


def explained_once(content: str) -> str:
    """Return a page on which a term is explained where it first stands, outside of headings."""
    content = HEADING.sub(lambda heading: ABBREVIATION.sub(r"\1", heading[0]), content)
    seen = set()

    def once(term: re.Match[str]) -> str:
        again = term[1] in seen
        seen.add(term[1])
        return term[1] if again else term[0].replace("<abbr", '<abbr tabindex="0"')

    return ABBREVIATION.sub(once, content)


# Mathematics


DIALOG = 'data-md-component="search" role="dialog" aria-label="Search"'

MENU = re.compile(
    r'(<nav class="md-nav" data-md-level="\d") aria-labelledby="\w+"'
    r'([^>]*>\s*<label class="md-nav__title"[^>]*>\s*<span[^>]*></span>\s*(.*?)\s*</label>)'
)
"""A section of the menu; the theme names it by a label that has no text where it has a page."""

LONG_FORMULA = 40
"""An inline formula of more characters than that may be wider than a telephone."""

SHELL = re.compile(r'<div class="language-sh.*?</pre>', re.DOTALL)
FLAG = re.compile(r"(?<=</span>)(--?\w[\w-]*)")
"""An option in a command: a line that is too long is not broken within it."""

FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)


def on_page_content(content: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    r"""Turn what arithmatex marked as ``\(...\)`` and ``\[...\]`` into MathML; long ones scroll.

    Their classes are no words of the theme: its ``inline`` floats boxes to the left of the text.
    """

    def mathml(match: re.Match[str]) -> str:
        display = "block" if match[1] == "div" else "inline"
        text = html.unescape(match[2])
        made = convert(text, display=display)
        if display == "inline" and len(text) < LONG_FORMULA:
            return made
        return f'<span class="formula-{display}" tabindex="0">{made}</span>'

    content = SHELL.sub(lambda block: FLAG.sub(r'<span class="flag">\1</span>', block[0]), content)
    return FORMULA.sub(mathml, explained_once(content))


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Name search and menus, and let code and tables that scroll be reached by the keyboard."""
    output = MENU.sub(r'\1 aria-label="\3"\2', output)
    output = output.replace('data-md-component="search" role="dialog"', DIALOG)
    return output.replace("<pre>", '<pre tabindex="0">').replace("<table>", '<table tabindex="0">')


# A problem's page


def problem_page(name: str) -> str:
    """Return the page of a problem."""
    summary = first_line(PROBLEMS[name].about).removeprefix(f"{name}: ")
    summary = summary[:1].upper() + summary[1:]
    api = f"The classes and functions: [`moeopt.problems.{name}`](../api/{name}.md)."
    parts = [f"# {name}", summary, api, *try_it(name), *methods(name), *options(name)]
    parts += [*families(name), *limits(name), *specification(name)]
    return "\n\n".join(parts) + "\n"


def problem_index() -> str:
    """Return the index of the problems' pages."""
    lines = ["# The problems", ""]
    for name, problem in PROBLEMS.items():
        about = first_line(problem.about).removeprefix(f"{name}: ")
        lines.append(f"- [`{name}`]({name}.md): {about}")
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
    heuristics = problem.functions()
    own = {one.name: one for one in problem.exact}
    rows = ["| method | kind | what it does |", "|---|---|---|"]
    for method in problem_methods(problem).values():
        if method.name in heuristics:
            about = first_line(getdoc(heuristics[method.name]))
        elif method.name in own:
            about = first_line(getdoc(problem.algorithm(own[method.name])))
        else:
            about = MODELS[method.name]
        rows.append(f"| `{method.name}` | {method.kind} | {about} |")
    yield "## Methods"
    yield "\n".join(rows)
    yield "Without a method (`auto`) the first exact one runs, then `cp-sat` on what stays open."


def options(name: str) -> Iterator[str]:
    """Yield the options of the generator."""
    yield f"## Making instances: `moeopt generate {name}`"
    rows = ["| option | default | meaning |", "|---|---|---|"]
    for field, info in get_problem(name).Options().model_fields.items():
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
    yield f"## Instances: `instances/{name}`"
    yield (
        f"[Every instance with objective, bound and type](../instances/{name}.md); "
        "[how the library is made and held to its claims](../instances.md)."
    )
    yield "\n".join(rows)


def limits(name: str) -> Iterator[str]:
    """Yield the limits of an instance's numbers, and of their sums."""
    instance = get_problem(name).Instance()
    yield "## Limits"
    yield (
        "What a file may hold. Beyond a limit it is refused in one line that names the field. "
        "Numbers up to 2^42 are 73 minutes in ns and 4 TiB in bytes; sums of what one problem adds "
        "up stay within 2^60 so, in 64 bits with a sign. Models and checkers take the numbers as "
        "they are; where a method rounds them for a bound, its proof says why it still is one."
    )
    rows = ["| field | unit | least | most | entries |", "|---|---|---:|---:|---|"]
    for of in limits_of(instance):
        entries = " x ".join("any" if n is None else f"{n:,}" for n in of.lengths)
        least, most = map(_number, (of.least, of.most))
        rows.append(f"| `{of.field}` | {of.unit} | {least} | {most} | {entries} |")
    yield '<details markdown="1"><summary>Least and most of each field</summary>'
    yield "\n".join(rows)
    yield "</details>"
    if instance.SUMS:
        rows = ["| sum | refused at | most |", "|---|---|---:|"]
        for sum_ in instance.SUMS:
            rows.append(f"| {sum_.what.rstrip(',')} | `{sum_.field}` | {_number(sum_.most)} |")
        yield "\n".join(rows)


def _number(value: float | None) -> str:
    """Return a limit as people write it; a large power of two as one."""
    if value is None:
        return ""
    large = isinstance(value, int) and value >= 2**20 and value & (value - 1) == 0
    return f"2^{value.bit_length() - 1}" if large else f"{value:,}"


def specification(name: str) -> Iterator[str]:
    """Yield the specification, its headings one level down."""
    text = led(f"formulations/{name}/spec.md", f"problems/{name}.md")
    _, *lines = text.strip().splitlines()  # the title is the page's own
    yield "## Formulation"
    yield f"The file `formulations/{name}/spec.md`."
    yield "\n".join(f"#{line}" if line.startswith("#") else line for line in lines).strip()


def first_line(text: str | None) -> str:
    """Return the first line of a docstring."""
    return (text or "").strip().splitlines()[0] if text else ""


# The API reference


CONCEPTS = {
    "Files": "load save load_solution load_plan load_trace save_trace load_counts",
    "Make instances": "generate generate_twins find_repeats dedupe_trace",
    "Solve": "solve Result methods heuristic check explain event_graph",
    "Compare": "gap compare holdout run_on",
    "Machines and speeds": "get_machine detect_machine set_machine predict calibrate "
    "read_measurements",
    "Plan and export": "plan plan_expert_parallel Plan simulate export",
    "Errors": "MoeoptError InputError HeuristicError InfeasibleError LimitError StoreError "
    "ContradictionError MoeoptWarning",
}
"""Concept -> the public names that belong to it."""


def api_functions() -> str:
    """Return the page of everything in `moeopt.__all__`, by concept."""
    listed = [name for names in CONCEPTS.values() for name in names.split()]
    if sorted(listed) != sorted(moeopt.__all__):
        LOG.warning("public names without a concept: %s", {*listed} ^ {*moeopt.__all__})
    lines = ["# Python library", "", "What `import moeopt` gives.", ""]
    lines += ["| concept | functions and classes |", "|---|---|"]
    for concept, names in CONCEPTS.items():
        links = ", ".join(f"[`{name}`](#moeopt.{name})" for name in names.split())
        lines.append(f"| [{concept}](#{concept.lower().replace(' ', '-')}) | {links} |")
    problems = ", ".join(f"[`{name}`]({name}.md)" for name in PROBLEMS)
    lines += [f"| Problems | {problems} |", "| | [types](types.md) |", ""]
    for concept, names in CONCEPTS.items():
        lines += [f"## {concept}", ""]
        for name in names.split():
            lines += [f"::: moeopt.{name}", "    options:", "      heading_level: 3", ""]
    return "\n".join(lines)


def api_types() -> str:
    """Return the page of the types that public functions take and return."""
    lines = ["# Types", "", "What the functions of the library take and return.", ""]
    return "\n".join([*lines, *(f"::: {place(kind)}\n" for kind in TYPES)])


def place(kind: type) -> str:
    """Return where a class stands, as mkdocstrings names it."""
    return f"{kind.__module__}.{kind.__qualname__}"


MODULES = ("instance", "solution", "check", "bounds", "heuristics", "rules")
"""What of a problem's folder its page shows, where it is there."""


def api_problem(name: str) -> str:
    """Return the page of a problem's instance, solution, checker and so on, and its online face."""
    folder = ROOT / "moeopt" / "problems" / name
    modules = [m for m in MODULES if (folder / f"{m}.py").is_file() or (folder / m).is_dir()]
    lines = [f"# {name}: classes and functions", ""]
    short = ", ".join(f"`{public}`" for public in EVERY_PROBLEM)
    lines += [f"After `from moeopt import {name}` its attributes {short} are those below.", ""]
    lines += [f"The mathematics: [formulation](../problems/{name}.md#formulation).", ""]
    parts = [f"moeopt.problems.{name}.{module}" for module in modules]
    parts += [place(ONLINE[name])] if name in ONLINE else []
    return "\n".join([*lines, *(f"::: {part}\n" for part in parts)])
