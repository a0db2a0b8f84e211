"""The house rules that tools can check."""

import subprocess
import sys
from pathlib import Path

import pytest


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


def test_public_names_are_documented() -> None:
    """Everything in moeopt's namespace has a docstring and can be imported."""
    import moeopt

    for name in moeopt.__all__:
        assert getattr(moeopt, name).__doc__, name
    assert set(moeopt.__all__) <= set(dir(moeopt))
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = moeopt.nothing
