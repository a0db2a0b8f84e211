"""What a heuristic knew when it decided: said for every one, and kept with every solve."""

from pathlib import Path

import pytest

import moeopt
from moeopt import gap
from tests.rooms.core import HINDSIGHT, NOTHING, THIS_STEP
from tests.rooms.problems import get_problem


@pytest.mark.parametrize(
    ("problem", "method", "words"),
    [
        ("tri_domain", "trimoe", THIS_STEP),
        ("tri_domain", "trimoe[tie_order=gpu]", THIS_STEP),
        ("balance", "all-gpu", NOTHING),
        ("cache", "greedy-marginal", HINDSIGHT),
        ("cache", "dp", None),
        ("cache", "somebody's rule", None),
    ],
)
def test_a_heuristic_knows_what_its_problem_says(
    problem: str, method: str, words: str | None
) -> None:
    """Exact methods and users' rules have no entry; assumptions in brackets change nothing."""
    assert get_problem(problem).information(method, None) == words


@pytest.mark.parametrize(
    ("loads", "words"), [("predicted", "predicted loads"), ("actual", HINDSIGHT)]
)
def test_migrations_by_the_loads_that_came_are_hindsight(
    loads: str, words: str, root: Path
) -> None:
    """The same rule on predicted loads and on those that came; doing nothing needs neither."""
    family = "actual" if loads == "actual" else "small-batch"
    instance = moeopt.load(next((root / "instances" / "relayout" / family).iterdir()))
    assert get_problem("relayout").information("benefit-greedy", instance) == words
    assert get_problem("relayout").information("none", instance) == NOTHING


def test_a_study_keeps_what_was_known(root: Path) -> None:
    """Each solve of a heuristic says it; an exact one does not."""
    folder = root / "instances" / "deferral" / "few-layers"
    file = sorted(folder.iterdir())[0]
    rows = gap([file], ["saturate", "dp"], prove_again=True)
    assert [row.facts.get("knew") for row in rows] == ["a layer's times", None]
