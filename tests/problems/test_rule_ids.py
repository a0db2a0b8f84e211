"""From the ID of a rule one search leads to its checker, its model rows and the proofs."""

import re
from pathlib import Path

import pytest

from tests.rooms.problems import PROBLEMS, get_problem

RULES = [
    (problem, rule)
    for problem in ("tri_domain", "relayout")
    for rule in get_problem(problem).constraints()
]


@pytest.mark.parametrize(("problem", "rule"), RULES)
def test_one_search_finds_every_place_of_a_rule(problem: str, rule: str, root: Path) -> None:
    """Checker, model, the algebraic model, and in the spec its formula and a proof."""
    code, formulation = root / "moeopt" / "problems" / problem, root / "formulations" / problem
    spec = (formulation / "spec.md").read_text()
    places = {
        "checker": (code / "check.py").read_text(),
        "rows of CP-SAT and MILP": (code / "cpsat.py").read_text(),
        "MathProg rows": (formulation / f"{problem}.mod").read_text(),
        "formula": spec.split("## Constraints")[1].split("## Objective")[0],
        "proof": "".join(re.findall(r"\*Proof.*?square", spec, re.DOTALL)),
    }
    missing = [place for place, text in places.items() if not re.search(rf"{rule}\b", text)]
    assert missing == []


@pytest.mark.parametrize("problem", PROBLEMS)
def test_the_files_that_a_specification_names_exist(problem: str, root: Path) -> None:
    """From the root or the package, or anywhere in the problem's folder."""
    spec = (root / "formulations" / problem / "spec.md").read_text()
    home = root / "moeopt" / "problems" / problem
    named = set(re.findall(r"(?<![\w/.])[\w/]+\.py\b", spec))
    assert named
    near = (root, root / "moeopt")
    there = {one for one in named if any((of / one).exists() for of in near)}
    assert [one for one in named - there if not list(home.rglob(one))] == []
