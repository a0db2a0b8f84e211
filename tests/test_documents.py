"""README and guides: every example runs, every number is what the command gives today."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from moeopt.cli.main import run

SHELL = re.compile(r"```sh\n(.*?)\n```", re.DOTALL)
PYTHON = re.compile(r"```python\n(.*?)```\n\nprints\n\n```text\n(.*?)```", re.DOTALL)
BEGIN, END = "<!-- gap table: begin -->\n", "<!-- gap table: end -->"


@pytest.fixture
def readme(root: Path) -> str:
    """Return the README."""
    return (root / "README.md").read_text()


def test_ci_runs_the_readmes_test_command(readme: str, root: Path) -> None:
    """Word for word, as the last thing it does."""
    command = SHELL.findall(readme)[1]
    assert command.endswith("pytest -q")
    assert (root / ".ci" / "run").read_text().splitlines()[-1] == command


def test_the_first_command_names_what_exists(readme: str, root: Path) -> None:
    """The folder is there, with the number of instances the sentence before it promises."""
    command = SHELL.findall(readme)[0]
    folder = root / command.split("moeopt gap ")[1]
    count = len(list(folder.glob("*.json")))
    assert f"then solves {count} instances nine ways" in readme


def test_the_library_example_prints_what_it_says(readme: str, root: Path, tmp_path: Path) -> None:
    """Run as it stands, beside the instances."""
    [(source, expected)] = PYTHON.findall(readme)
    (tmp_path / "instances").symlink_to(root / "instances")
    done = subprocess.run(
        [sys.executable, "-c", source], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == expected
    assert (tmp_path / "plan.json").is_file()


@pytest.mark.parametrize("number", range(3))
def test_the_examples_print_what_they_say(number: int, root: Path, tmp_path: Path) -> None:
    """Those of docs/examples.md, one for each kind of user, beside the instances."""
    found = PYTHON.findall((root / "docs" / "examples.md").read_text())
    assert len(found) == 3
    source, expected = found[number]
    (tmp_path / "instances").symlink_to(root / "instances")
    done = subprocess.run(
        [sys.executable, "-c", source], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == expected


def test_the_gap_table_is_what_the_command_prints(
    readme: str, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`moeopt gap instances/tri_domain --markdown`, today."""
    assert run(["gap", str(root / "instances" / "tri_domain"), "--markdown"]) == 0
    table = readme.split(BEGIN)[1].split(END)[0]
    assert table == capsys.readouterr().out


def test_links_lead_somewhere(root: Path) -> None:
    """Relative links in the documents name files that exist."""
    documents = [path for path in root.rglob("*.md") if ".venv" not in path.parts]
    assert len(documents) > 5
    for document in documents:
        for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text()):
            assert (document.parent / target).exists(), (document, target)


def test_the_package_docstring_example_runs(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first thing that help(moeopt) shows."""
    import doctest

    import moeopt

    monkeypatch.chdir(root)
    found = doctest.testmod(moeopt)
    assert (found.attempted, found.failed) == (4, 0)
