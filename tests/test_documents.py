"""README and guides: every example runs, every number is what the command gives today."""

import importlib.util
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from moeopt.cli.main import run
from moeopt.problems.registry import PROBLEMS

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


def test_the_tutorials_commands_run(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those of docs/tutorial.md in their order; each does what it says and exits with 0."""
    (tmp_path / "instances").symlink_to(root / "instances")
    monkeypatch.chdir(tmp_path)
    blocks = SHELL.findall((root / "docs" / "tutorial.md").read_text())
    commands = [line for block in blocks for line in block.splitlines()]
    assert len(commands) == 13
    for command in commands:
        program, *arguments = shlex.split(command)
        assert (program, run(arguments)) == ("moeopt", 0), command
    assert "optimal" in capsys.readouterr().out


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


def test_the_problems_pages_are_what_the_command_writes(root: Path) -> None:
    """`docs/build.py`, today, for every problem and the index."""
    spec = importlib.util.spec_from_file_location("docs_build", root / "docs" / "build.py")
    assert spec is not None
    assert spec.loader is not None
    build = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(build)
    pages = {f"{name}.md": build.page(name) for name in PROBLEMS} | {"README.md": build.index()}
    found = {path.name: path.read_text() for path in (root / "docs" / "problems").iterdir()}
    assert found == pages


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
