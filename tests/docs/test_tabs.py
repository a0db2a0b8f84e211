"""Tabs for shell and Python on the pages of the site: each pair does one thing in two ways."""

import re
import runpy
import shlex
from pathlib import Path

import pytest

from tests.rooms.cli import run
from tests.test_documents import PYTHON

PAIR = re.compile(
    r"^```sh\n((?:(?!```).)*)^```\n+```python\n((?:(?!```).)*)^```$", re.DOTALL | re.MULTILINE
)
PAGES = ("predict", "compare", "campaigns", "later", "export")


def pairs_of(text: str) -> list[tuple[str, str]]:
    """Return commands, each with the program right below it."""
    return [(found[1], found[2]) for found in PAIR.finditer(text)]


@pytest.mark.parametrize("page", [page for page in PAGES if page != "compare"])
def test_the_program_runs(
    page: str,
    root: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In a folder with the files that the page speaks of; the page's own test runs the command.

    tests/test_documents.py runs the program of docs/compare.md, which takes longer.
    """
    (tmp_path / "instances").symlink_to(root / "instances")
    monkeypatch.chdir(tmp_path)
    docs = root / "docs"
    campaign = re.findall(r"```toml\n(.*?)```", (docs / "campaigns.md").read_text(), re.DOTALL)[0]
    Path("campaign.toml").write_text(campaign)
    routing = (docs / "system.md").read_text().partition("\n## Routing\n")[2]
    Path("counts.py").write_text(PYTHON.findall(routing)[0][0])
    runpy.run_path("counts.py")
    [(shell, python)] = pairs_of((docs / f"{page}.md").read_text())
    if page == "predict":  # its program reads what the first command writes
        assert run(shlex.split(shell.splitlines()[0])[1:]) == 0
    Path("program.py").write_text(python)
    capsys.readouterr()
    runpy.run_path("program.py")
    assert capsys.readouterr().out or page == "campaigns"


def test_the_site_shows_them_as_tabs(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command alone, and a program below an output, stay as they are."""
    monkeypatch.syspath_prepend(str(root / "docs"))
    hook = runpy.run_path(str(root / "docs" / "build.py"))
    command, program = "```sh\nmoeopt list\n```", "```python\nimport moeopt\n```"
    made = hook["BOTH_WAYS"].sub(hook["tabs"], f"{command}\n\n{program}\n")
    assert made.count("=== ") == 2
    assert "    moeopt list\n" in made
    for apart in (f"{command}\n\nprints\n\n{program}", command, program):
        assert hook["BOTH_WAYS"].sub(hook["tabs"], apart) == apart
    for page in PAGES:
        text = (root / "docs" / f"{page}.md").read_text()
        assert len(hook["BOTH_WAYS"].findall(text)) == len(pairs_of(text)) == 1
