"""The cards of docs/index.md: every command and program runs, and prints what stands below it."""

import re
import runpy
import shlex
from pathlib import Path
from textwrap import dedent

import pytest

import moeopt
from tests.exporters.test_export_exact_model import gurobi_form, solved
from tests.rooms.cli import run

CARD = re.compile(r"^ *```(sh|python|text)\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
SOLVED = "instances/cache/mixtral/mixtral-coding-threads24.json.gz"


def test_the_cards_do_what_they_say(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A card shows lines of an output, in their order; of tables the first columns that fit."""
    (tmp_path / "instances").symlink_to(root / "instances")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("COLUMNS", "48")
    instance = moeopt.load(SOLVED)
    Path("answer.sol").write_text(gurobi_form(*solved(instance)))
    cards = (root / "docs" / "index.md").read_text().partition('class="grid"')[2]
    shown = 0
    for kind, block in CARD.findall(cards):
        text = dedent(block)
        if kind == "sh":
            for line in text.splitlines():
                program, *words = shlex.split(line)
                assert (program, run(words)) == ("moeopt", 0)
        elif kind == "python" and text.startswith("def "):
            Path("mine.py").write_text(text)
        elif kind == "python":
            Path("program.py").write_text(text)
            runpy.run_path("program.py")
        else:
            shown += 1
            printed = iter([line.strip() for line in capsys.readouterr().out.splitlines()])
            for line in map(str.strip, text.splitlines()):
                assert any(one == line or one.startswith(f"{line}  ") for one in printed), line
    assert shown == 6
