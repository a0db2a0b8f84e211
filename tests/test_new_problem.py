"""formulations/TEMPLATE/README.md to the letter in a copy of the repository: tests are green."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import moeopt

NAME = "knapsack"
CACHES = (".git", ".*_cache", ".hypothesis", ".venv", "__pycache__", "site", "*.egg-info")
LEFT_OUT = shutil.ignore_patterns(*CACHES, Path(__file__).name)


@pytest.fixture
def copy(root: Path, tmp_path: Path) -> Path:
    """Copy the repository; the library's instances, which nothing changes, are linked."""
    target = tmp_path / "repository"

    def left_out(folder: str, names: list[str]) -> set[str]:
        library = {"instances"} if Path(folder) == root else set()
        return LEFT_OUT(folder, names) | library

    shutil.copytree(root, target, ignore=left_out)
    (target / "instances").mkdir()
    for path in (root / "instances").iterdir():
        if path.is_file():
            shutil.copy(path, target / "instances")
        elif path.name == "tools":
            shutil.copytree(path, target / "instances" / path.name, ignore=LEFT_OUT)
        elif (path / "index.json").is_file():
            (target / "instances" / path.name).symlink_to(path)
    return target


def run(copy: Path, *command: str) -> str:
    """Run a command in the copy with this Python; return what it printed."""
    if command[0] in ("python", "pytest", "ruff", "mypy"):
        module = [] if command[0] == "python" else ["-m", command[0]]
        command = (sys.executable, *module, *command[1:])
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{shlex.join(command)}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def steps(root: Path) -> list[list[str]]:
    """Return the commands of the template's README."""
    text = (root / "formulations" / "TEMPLATE" / "README.md").read_text()
    [block] = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    lines = [part for line in block.splitlines() for part in line.split(" && ")]
    return [shlex.split(line) for line in lines]


@pytest.mark.slow
def test_the_template_becomes_a_problem(root: Path, copy: Path) -> None:
    """Every command but mypy and the whole contract; then all else.

    That is: whatever of the suite is done for every problem, the list of problems, solving, and a
    report on its instances.
    """
    *commands, tests = steps(root)
    assert tests[0] == "pytest"
    for command in commands:
        if command[0] != "mypy":
            run(copy, *command)
    registry = "moeopt/problems/registry.py"
    lines, before = ((at / registry).read_text().splitlines() for at in (copy, root))
    assert [line for line in lines if line not in before] == [
        f"    {NAME},",
        f'    "{NAME}": {NAME}.PROBLEM,',
    ]
    everywhere = ("tests/instances", "tests/exporters/test_export_exact_model.py")
    face = ("tests/test_public_face.py", "tests/study/test_campaign.py")
    chosen = f"{NAME} or cheap or real_signatures or help_lists or lists_the_families or group"
    said = run(
        copy, *tests, *everywhere, *face, "-k", chosen, "-n", "0", "-q", "-p", "no:cacheprovider"
    )
    assert int(re.findall(r"(\d+) passed", said)[0]) > 20
    run(copy, "ruff", "check", ".")
    run(copy, "ruff", "format", "--check", ".")
    assert NAME in run(copy, "python", "-m", "moeopt", "list", "problems")
    report = copy / "report"
    run(copy, "python", "-m", "moeopt", "gap", f"instances/{NAME}", "--report", str(report))
    assert "Which experts stay in GPU memory" in (report / "index.html").read_text()


@pytest.mark.slow
def test_the_readme_to_the_letter(root: Path, copy: Path) -> None:
    """Every command, mypy and the whole contract among them, and the documents with the site."""
    for command in steps(root):
        run(copy, *command)
    run(copy, "pytest", "-q", "tests/test_documents.py", "tests/test_quality.py")


def test_names_that_cannot_be_used(root: Path, copy: Path) -> None:
    """One line, and nothing is written."""
    script = [sys.executable, "formulations/new_problem.py"]
    for name, letters, says in (
        ("tri_domain", "XY", "name: "),
        ("Knapsack", "XY", "name: must be"),
        (NAME, "TD", "letters: must be"),
        (NAME, "xy", "letters: must be"),
    ):
        done = subprocess.run([*script, name, letters], cwd=copy, capture_output=True, text=True)
        assert done.returncode == 1
        assert done.stderr.startswith(says)
        assert not (copy / "moeopt" / "problems" / NAME).exists()
    assert moeopt.methods("tri_domain")


def test_files_are_in_order_whatever_the_name(copy: Path) -> None:
    """Lines are short enough, and imports sorted: ruff has nothing to say."""
    for name, letters in (("elevenchars", "QX"), ("a_rather_long_name", "QY"), ("zz", "QZ")):
        run(copy, "python", "formulations/new_problem.py", name, letters)
    run(copy, "ruff", "check", "moeopt/problems", "tests/problems", "formulations")
    run(copy, "ruff", "format", "--check", "moeopt/problems", "tests/problems")
