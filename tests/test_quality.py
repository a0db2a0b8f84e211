"""The house rules that tools can check."""

import subprocess
import sys
from pathlib import Path

import pytest

MAX_MEDIAN_LINES = 220
MAX_LINES = 500
ONE_CONCEPT = {
    "core/problem.py": "what a problem is: the parts that it offers, one class",
    "problems/joint/lagrangian/kernels.py": "compiled loops over rows, steps and plans",
    "problems/joint/lagrangian/relaxation.py": "the relaxation, priced by its multipliers",
    "problems/layout/shared_layout.py": "bounds of one layout for all windows",
    "problems/placement/generate.py": "instances, and the steps of a trace that they serve",
    "problems/relayout/later.py": "decisions on later loads, and what they cost on futures",
    "problems/replication/annealing.py": "annealing of copies, by slots and by exchanges",
    "sim/traces/fitting.py": "fitting a workload, and the search behind it",
    "study/settlements.py": "solving under other readings, and the table of it",
}
"""Longer files that are one concept each, up to `MAX_LINES_OF_A_CONCEPT`."""

MAX_LINES_OF_A_CONCEPT = 600


@pytest.mark.parametrize(
    "command",
    [
        ["ruff", "check", "."],
        ["ruff", "format", "--check", "."],
        pytest.param(["mypy"], marks=pytest.mark.slow),  # a job of the workflow: 40 CPU seconds
    ],
    ids=["ruff check", "ruff format", "mypy --strict"],
)
def test_tools_find_nothing(command: list[str], root: Path) -> None:
    """Style and types are clean."""
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=root, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_files_stay_small(root: Path) -> None:
    """Cut by concept: the median below 220 lines, none above 500 but those listed."""
    package = root / "moeopt"
    lengths = {
        path.relative_to(package).as_posix(): len(path.read_text().splitlines())
        for path in package.glob("**/*.py")
    }
    assert sorted(lengths.values())[len(lengths) // 2] < MAX_MEDIAN_LINES
    longer = {name for name, lines in lengths.items() if lines > MAX_LINES}
    assert longer <= set(ONE_CONCEPT), "cut it by concept"
    assert max(lengths.values()) <= MAX_LINES_OF_A_CONCEPT


def test_public_names_are_documented() -> None:
    """Everything in moeopt's namespace has a docstring and can be imported."""
    import moeopt

    for name in moeopt.__all__:
        assert getattr(moeopt, name).__doc__, name
    assert set(moeopt.__all__) <= set(dir(moeopt))
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = moeopt.nothing
