"""Start a problem as a copy of formulations/TEMPLATE, under its own name and constraint IDs.

    python formulations/new_problem.py knapsack KS

copies code, specification, generator, tests and families to where they belong, and adds the problem
to the registry. What you have then is complete and passes every test; make it yours from there.
"""

import argparse
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
TEMPLATE = ROOT / "formulations" / "TEMPLATE"
REGISTRY = ROOT / "moeopt" / "problems" / "registry.py"


def copies(name: str) -> dict[Path, Path]:
    """Return every file of the template with its place in the new problem."""
    folders = {
        "problem": ROOT / "moeopt" / "problems" / name,
        "tests": ROOT / "tests" / "problems" / name,
    }
    found = {
        file: folder / file.name.replace("TEMPLATE", name)
        for part, folder in folders.items()
        for file in sorted((TEMPLATE / part).glob("*.py"))
    }
    return found | {
        TEMPLATE / "room.py": ROOT / "tests" / "rooms" / f"{name}.py",
        TEMPLATE / "spec.md": ROOT / "formulations" / name / "spec.md",
        TEMPLATE / "TEMPLATE.mod": ROOT / "formulations" / name / f"{name}.mod",
        TEMPLATE / "instances" / "families.toml": ROOT / "instances" / name / "families.toml",
    }


def renamed(text: str, name: str, letters: str) -> str:
    """Return a file's text with the new problem's names in it."""
    for old, new in (
        ("formulations.TEMPLATE.problem", f"moeopt.problems.{name}"),
        ("formulations.TEMPLATE.tests", f"tests.problems.{name}"),
        ("formulations.TEMPLATE.room", f"tests.rooms.{name}"),
        ("TEMPLATE", name),
        ("Template", name.title().replace("_", "")),
        ("TM-C", f"{letters}-C"),
        ("TM_C", f"{letters}_C"),
        ("tm_c", f"{letters.lower()}_c"),
    ):
        text = text.replace(old, new)
    return FROM.sub(lambda run: "".join(sorted(ONE.findall(run[0]), key=_module)), text)


ONE = re.compile(r"^from \S+ import (?:\([^)]*\)|[^(\n]*)\n", re.MULTILINE)
FROM = re.compile(rf"(?:{ONE.pattern})+", re.MULTILINE)
"""An import of names, and several in succession: another name may put them in another order."""


def _module(line: str) -> str:
    return line.split()[1].lower()


def register(text: str, name: str) -> str:
    """Return the registry with the import and one line more."""
    begin = text.index("from moeopt.problems import (\n") + len("from moeopt.problems import (\n")
    end = text.index(")\n", begin)
    lines = sorted([*text[begin:end].splitlines(keepends=True), f"    {name},\n"])
    text = text[:begin] + "".join(lines) + text[end:]
    begin = text.index("PROBLEMS: dict[str, AnyProblem] = {")
    end = text.index("}\n", begin)
    return text[:end] + f'    "{name}": {name}.PROBLEM,\n' + text[end:]


def taken(letters: str) -> bool:
    """Tell whether another problem's constraints have these letters."""
    specs = (ROOT / "formulations").glob("*/spec.md")
    return any(f"**{letters}-C1**" in spec.read_text() for spec in specs)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", help="the problem's name: a Python identifier in lower case")
    parser.add_argument("letters", help="two capital letters that its constraint IDs begin with")
    arguments = parser.parse_args()
    name, letters = arguments.name, arguments.letters
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        sys.exit(f"name: must be a Python identifier in lower case, not {name!r}")
    if not re.fullmatch(r"[A-Z]{2}", letters) or taken(letters):
        sys.exit(f"letters: must be two capital letters that no problem has, not {letters!r}")
    files = copies(name)
    if there := [str(place) for place in files.values() if place.exists()]:
        sys.exit(f"name: {there[0]} exists")
    for file, place in files.items():
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(renamed(file.read_text(), name, letters))
        print(place.relative_to(ROOT))
    REGISTRY.write_text(register(REGISTRY.read_text(), name))
    print(f"{REGISTRY.relative_to(ROOT)}: two lines more")


if __name__ == "__main__":
    main()
